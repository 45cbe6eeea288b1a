package replica

import (
	"errors"
	"time"

	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/process"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/replicator"
)

// Storage has what the replicators of all processes share.
type Storage struct {
	Disks  Disks
	Clocks Clocks

	run   *run.Run
	facts Facts
	// nodes are those of the running processes, by host.
	nodes []*Node
	// words check the client's words, by role; register the writes of the register.
	words    []invariant.Durable
	register register
}

// NewStorage returns the storage of a run.
func NewStorage(r *run.Run, facts Facts) *Storage {
	n := r.Config.Nodes
	return &Storage{
		run: r, facts: facts, nodes: make([]*Node, n), words: make([]invariant.Durable, len(r.Config.Roles)), register: newRegister(),
		Disks:  newDisks(r, facts),
		Clocks: Clocks{run: r, ahead: make([]time.Duration, n)},
	}
}

const (
	convergeBound = 10 * time.Second
	writeEvery    = 500 * time.Millisecond
)

// CheckLiveness checks what must hold of the hosts in q once they are one cluster: each can
// write the register, their replicas become equal (L2), and all durable words are there.
func (s *Storage) CheckLiveness(q map[int]bool) {
	if s.checkRegister(q) && !s.run.UntilTrue(convergeBound, 100*time.Millisecond, func() bool { return s.converged(q) }) {
		s.run.Fail("L2", "replicas differ %v after heal", convergeBound)
	}
	s.checkWords(q)
}

// Start starts the replicators of a process.
func (s *Storage) Start(p *process.Process, leaseValid func() bool) *Node {
	cfg := &p.Run.Config
	n := &Node{shared: shared{p: p, facts: s.facts, disks: &s.Disks, clocks: &s.Clocks, register: &s.register, leaseValid: leaseValid, on: true}}
	n.stores = make([]*Driver, cfg.StoreCount())
	for i := range n.stores {
		if !cfg.HasRole(p.Slot, cfg.RoleOf(i)) {
			continue
		}
		d := newDriver(&n.shared, i)
		n.stores[i] = d
		n.requests = append(n.requests, &requestClient{d: d, rand: p.Run.Rand.Request})
		if d.hasRegister() {
			n.register = &registerClient{d, &s.register}
		} else {
			n.words = append(n.words, &wordClient{d: d, checker: &s.words[i]})
			n.scratch = append(n.scratch, &scratchClient{d: d, rand: p.Run.Rand.Scratch})
		}
	}
	s.nodes[p.Slot] = n
	return n
}

// nodeAt returns the node on a host, nil if its process has ended.
func (s *Storage) nodeAt(slot int) *Node {
	if n := s.nodes[slot]; n != nil && n.shared.on {
		return n
	}
	return nil
}

// converged reports whether the replicas of q are equal, of each role (L2).
func (s *Storage) converged(q map[int]bool) bool {
	for store := range s.run.Config.StoreCount() {
		first, seen := uint64(0), false
		for i := range s.nodes {
			n := s.nodeAt(i)
			if !q[i] || n == nil || n.stores[store] == nil {
				continue
			}
			digest := n.stores[store].core.Digest()
			if seen && digest != first {
				return false
			}
			first, seen = digest, true
		}
	}
	return true
}

// checkRegister checks that each host in q can write the register, despite the stamps that
// its clocks have left, and reports whether each has. A value with a stamp ahead of the clocks stays on its writer alone
// until it is overwritten. So this check precedes the comparison of replicas. A host may still
// yield meanwhile, and join anew: then its next incarnation writes. A key whose eras are
// exhausted stays as it is until the clocks reach its stamp.
func (s *Storage) checkRegister(q map[int]bool) (all bool) {
	if !s.run.Config.Clocks {
		return true
	}
	all = true
	for i := range s.nodes {
		if !q[i] {
			continue
		}
		var last error
		written, next := false, s.run.Now()
		if !s.run.UntilTrue(convergeBound, 100*time.Millisecond, func() bool {
			if n := s.nodeAt(i); n != nil && s.run.Now() >= next {
				next = s.run.Now().Add(writeEvery)
				n.shared.p.Thread.Run(func() {
					n.overwriteStamped(func(err error) { last, written = err, written || err == nil })
				})
			}
			return written
		}) {
			if !s.register.exhausted || !errors.Is(last, replicator.ErrStamp) {
				s.run.Fail("L2", "host %d cannot write the register %v after the clocks were set right: %v", i, convergeBound, last)
			}
			all = false
		}
	}
	return all
}

// checkWords holds, when all hosts are back and replicas equal, that every word that was
// ever acknowledged is there: a majority had stored it. Of two lineages, one's words are lost.
// A word is also lost if all disks that had stored it were away for longer than Retain, while
// hosts without it founded the cluster anew: their files are then set aside (G7).
func (s *Storage) checkWords(q map[int]bool) {
	if !s.run.Config.Disks || s.run.Parts() || len(q) < len(s.nodes) {
		return
	}
	for role := range s.words {
		for i := range s.nodes {
			d := s.nodeAt(i).stores[role]
			if d == nil {
				continue
			}
			s.run.Judge(s.words[role].Missing(time.Duration(s.run.Now()), d.heldWords(), s.Disks.wordsSetAside(role)))
			s.run.Hit(coverage.WordsKept)
			break
		}
	}
}
