package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/replicator"
)

// Durable keys: in some runs the words of the client (store.go) are kept in a file of each
// host, as package replicator's loop and disk do it: a step's changes are stored before its
// messages and answers leave. A new process loads its host's file, so an acknowledged word
// survives any crash, even of all hosts. Disks fail for a while, or for good. While a disk
// fails, its host refuses the words; coordinators, whose keys need no disk, continue.

// file holds the durable state of one role on a host.
type file struct {
	items  map[string]replication.Item
	memory replication.Memory
}

var errDisk = errors.New("the disk is full")

// durable reports whether a key is kept in files.
func (w *world) isDurable(key string) bool {
	return key == keyClient || w.cfg.Mutant.Is("records need the disk")
}

// planDisks has disks fail and work again until the run's faults end. In half of the runs
// those that fail then go on failing.
func (w *world) planDisks() {
	if !w.swarm.disks {
		return
	}
	w.After(w.diskRand.Duration(0, 2*w.swarm.diskEvery), func() {
		if w.calm {
			return
		}
		h := &w.hosts[w.diskRand.IntN(len(w.hosts))]
		w.setDisk(h, !h.diskFails)
		w.planDisks()
	})
}

func (w *world) setDisk(h *host, fails bool) {
	h.diskFails = fails
	w.event(h.proc, "disk fails", b2u(fails), nil)
	if fails {
		w.hit(markDiskFails)
	}
}

// mendDisks ends the failures of disks, or leaves them.
func (w *world) mendDisks() {
	if !w.swarm.disks || w.diskRand.Coin() {
		return
	}
	for i := range w.hosts {
		w.setDisk(&w.hosts[i], false)
	}
}

// openFile loads the host's file into the core.
func (r *replica) openFile() {
	w := r.p.w
	if !w.swarm.disks {
		return
	}
	h := &w.hosts[r.p.slot]
	if h.files == nil {
		h.files = make([]file, w.swarm.storeCount())
	}
	f := &h.files[r.role]
	for _, key := range slices.Sorted(maps.Keys(f.items)) {
		if err := r.core.Restore([]replication.Item{f.items[key]}); err != nil {
			w.fail("disk", "%s cannot take in its file: %v", r.p.label, err)
		}
	}
	if len(f.items) > 0 {
		w.hit(markRestored)
	}
	r.core.Recall(r.p.now(), f.memory, nil)
	r.unsaved = map[string]bool{}
}

// wallMillis is the wall clock, in milliseconds, when the process's clock stood at 0.
func (p *proc) wallMillis() uint64 {
	return uint64(1<<40 + int64(p.w.Now())/int64(time.Millisecond) - int64(p.now())/int64(time.Millisecond))
}

// save stores the changes of the last step before its effects are carried out.
// If the disk fails, save drops the sends, turns replies into errors with an unknown
// outcome, and reports the failure to the core.
func (r *replica) save() {
	w := r.p.w
	if !w.swarm.disks {
		return
	}
	for _, key := range r.fx.Changed {
		if w.isDurable(key) {
			r.unsaved[key] = true
		}
	}
	if len(r.unsaved) == 0 || r.diskKnown {
		return
	}
	h := &w.hosts[r.p.slot]
	if !h.diskFails || w.cfg.Mutant.Is("a failing disk counts") {
		if !h.diskFails {
			r.flush(h)
		}
		return
	}
	r.fx.Send = nil
	for i := range r.fx.Reply {
		if rep := &r.fx.Reply[i]; rep.Err == nil {
			rep.Err = fmt.Errorf("%w: %w", replicator.ErrOutcomeUnknown, errDisk)
		}
	}
	r.diskKnown = true
	r.core.DiskFails(errDisk)
	r.retryDisk()
}

func (r *replica) flush(h *host) {
	f := &h.files[r.role]
	if f.items == nil {
		f.items = map[string]replication.Item{}
	}
	for key := range r.unsaved { // order-free: each key by itself
		if it, ok := r.core.State(key); ok {
			f.items[key] = it
		} else {
			delete(f.items, key)
		}
	}
	clear(r.unsaved)
	f.memory = r.core.Memory(r.p.now())
}

// diskRetry is how often a disk that fails is tried again.
const diskRetry = 100 * time.Millisecond

func (r *replica) retryDisk() {
	r.p.later(diskRetry, func() {
		h := &r.p.w.hosts[r.p.slot]
		switch {
		case !r.p.layers.on:
		case h.diskFails:
			r.retryDisk()
		default:
			r.flush(h)
			r.diskKnown = false
			r.core.DiskFails(nil)
		}
	})
}

// checkWords holds, when all hosts are back and replicas equal, that every word that was
// ever acknowledged is there: a majority had stored it.
func (w *world) checkWords(q map[int]bool) {
	if !w.swarm.disks || len(q) < len(w.hosts) {
		return
	}
	for role := range w.durable {
		for i := range w.hosts {
			r := w.hosts[i].proc.layers.stores[role]
			if r == nil {
				continue
			}
			has := w.words(r)
			w.judge(w.durable[role].Missing(time.Duration(w.Now()), has))
			w.hit(markWordsKept)
			break
		}
	}
}

// words returns which of the client's words a replica has.
func (w *world) words(r *replica) func(string) bool {
	it, ok := r.core.State(keyClient)
	if !ok || it.Bytes == nil {
		return func(string) bool { return false }
	}
	v, err := crdt.Decode(crdt.KindORSet, it.Bytes)
	if err != nil {
		w.fail("disk", "%s holds a value that cannot be read: %v", r.p.label, err)
	}
	return v.(*crdt.ORSet[string]).Contains
}
