package machine

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// clockTicks is how many ticks a second has in /proc: 100 on all of Go's platforms.
const clockTicks = 100

// readUsage reads the processor time of the machine and of the run: this process, its
// children that have ended, and those that live.
func readUsage(pids []int) (u usage) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u
	}
	line, _, _ := strings.Cut(string(b), "\n")
	fields := strings.Fields(line)
	for i, f := range fields[min(1, len(fields)):] {
		n, err := strconv.ParseFloat(f, 64)
		if err != nil || i > stealColumn { // guests are counted as users
			break
		}
		switch u.total += n / clockTicks; i {
		case idleColumn, waitColumn:
		case stealColumn:
			u.stolen = n / clockTicks
		default:
			u.busy += n / clockTicks
		}
	}
	for _, of := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var r syscall.Rusage
		if syscall.Getrusage(of, &r) == nil {
			u.ours += float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
		}
	}
	for _, pid := range pids {
		u.ours += processTime(pid)
	}
	return u
}

// The columns of /proc/stat, behind the name.
const (
	idleColumn  = 3
	waitColumn  = 4
	stealColumn = 7
)

// processTime returns the processor time of a process, in seconds; 0 if it has ended.
func processTime(pid int) float64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name, in parentheses, may contain spaces.
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	const user, system = 11, 12
	if len(fields) <= system {
		return 0
	}
	a, err := strconv.ParseFloat(fields[user], 64)
	c, err2 := strconv.ParseFloat(fields[system], 64)
	if err != nil || err2 != nil {
		return 0
	}
	return (a + c) / clockTicks
}
