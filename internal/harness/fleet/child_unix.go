//go:build unix

package fleet

import (
	"os"
	"syscall"
)

// ChildAttr keeps the terminal's Ctrl-C for the parent, which ends its children
// in order.
func ChildAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// hold stops a process where it is, with SIGSTOP, and release lets it go on.
func hold(p *os.Process) error    { return p.Signal(syscall.SIGSTOP) }
func release(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// terminate asks a process to end.
func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
