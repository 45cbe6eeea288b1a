//go:build unix

package main

import (
	"os"
	"syscall"
)

// childAttr keeps the terminal's Ctrl-C for the parent, which ends its children
// in order.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// hold stops a process where it is, with SIGSTOP, and release lets it go on.
func hold(p *os.Process) error    { return p.Signal(syscall.SIGSTOP) }
func release(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
