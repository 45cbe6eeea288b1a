package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/history"
)

// fleet is node processes that come and go: places a, b, c.., each with the process
// that stands there now, and all that ever stood there.
type fleet struct {
	dir      string
	counters int
	shards   int
	every    time.Duration
	// replicas is how many processes keep each count.
	replicas int
	// stateBytes is how large each count's state is made.
	stateBytes int
	// version counts restarts when nodes announce an app version (--app-version), else 0.
	version int

	// registers is how many replicated registers they use.
	registers int
	// files: each place has a directory for the files of its processes. disks: each
	// directory is a small disk.
	files, disks bool
	// mounted are the directories over which a disk is mounted.
	mounted []string
	// ahead is how far the wall clock of each place is set ahead.
	ahead []time.Duration

	// wall cuts the processes off from each other, nil in runs without cuts.
	wall *wall

	// list holds an address of each place at first: the contact points of all processes.
	list []string

	// minMembers is what the first processes wait for before a counter is placed.
	minMembers int

	now []*process // nil while no process runs at the place
	all []*process
}

func placeName(i int) string { return string(rune('a' + i)) }

// anyPort is where a process of a place listens when its port does not matter.
func (f *fleet) anyPort(i int) string { return net.JoinHostPort(f.host(i), "0") }

func (f *fleet) host(i int) string {
	if f.wall != nil {
		return placeHost(i)
	}
	return "127.0.0.1"
}

// start starts a process at a place.
// The process joins the running processes, or forms the cluster with the rest of the list.
// It listens at listen; port 0 means any port.
func (f *fleet) start(i int, listen string) (*process, error) {
	args := []string{"--load-counters", strconv.Itoa(f.counters), "--shards", strconv.Itoa(f.shards), "--load-every", f.every.String()}
	if f.replicas > 0 {
		args = append(args, "--replicas", strconv.Itoa(f.replicas))
	}
	if f.stateBytes > 0 {
		args = append(args, "--state-bytes", strconv.Itoa(f.stateBytes))
	}
	if f.minMembers > 0 {
		args = append(args, "--min-members", strconv.Itoa(f.minMembers))
	}
	if f.registers > 0 {
		args = append(args, "--load-registers", strconv.Itoa(f.registers), "--wall-offset", f.ahead[i].String())
	}
	if f.files {
		args = append(args, "--data-dir", f.dataDir(i))
	}
	if f.version > 0 {
		args = append(args, "--app-version", strconv.Itoa(f.version))
	}
	contacts := slices.Clone(f.list)
	for _, p := range f.now {
		if p == nil {
			continue
		}
		// The list names the first addresses, which some processes have left since.
		if r, _ := p.snapshot(); !slices.Contains(contacts, r.Listen) {
			contacts = append(contacts, r.Listen)
		}
	}
	args = append(args, "--join", strings.Join(contacts, ","))
	file := filepath.Join(f.dir, fmt.Sprintf("%s.%d.history", placeName(i), len(f.all)))
	p, err := startAt(placeName(i), file, listen, func(cmd *exec.Cmd) {
		if f.wall != nil {
			f.wall.behind(cmd, i)
		}
	}, args...)
	if err != nil {
		return nil, err
	}
	f.now[i], f.all = p, append(f.all, p)
	return p, nil
}

// up starts the whole fleet, one after the other.
func (f *fleet) up(ctx context.Context, nodes int) error {
	f.now, f.minMembers, f.ahead = make([]*process, nodes), nodes, make([]time.Duration, nodes)
	if err := f.makeDirs(nodes); err != nil {
		return err
	}
	hosts := make([]string, nodes)
	for i := range hosts {
		hosts[i] = f.host(i)
	}
	var err error
	if f.list, err = freeAddrs(hosts...); err != nil {
		return err
	}
	for i := range nodes {
		p, err := f.start(i, f.list[i])
		if err != nil {
			return err
		}
		if err := p.waitReady(ctx); err != nil {
			return err
		}
	}
	f.minMembers = 0
	return f.settle(ctx)
}

// makeDirs makes the directories of all places.
func (f *fleet) makeDirs(nodes int) error {
	if !f.files {
		return nil
	}
	for i := range nodes {
		if err := os.Mkdir(f.dataDir(i), 0o777); err != nil {
			return err
		}
		if !f.disks {
			continue
		}
		if err := mountDisk(f.dataDir(i), diskBytes); err != nil {
			return err
		}
		f.mounted = append(f.mounted, f.dataDir(i))
	}
	return nil
}

func (p *process) waitReady(ctx context.Context) error {
	select {
	case <-p.ready:
		return nil
	case <-p.gone:
		return p.failure()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// living returns the places where a process stands.
func (f *fleet) living() []int {
	var out []int
	for i, p := range f.now {
		if p != nil {
			out = append(out, i)
		}
	}
	return out
}

// settle waits until every process has reported a lease and exactly the living members.
// Reports from before the call do not count.
func (f *fleet) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settlePatience)
	defer cancel()
	since := time.Now()
	living := f.living()
	for {
		settled := true
		for _, i := range living {
			p := f.now[i]
			select {
			case <-p.gone:
				return p.failure()
			default:
			}
			r, _ := p.snapshot()
			settled = settled && r.Members == len(living) && r.Lease && p.lastHeard().After(since)
		}
		if settled {
			return nil
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("waiting until all of %d nodes see each other: %w\n%s", len(living), err, f.describe())
		}
	}
}

const settlePatience = 30 * time.Second

// describe returns the last report and the log of each process.
func (f *fleet) describe() string {
	out := ""
	for _, i := range f.living() {
		p := f.now[i]
		r, _ := p.snapshot()
		out += fmt.Sprintf("%s: %+v\n%s", p.name, r, p.stderr.String())
	}
	return out
}

// end ends every process that still runs.
func (f *fleet) end() {
	for _, p := range f.all {
		if p.waitedFor() {
			continue
		}
		// Gone meanwhile, or never held: both are as good.
		_ = release(p.cmd.Process)
		p.stop(5 * time.Second)
	}
	for _, dir := range f.mounted {
		_ = unmountDisk(dir) // the namespace's end unmounts it, too
	}
	f.mounted = nil
}

func (p *process) waitedFor() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// records reads the histories of all processes there ever were.
func (f *fleet) records() ([]history.Record, error) {
	var out []history.Record
	for _, p := range f.all {
		h, err := history.Read(p.history)
		if err != nil {
			return nil, err
		}
		out = append(out, h...)
	}
	return out, nil
}

// ids returns the incarnations of the process.
func (p *process) nodeIDs() []uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []uint64
	for id := range p.ids {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// totals sums what the callers of all processes saw.
func (f *fleet) totals() loadTotals {
	var t loadTotals
	for _, p := range f.all {
		r, _ := p.snapshot()
		t.add(r.Load)
	}
	return t
}
