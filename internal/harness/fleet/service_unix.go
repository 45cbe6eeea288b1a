//go:build unix && !linux

package fleet

import "syscall"

// serviceAttr is that of children whose standard input is not ours.
func serviceAttr() *syscall.SysProcAttr { return ChildAttr() }
