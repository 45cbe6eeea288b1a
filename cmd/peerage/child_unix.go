//go:build unix

package main

import "syscall"

// childAttr keeps the terminal's Ctrl-C for the parent, which ends its children
// in order.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
