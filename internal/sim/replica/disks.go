package replica

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/process"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/replicator"
)

// Durable keys: in some runs the words of the client (words.go) are kept in a file of each
// host, as the loop and disk of internal/replica do it: a step's changes are stored before its
// messages and answers leave. A new process loads its host's file, so an acknowledged word
// survives any crash, even of all hosts. Disks fail for a while, or for good. While a disk
// fails, its host refuses the words; coordinators, whose keys need no disk, continue.

// Disks are those of all hosts.
type Disks struct {
	run   *run.Run
	facts Facts
	hosts []hostDisk
	// slots are the hosts of the processes, by node.
	slots map[gossip.NodeID]int
	// reached are by store when a sweep was first held by any replica.
	reached []map[uint64]virtual.Instant
}

// newDisks returns the disks of a run, which are empty.
func newDisks(r *run.Run, facts Facts) Disks {
	d := Disks{run: r, facts: facts, hosts: make([]hostDisk, r.Config.Nodes), slots: map[gossip.NodeID]int{}}
	for range r.Config.StoreCount() {
		d.reached = append(d.reached, map[uint64]virtual.Instant{})
	}
	return d
}

// hostDisk is the disk of a host.
type hostDisk struct {
	// files are by store. fails: nothing can be stored.
	files []file
	fails bool
}

// file holds the durable state of one role on a host.
type file struct {
	items  map[string]replication.Item
	memory replication.Memory
	// aside are the words that were set aside with the file, and are not in it again.
	aside map[string]bool
}

var errDisk = errors.New("the disk is full")

// isDurable reports whether a key is kept in files.
func (d *Disks) isDurable(key string) bool {
	if strings.HasPrefix(key, placement.RememberedPrefix) {
		return true
	}
	return key == keyWords || strings.HasPrefix(key, keyKept)
}

// PlanFailures has disks fail and work again until the run's faults end. In half of the runs
// those that fail then go on failing.
func (d *Disks) PlanFailures() {
	if !d.run.Config.Disks {
		return
	}
	r := d.run.Rand.Disk
	d.run.After(r.Duration(0, 2*d.run.Config.DiskEvery), func() {
		if d.run.Calm {
			return
		}
		slot := r.IntN(len(d.hosts))
		d.setFailing(slot, !d.hosts[slot].fails)
		d.PlanFailures()
	})
}

func (d *Disks) setFailing(slot int, fails bool) {
	d.hosts[slot].fails = fails
	d.run.Event(d.facts.LabelAt(slot), "disk fails", run.Number(fails), nil)
	if fails {
		d.run.Hit(coverage.DiskFails)
	}
}

// EndFailures ends the failures of disks, or leaves them.
func (d *Disks) EndFailures() {
	if !d.run.Config.Disks || d.run.Rand.Disk.Coin() {
		return
	}
	for slot := range d.hosts {
		d.setFailing(slot, false)
	}
}

// disk is the disk of one replicator.
type disk struct {
	p    *process.Process
	core *replication.Core
	fx   *replication.Effects
	on   func() bool

	disks *Disks
	host  *hostDisk
	store int
	// unsaved are the durable keys whose newest state is not in the host's file. reported
	// is set once the core has been notified that the disk fails.
	unsaved  map[string]bool
	reported bool
}

// openFor loads the host's file into the core.
func (d *Disks) openFor(p *process.Process, core *replication.Core, fx *replication.Effects, store int, on func() bool) *disk {
	r := d.run
	k := &disk{p: p, core: core, fx: fx, on: on, disks: d, host: &d.hosts[p.Slot], store: store, unsaved: map[string]bool{}}
	if k.host.files == nil {
		k.host.files = make([]file, r.Config.StoreCount())
	}
	d.slots[p.ID()] = p.Slot
	f := k.file()
	for _, key := range slices.Sorted(maps.Keys(f.items)) {
		if err := core.Restore([]replication.Item{f.items[key]}); err != nil {
			r.Fail("disk", "%s cannot take in its file: %v", p.Label, err)
		}
	}
	if len(f.items) > 0 {
		r.Hit(coverage.Restored)
	}
	core.Recall(p.Now(), f.memory)
	return k
}

func (k *disk) file() *file { return &k.host.files[k.store] }

// save stores the changes of the last step before its effects are carried out.
// If the disk fails, save drops the sends, turns replies into errors with an unknown
// outcome, and reports the failure to the core.
func (k *disk) save() {
	fx := k.fx
	if fx.SetAside {
		k.putAside()
	}
	for _, key := range slices.Concat(fx.Changed, fx.Forgotten) {
		if k.disks.isDurable(key) {
			k.unsaved[key] = true
		}
	}
	swept := k.disks.run.Config.Retain > 0 && k.noteSweep() != k.file().memory.Sweep
	if len(k.unsaved) == 0 && !swept || k.reported {
		return
	}
	if !k.host.fails {
		k.writeFile()
		return
	}
	fx.Send = nil
	for i := range fx.Reply {
		if rep := &fx.Reply[i]; rep.Err == nil {
			rep.Err = fmt.Errorf("%w: %w", replicator.ErrOutcomeUnknown, errDisk)
		}
	}
	k.reported = true
	k.core.DiskFails(errDisk)
	k.retryLater()
}

// putAside empties the file, whose keys the core has taken out.
func (k *disk) putAside() {
	r, f := k.disks.run, k.file()
	r.Hit(coverage.PutAside)
	k.checkAge()
	if f.aside == nil {
		f.aside = map[string]bool{}
	}
	for _, word := range decodeWords(k.p, f.items[keyWords]).Elements() {
		f.aside[word] = true
	}
	*f = file{aside: f.aside}
	clear(k.unsaved)
	for _, key := range k.core.KeptKeys() {
		k.unsaved[key] = true
	}
}

// noteSweep returns the sweep that the replica holds, and records when it was first held.
func (k *disk) noteSweep() uint64 {
	sweep, reached := k.core.Memory(k.p.Now()).Sweep, k.disks.reached[k.store]
	if _, before := reached[sweep]; !before {
		reached[sweep] = k.disks.run.Now()
	}
	return sweep
}

// checkAge checks that the sweep of a file that is set aside is older than Retain: the members
// make seventeen sweeps since, and sixteen in a Retain. Clocks beyond the bound may be faster.
func (k *disk) checkAge() {
	r, sweep := k.disks.run, k.file().memory.Sweep
	if age := r.Now().Sub(k.disks.reached[k.store][sweep]); age < r.Config.Retain && !r.Config.DriftBeyond {
		r.Fail("S4", "%s sets a file of sweep %d aside, which was reached %v ago; Retain is %v", k.p.Label, sweep, age, r.Config.Retain)
	}
}

// wordsSetAside returns whether the host of a node has set a word of a role aside.
func (d *Disks) wordsSetAside(role int) func(gossip.NodeID, string) bool {
	return func(id gossip.NodeID, word string) bool {
		slot, known := d.slots[id]
		files := d.hosts[slot].files
		return known && files != nil && files[role].aside[word]
	}
}

// writeFile writes what is unsaved into the file.
func (k *disk) writeFile() {
	f := k.file()
	if f.items == nil {
		f.items = map[string]replication.Item{}
	}
	for key := range k.unsaved { // order-free: each key by itself
		if it, ok := k.core.State(key); ok {
			f.items[key] = it
			if key == keyWords && len(f.aside) > 0 {
				held := decodeWords(k.p, it)
				maps.DeleteFunc(f.aside, func(word string, _ bool) bool { return held.Contains(word) })
			}
		} else {
			delete(f.items, key)
		}
	}
	clear(k.unsaved)
	f.memory = k.core.Memory(k.p.Now())
	f.memory.Agreed = k.core.Agreed()
}

// retryEvery is how often a disk that fails is tried again.
const retryEvery = 100 * time.Millisecond

func (k *disk) retryLater() {
	k.p.Later(retryEvery, func() {
		switch {
		case !k.on():
		case k.host.fails:
			k.retryLater()
		default:
			k.writeFile()
			k.reported = false
			k.core.DiskFails(nil)
		}
	})
}
