package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/fleet"
)

// Real is what processes on one machine took.
type Real struct {
	Processes int `json:"processes"`
	// Forming is the time from the first start until all processes report all members and a lease,
	// Gone that from the SIGKILL of a process until no other reports it, in seconds. Reports come
	// every 50 ms.
	Forming float64 `json:"forming"`
	Gone    float64 `json:"gone"`
	// RestBytes are sent by one process in a second at rest, LeaderBytes by the leader, and MostBytes
	// by the one that sends most. FormingBytes are those of all until the rest begins.
	RestBytes    float64 `json:"rest_bytes"`
	LeaderBytes  float64 `json:"leader_bytes"`
	MostBytes    float64 `json:"most_bytes"`
	FormingBytes uint64  `json:"forming_bytes"`
	// Goroutines, Descriptors and Memory are those of a process: the mean and the most.
	Goroutines  Spread `json:"goroutines"`
	Descriptors Spread `json:"descriptors"`
	Memory      Spread `json:"memory"`
	// Load is the load average of the machine, over a minute, at the end.
	Load string `json:"load"`
}

// Spread is the mean and the most of a figure.
type Spread struct {
	Mean float64 `json:"mean"`
	Most float64 `json:"most"`
}

const (
	// restFor is how long the rest is measured, and how long after the forming it begins.
	restFor = 5 * time.Second
	// lookEvery is the interval of looks at the reports.
	lookEvery = 10 * time.Millisecond
)

// processes are nodes on this machine.
type processes struct {
	all     []*fleet.Process
	release func()
}

// playProcesses starts processes, and measures their forming, their rest, and the end of one.
func playProcesses(o options, out io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), o.within)
	defer cancel()
	dir, err := os.MkdirTemp("", "peerage-scale-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "peerage")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/peerage")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building the nodes' program: %w", err)
	}
	ps, r := &processes{}, &Real{Processes: o.processes}
	defer ps.endAll()
	began := time.Now()
	if err := ps.startAll(o.processes, dir, binary); err != nil {
		return err
	}
	if err := ps.awaitAgreement(ctx, o.processes); err != nil {
		return err
	}
	r.Forming = time.Since(began).Seconds()
	if err := ps.measureRest(ctx, r); err != nil {
		return err
	}
	if r.Gone, err = ps.killOne(ctx); err != nil {
		return err
	}
	load, _ := os.ReadFile("/proc/loadavg")
	r.Load, _, _ = strings.Cut(string(load), " ")
	if o.json {
		return json.NewEncoder(out).Encode(r)
	}
	r.printFigures(out)
	return nil
}

// startAll starts the processes, each on an address of 127.0.0.0/8 of its own, as fast as this process
// can.
func (ps *processes) startAll(count int, dir, binary string) error {
	hosts := make([]string, count)
	for i := range hosts {
		hosts[i] = "127.0.0." + strconv.Itoa(i+1)
	}
	addrs, release, err := fleet.FreeAddrs(hosts...)
	if err != nil {
		return err
	}
	ps.release = release
	// A majority of all addresses must answer before a cluster forms.
	join := strings.Join(addrs, ",")
	for i, addr := range addrs {
		name := fleet.PlaceName(i)
		p, err := fleet.Start(name, filepath.Join(dir, name+".history"), addr, func(c *exec.Cmd) { c.Path = binary }, "--join", join, "--log", "error")
		if err != nil {
			return err
		}
		ps.all = append(ps.all, p)
	}
	return nil
}

// awaitAgreement waits until all living processes report so many members, and a lease.
func (ps *processes) awaitAgreement(ctx context.Context, members int) error {
	for {
		agreed := 0
		for _, p := range ps.all {
			if r, living := p.Snapshot(); living && r.Members == members && r.Lease {
				agreed++
			}
		}
		if agreed == members {
			return nil
		}
		for _, p := range ps.all {
			if _, living := p.Snapshot(); living && hasEnded(p) {
				return p.Failure()
			}
		}
		if harness.Pause(ctx, lookEvery) != nil {
			return fmt.Errorf("%d of %d processes agreed in time", agreed, members)
		}
	}
}

func hasEnded(p *fleet.Process) bool {
	select {
	case <-p.Gone:
		return true
	default:
		return false
	}
}

// measureRest measures what the processes send at rest, and what each takes.
func (ps *processes) measureRest(ctx context.Context, r *Real) error {
	if err := harness.Pause(ctx, restFor); err != nil {
		return err
	}
	before := ps.costs()
	if err := harness.Pause(ctx, restFor); err != nil {
		return err
	}
	for i, c := range ps.costs() {
		rate := float64(c.SentBytes-before[i].SentBytes) / c.At.Sub(before[i].At).Seconds()
		r.RestBytes += rate / float64(len(ps.all))
		r.MostBytes = max(r.MostBytes, rate)
		r.FormingBytes += before[i].SentBytes
		report, _ := ps.all[i].Snapshot()
		if report.Leader {
			r.LeaderBytes = rate
		}
		m, err := harness.FetchMetrics(ctx, report.HTTP)
		if err != nil {
			return err
		}
		for _, f := range []struct {
			to   *Spread
			name string
		}{{&r.Goroutines, "go_goroutines"}, {&r.Descriptors, "process_open_fds"}, {&r.Memory, "process_resident_memory_bytes"}} {
			f.to.Mean += m.Sum(f.name) / float64(len(ps.all))
			f.to.Most = max(f.to.Most, m.Sum(f.name))
		}
	}
	return nil
}

// costs returns the newest costs that each process has reported.
func (ps *processes) costs() (all []fleet.CostAt) {
	for _, p := range ps.all {
		last := fleet.CostAt{}
		if c := p.Costs(); len(c) > 0 {
			last = c[len(c)-1]
		}
		all = append(all, last)
	}
	return all
}

// killOne ends a process that does not lead with SIGKILL, and returns after how many seconds all
// others have a view without it.
func (ps *processes) killOne(ctx context.Context) (seconds float64, err error) {
	for _, p := range ps.all {
		if r, _ := p.Snapshot(); r.Leader {
			continue
		}
		began := time.Now()
		if err := p.Kill(); err != nil {
			return 0, err
		}
		err = ps.awaitAgreement(ctx, len(ps.all)-1)
		return time.Since(began).Seconds(), err
	}
	return 0, fmt.Errorf("all processes lead")
}

// endAll ends all processes.
func (ps *processes) endAll() {
	for _, p := range ps.all {
		// Ignore Kill's result: a process that has ended needs none.
		_ = p.Kill()
	}
	for _, p := range ps.all {
		<-p.Gone
	}
	if ps.release != nil {
		ps.release()
	}
}

// printFigures prints what was measured, in lines of at most 80 columns.
func (r *Real) printFigures(out io.Writer) {
	const mib = 1 << 20
	fmt.Fprintf(out, "%d processes on one machine, load %s\n", r.Processes, r.Load)
	fmt.Fprintf(out, "  forming            %8.2f s, %d KiB sent by all until %v later\n", r.Forming, r.FormingBytes>>10, restFor)
	fmt.Fprintf(out, "  SIGKILL gone       %8.2f s everywhere\n", r.Gone)
	fmt.Fprintf(out, "  sent at rest       %8.0f B/s a process, leader %.0f, most %.0f\n", r.RestBytes, r.LeaderBytes, r.MostBytes)
	for _, f := range []struct {
		name string
		of   Spread
		unit float64
	}{{"goroutines", r.Goroutines, 1}, {"descriptors", r.Descriptors, 1}, {"resident MiB", r.Memory, mib}} {
		fmt.Fprintf(out, "  %-18s %8.0f a process, most %.0f\n", f.name, f.of.Mean/f.unit, f.of.Most/f.unit)
	}
}
