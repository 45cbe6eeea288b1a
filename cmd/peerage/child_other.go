//go:build !unix

package main

import "syscall"

// childAttr has nothing to set here: children end when their standard input does.
func childAttr() *syscall.SysProcAttr { return nil }
