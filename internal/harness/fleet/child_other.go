//go:build !unix

package fleet

import (
	"errors"
	"os"
	"syscall"
)

// ChildAttr has nothing to set here: children end when their standard input does.
func ChildAttr() *syscall.SysProcAttr { return nil }

var errNoSignals = errors.New("processes cannot be held on this system")

// hold and release need signals.
func hold(*os.Process) error    { return errNoSignals }
func release(*os.Process) error { return errNoSignals }

// terminate ends a process: there is no way to ask it.
func terminate(p *os.Process) error { return p.Kill() }

func serviceAttr() *syscall.SysProcAttr { return nil }
