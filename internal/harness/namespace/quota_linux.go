package namespace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cgroups are where the controller of processor time is, in version 2 and in version 1.
const (
	cgroup2 = "/sys/fs/cgroup"
	cgroup1 = "/sys/fs/cgroup/cpu"
)

// quotaPeriod is in which periods the kernel counts processor time.
const quotaPeriod = 100 * time.Millisecond

// Quota is a control group that limits the processor time of one process.
type Quota struct {
	dir string
	// home is the group that the process came from.
	home string
	pid  int
}

// LimitCPU limits a process to a part of one processor, until Release. It needs root and
// a writable controller of processor time.
func LimitCPU(pid int, part float64) (*Quota, error) {
	q := &Quota{pid: pid}
	quota := strconv.FormatInt(int64(part*float64(quotaPeriod.Microseconds())), 10)
	period := strconv.FormatInt(quotaPeriod.Microseconds(), 10)
	limits := map[string]string{"cpu.cfs_period_us": period, "cpu.cfs_quota_us": quota}
	root := cgroup1
	if controllers, err := os.ReadFile(filepath.Join(cgroup2, "cgroup.subtree_control")); err == nil && strings.Contains(string(controllers), "cpu") {
		root, limits = cgroup2, map[string]string{"cpu.max": quota + " " + period}
	}
	path, err := groupOf(pid, root == cgroup1)
	if err != nil {
		return nil, err
	}
	q.home, q.dir = filepath.Join(root, path), filepath.Join(root, fmt.Sprintf("peerage-chaos-%d", pid))
	if err := os.Mkdir(q.dir, 0o755); err != nil {
		return nil, fmt.Errorf("limiting processor time needs root and a writable control group: %w", err)
	}
	for file, value := range limits { // order-free: the period has the quota's default
		err = errors.Join(err, writeGroup(q.dir, file, value))
	}
	if err = errors.Join(err, writeGroup(q.dir, "cgroup.procs", strconv.Itoa(pid))); err != nil {
		return nil, errors.Join(err, q.Release())
	}
	return q, nil
}

// Throttled returns in how many periods the process had used up its time.
func (q *Quota) Throttled() (int, error) {
	b, err := os.ReadFile(filepath.Join(q.dir, "cpu.stat"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if n, found := strings.CutPrefix(line, "nr_throttled "); found {
			return strconv.Atoi(strings.TrimSpace(n))
		}
	}
	return 0, fmt.Errorf("%s/cpu.stat has no nr_throttled", q.dir)
}

// Release moves the process back to the group that it came from, and removes the limit.
func (q *Quota) Release() error {
	err := writeGroup(q.home, "cgroup.procs", strconv.Itoa(q.pid))
	return errors.Join(err, os.Remove(q.dir))
}

// groupOf returns the control group of a process in version 1 or 2.
func groupOf(pid int, first bool) (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(strings.TrimSpace(string(b))) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 && (first && strings.Contains(","+parts[1]+",", ",cpu,") || !first && parts[0] == "0") {
			return parts[2], nil
		}
	}
	return "", fmt.Errorf("process %d is in no control group of processor time: this fault needs Linux with cgroups", pid)
}

func writeGroup(dir, file, value string) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(value), 0o644)
}
