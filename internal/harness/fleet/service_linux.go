package fleet

import "syscall"

// serviceAttr is that of children whose standard input is not ours: they end with this process.
func serviceAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
