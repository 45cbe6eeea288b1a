package sharding

import (
	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/daemon"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/core/residency"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/internal/sim/replica"
	"github.com/peerage-go/peerage/replicator"
)

// plans is the store of a daemon's plan, as placement.DataStore keeps it: a map in the
// replicator of the daemon's role.
type plans struct {
	m       *base
	records *records
	// seen is the digest of the map that this process has last taken.
	seen uint64
}

const keyPlan = "/plan"

func (s *plans) mapKey() string { return s.m.spec.Name + keyPlan }

// readMap reads the map.
func (s *plans) readMap(v crdt.Value) daemon.State {
	m, ok := v.(*crdt.LWWMap[string, string])
	if !ok || m == nil {
		return daemon.State{}
	}
	return daemon.ReadState(m.All(), s.m.spec.Shards)
}

// local returns the state in this process's replica, and whether it has changed.
func (s *plans) local() (state daemon.State, changed bool) {
	v := s.records.store.Value(s.mapKey())
	if v == nil || v.Digest() == s.seen {
		return state, false
	}
	s.seen = v.Digest()
	return s.readMap(v), true
}

// performRemote performs an action of the core that waits for other nodes, and calls done once with
// its outcome.
func (s *plans) performRemote(a *residency.Action, done func(residency.Outcome)) {
	deadline := s.m.p.Now().Add(a.Timeout())
	switch a.Kind {
	case residency.ReadPlan:
		r := replication.Read{Keys: []string{s.mapKey()}, Deadline: deadline}
		if a.Term != 0 {
			r.Fence = s.records.fenceOf(a.Term)
		}
		s.records.store.Read(r, func(reply replication.Reply) {
			o := residency.Outcome{OK: reply.Err == nil}
			if o.OK {
				o.State = s.readMap(reply.Values[0])
			}
			done(o)
		})
	case residency.WritePlan:
		offer := s.offerOf(daemon.PlanEntry, a.Plan.Encode(), a.Plan.Rev)
		s.updateMap(s.changeOf(offer, acksOf(a.Gone), ""), s.records.fenceOf(a.Term), deadline, done)
	case residency.AckPlan:
		offer := s.offerOf(daemon.AckEntry(s.m.p.Node.ID), a.Ack.Encode(), a.Ack.Rev)
		s.updateMap(s.changeOf(offer, nil, ""), replicator.Fence{}, deadline, done)
	default:
		s.m.run.Fail("core", "%s: a daemon has action %d", s.m.p.Label, a.Kind)
	}
}

// wish stores the wished number of workers.
func (s *plans) wish(workers int) {
	s.m.p.Event("wishes workers", uint64(workers), nil)
	p := s.changeOf(nil, []string{daemon.WishEntry}, daemon.EncodeWish(workers))
	s.updateMap(p, replicator.Fence{}, s.records.store.Deadline(), func(residency.Outcome) {})
}

func (s *plans) updateMap(p operation.Plan, fence replicator.Fence, deadline clock.Instant, done func(residency.Outcome)) {
	op := operation.Op{Key: s.mapKey(), Kind: crdt.KindLWWMap, Plan: func(crdt.Value) (operation.Plan, error) { return p, nil }}
	u := replication.Update{Ops: []operation.Op{op}, Level: s.records.store.WriteLevel(), Fence: fence, Deadline: deadline}
	s.records.store.Update(u, func(reply replication.Reply) { done(residency.Outcome{OK: reply.Err == nil}) })
}

// offerOf is an entry under the stamp of its revision, which yields to a newer one.
func (s *plans) offerOf(entry, value string, rev daemon.Rev) *operation.Fixed {
	at := crdt.Stamp{Time: uint64(rev.Term), Node: crdt.NodeID(s.m.p.Node.ID), Seq: rev.Seq}
	return &operation.Fixed{Entry: entry, Value: value, Stamp: at, Yield: true}
}

// changeOf is the change that makes an offer, if it is not nil, and writes entries under stamps above
// all earlier ones: they get a value, or are deleted if it is "".
func (s *plans) changeOf(offer *operation.Fixed, entries []string, value string) operation.Plan {
	p := operation.Plan{Growth: 64 * (1 + len(entries)), Blind: true}
	if offer != nil {
		p.Fixed = []operation.Fixed{*offer}
	}
	apply := func(v crdt.Value, above []uint64) (delta crdt.Value) {
		m := v.(*crdt.LWWMap[string, string])
		if offer != nil {
			delta = replica.JoinDeltas(delta, m.Set(offer.Entry, offer.Value, offer.Stamp))
		}
		for i, entry := range entries {
			at := crdt.Stamp{Time: above[i] + 1, Node: crdt.NodeID(s.m.p.Node.ID)}
			if value == "" {
				delta = replica.JoinDeltas(delta, m.Delete(entry, at))
			} else {
				delta = replica.JoinDeltas(delta, m.Set(entry, value, at))
			}
		}
		return delta
	}
	if len(entries) == 0 {
		p.Apply = func(v crdt.Value) crdt.Value { return apply(v, nil) }
		return p
	}
	p.Entries = entries
	p.Stamped = func(v crdt.Value, above []uint64, _ uint64) crdt.Value { return apply(v, above) }
	return p
}

// acksOf returns the entries of nodes' acknowledgements.
func acksOf(nodes []gossip.NodeID) (entries []string) {
	for _, n := range nodes {
		entries = append(entries, daemon.AckEntry(n))
	}
	return entries
}
