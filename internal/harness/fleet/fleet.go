package fleet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/namespace"
	"github.com/peerage-go/peerage/internal/history"
)

// Fleet is node processes that come and go: places a, b, c.., each with the process
// that stands there now, and all that ever stood there.
type Fleet struct {
	Dir      string
	Counters int
	Shards   int
	Every    time.Duration
	// Service is what the processes run, nil for nodes.
	Service *Service
	// InFlight is how many requests of its load a process may have in flight, 0 for the default.
	InFlight int
	// Replicas is how many processes keep each count.
	Replicas int
	// StateBytes is how large each count's state is made.
	StateBytes int
	// Binary is the program of the processes that start from now on, "" for this program.
	Binary string
	// Version counts restarts when nodes announce an app version (--app-version), else 0.
	Version int

	// Flags are further flags of the nodes.
	Flags []string
	// Registers is how many replicated registers they use.
	Registers int
	// Set: they add elements to a replicated set.
	Set bool
	// Reliable: they send reliable messages to counters.
	Reliable bool
	// Files: each place has a directory for the files of its processes. Disks: each
	// directory is a small disk.
	Files, Disks bool
	// mounted are the directories over which a disk is mounted.
	mounted []string
	// Ahead is how far the wall clock of each place is set ahead.
	Ahead []time.Duration

	// Wall cuts the processes off from each other, nil in runs without cuts.
	Wall *namespace.Wall

	// List holds an address of each place at first: the contact points of all processes.
	List []string

	// releases end the reservations of the addresses.
	releases []func()

	// minMembers is what the first processes wait for before a counter is placed.
	minMembers int

	Now []*Process // nil while no process runs at the place
	mu  sync.Mutex // guards all against readers; one goroutine writes
	all []*Process
}

// PlacesMax is how many places a fleet can have.
const PlacesMax = 64

// PlaceName returns the name of the i-th place: a to z, then aa, ab and so on.
func PlaceName(i int) string {
	if i < 26 {
		return string(rune('a' + i))
	}
	return PlaceName(i/26-1) + PlaceName(i%26)
}

// FreeAddr returns an address at which the next process of a place can listen. No other
// process takes it until the end of the fleet, also while no process listens there.
func (f *Fleet) FreeAddr(i int) (string, error) {
	addrs, err := f.reserve(f.host(i))
	if err != nil {
		return "", err
	}
	return addrs[0], nil
}

// reserve returns a free address of each host, until the end of the fleet.
func (f *Fleet) reserve(hosts ...string) ([]string, error) {
	addrs, release, err := FreeAddrs(hosts...)
	if err == nil {
		f.releases = append(f.releases, release)
	}
	return addrs, err
}

func (f *Fleet) host(i int) string {
	if f.Wall != nil {
		return namespace.PlaceHost(i)
	}
	return "127.0.0.1"
}

// Start starts a process at a place.
// The process joins the running processes, or forms the cluster with the rest of the list.
// It listens at listen.
func (f *Fleet) Start(i int, listen string) (*Process, error) {
	p, err := f.startProcess(i, listen, f.contacts())
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.Now[i], f.all = p, append(f.all, p)
	f.mu.Unlock()
	return p, nil
}

// contacts returns where a new process finds the fleet.
func (f *Fleet) contacts() []string {
	contacts := slices.Clone(f.List)
	for _, p := range f.Now {
		if p == nil {
			continue
		}
		// The list names the first addresses, which some processes have left since.
		if r, _ := p.Snapshot(); !slices.Contains(contacts, r.Listen) {
			contacts = append(contacts, r.Listen)
		}
	}
	return contacts
}

// startProcess starts a node, or a process of the service.
func (f *Fleet) startProcess(i int, listen string, contacts []string) (*Process, error) {
	if f.Service != nil {
		return f.startService(i, listen, contacts)
	}
	return Start(PlaceName(i), f.fileOf(i)+".history", listen, func(cmd *exec.Cmd) {
		if f.Binary != "" {
			cmd.Path = f.Binary
		}
		if f.Wall != nil {
			f.Wall.Behind(cmd, i)
		}
	}, append(f.nodeArgs(i), "--join", strings.Join(contacts, ","))...)
}

// fileOf returns the name, without its ending, of the files of the next process, at a place.
func (f *Fleet) fileOf(i int) string {
	return filepath.Join(f.Dir, fmt.Sprintf("%s.%d", PlaceName(i), len(f.all)))
}

// nodeArgs returns the flags of a node at a place, without the one that lists the contact points.
func (f *Fleet) nodeArgs(i int) []string {
	args := []string{"--load-counters", strconv.Itoa(f.Counters), "--shards", strconv.Itoa(f.Shards), "--load-every", f.Every.String()}
	if f.InFlight > 0 {
		args = append(args, "--load-in-flight", strconv.Itoa(f.InFlight))
	}
	if f.Replicas > 0 {
		args = append(args, "--replicas", strconv.Itoa(f.Replicas))
	}
	if f.StateBytes > 0 {
		args = append(args, "--state-bytes", strconv.Itoa(f.StateBytes))
	}
	if f.minMembers > 0 {
		args = append(args, "--min-members", strconv.Itoa(f.minMembers))
	}
	if f.Registers > 0 {
		args = append(args, "--load-registers", strconv.Itoa(f.Registers), "--wall-offset", f.Ahead[i].String())
	}
	if f.Set {
		args = append(args, "--load-set")
	}
	if f.Reliable {
		args = append(args, "--load-reliable")
	}
	if f.Files {
		args = append(args, "--data-dir", f.DataDir(i))
	}
	if f.Version > 0 {
		args = append(args, "--app-version", strconv.Itoa(f.Version))
	}
	return append(args, f.Flags...)
}

// Up starts the whole fleet, one after the other.
func (f *Fleet) Up(ctx context.Context, nodes int) error {
	f.Now, f.minMembers, f.Ahead = make([]*Process, nodes), nodes, make([]time.Duration, nodes)
	if err := f.makeDirs(nodes); err != nil {
		return err
	}
	hosts := make([]string, nodes)
	for i := range hosts {
		hosts[i] = f.host(i)
	}
	var err error
	if f.List, err = f.reserve(hosts...); err != nil {
		return err
	}
	if f.Service != nil {
		return f.upService(ctx, hosts)
	}
	for i := range nodes {
		p, err := f.Start(i, f.List[i])
		if err != nil {
			return err
		}
		if err := p.WaitReady(ctx); err != nil {
			return err
		}
	}
	f.minMembers = 0
	return f.Settle(ctx)
}

// Size returns the number of places.
func (f *Fleet) Size() int { return len(f.Now) }

// Living returns the places where a process stands.
func (f *Fleet) Living() []int {
	var out []int
	for i, p := range f.Now {
		if p != nil {
			out = append(out, i)
		}
	}
	return out
}

// Settle waits until every process has reported a lease and exactly the living members.
// Reports that were made before the call do not count, however late they are read.
func (f *Fleet) Settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, SettlePatience)
	defer cancel()
	if f.Service != nil {
		return f.settleService(ctx)
	}
	since := clock.Boot().Now()
	living := f.Living()
	for {
		settled := true
		for _, i := range living {
			p := f.Now[i]
			select {
			case <-p.Gone:
				return p.Failure()
			default:
			}
			r, _ := p.Snapshot()
			settled = settled && r.Members == len(living) && r.Lease && r.At.After(since)
		}
		if settled {
			return nil
		}
		if err := harness.Pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("waiting until all of %d nodes see each other: %w\n%s", len(living), err, f.describe())
		}
	}
}

// describe returns the last report and the log of each process.
func (f *Fleet) describe() string {
	out := ""
	for _, i := range f.Living() {
		p := f.Now[i]
		r, _ := p.Snapshot()
		out += fmt.Sprintf("%s: %+v\n%s", p.Name, r, p.stderr.String())
	}
	return out
}

// End ends every process that still runs.
func (f *Fleet) End() {
	for _, p := range f.all {
		if p.waitedFor() {
			continue
		}
		// Gone meanwhile, or never held: both are as good.
		_ = p.Release()
		p.Stop(5 * time.Second)
	}
	for _, dir := range f.mounted {
		_ = namespace.UnmountDisk(dir) // the namespace's end unmounts it, too
	}
	f.mounted = nil
	for _, release := range f.releases {
		release()
	}
	f.releases = nil
}

// Records reads the histories of all processes there ever were.
func (f *Fleet) Records() ([]history.Record, error) {
	var out []history.Record
	for _, p := range f.all {
		if p.OfService() {
			continue
		}
		h, err := history.Read(p.History)
		if err != nil {
			return nil, err
		}
		out = append(out, h...)
	}
	return out, nil
}

// All returns all processes that ever stood at a place.
func (f *Fleet) All() []*Process { return slices.Clone(f.all) }

// PIDs returns the numbers of the processes that have not ended. It may be called by any
// goroutine.
func (f *Fleet) PIDs() (pids []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.all {
		if !p.waitedFor() {
			pids = append(pids, p.PID())
		}
	}
	return pids
}

// Totals sums what the callers of all processes saw.
func (f *Fleet) Totals() harness.Totals {
	var t harness.Totals
	for _, p := range f.all {
		r, _ := p.Snapshot()
		t.Add(r.Load)
	}
	return t
}

// Grow starts one more process.
func (f *Fleet) Grow(ctx context.Context) error {
	i := len(f.Now)
	f.Now = append(f.Now, nil)
	addr, err := f.FreeAddr(i)
	if err != nil {
		return err
	}
	p, err := f.Start(i, addr)
	if err != nil {
		return err
	}
	if err := p.WaitReady(ctx); err != nil {
		return err
	}
	return f.Settle(ctx)
}

// Even waits until no process has more than one shard more than another.
func (f *Fleet) Even(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, SettlePatience)
	defer cancel()
	for {
		least, most, _ := Spread(f, func(r harness.Report) int { return r.Shards })
		if most-least <= 1 {
			return nil
		}
		if err := harness.Pause(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("waiting until shards are even, now %d to %d: %w\n%s", least, most, err, f.describe())
		}
	}
}

// Spread returns the least, the most and the sum of what the nodes report.
func Spread(f *Fleet, of func(harness.Report) int) (least, most, all int) {
	for i, p := range f.Now {
		r, _ := p.Snapshot()
		n := of(r)
		if all += n; i == 0 {
			least = n
		}
		least, most = min(least, n), max(most, n)
	}
	return least, most, all
}

// makeDirs makes the directories of all places.
func (f *Fleet) makeDirs(nodes int) error {
	if !f.Files && f.Service == nil {
		return nil
	}
	for i := range nodes {
		if err := os.Mkdir(f.DataDir(i), 0o777); err != nil {
			return err
		}
		if !f.Disks {
			continue
		}
		if err := namespace.MountDisk(f.DataDir(i), diskBytes); err != nil {
			return err
		}
		f.mounted = append(f.mounted, f.DataDir(i))
	}
	return nil
}

// DataDir is where the processes of a place keep their files, one after the other.
func (f *Fleet) DataDir(i int) string { return filepath.Join(f.Dir, "data-"+PlaceName(i)) }
