//go:build !unix

package main

import (
	"errors"
	"os"
	"syscall"
)

// childAttr has nothing to set here: children end when their standard input does.
func childAttr() *syscall.SysProcAttr { return nil }

var errNoSignals = errors.New("processes cannot be held on this system")

// hold and release need signals.
func hold(*os.Process) error    { return errNoSignals }
func release(*os.Process) error { return errNoSignals }
