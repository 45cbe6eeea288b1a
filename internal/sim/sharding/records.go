package sharding

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/internal/sim/replica"
	"github.com/peerage-go/peerage/replicator"
)

// records is the coordinator's store, as placement.DataStore keeps it: in the replicator of the
// type's role.
type records struct {
	m     *base
	store *replica.Driver
	// answer gives the coordinator core the outcome of a request, as another goroutine does.
	answer func(outcome func() coordinator.Event)
}

const (
	keyShards  = "/shards"
	keyRegions = "/regions"
	keyProxies = "/proxies"
)

func (s *records) fenceOf(term gossip.Epoch) replicator.Fence {
	return replicator.Fence{Group: s.m.spec.Name, Term: uint64(term)}
}

// deadline is that of a read or write that is made now. Where the phases of moves are short, it
// comes early, so that more outcomes stay unknown.
func (s *records) deadline() clock.Instant {
	if s.m.run.Config.BeginTimeout < time.Second {
		return s.store.Deadline()
	}
	return s.m.p.Now().Add(coordinator.StoreTimeout)
}

// writeRecords performs a coordinator's write and answers it.
func (s *records) writeRecords(w coordinator.Write) {
	if !s.m.site.on {
		return
	}
	u := replication.Update{Ops: s.operations(w), Level: s.store.WriteLevel(), Fence: s.fenceOf(w.Term), Deadline: s.deadline()}
	s.store.Update(u, func(a replication.Reply) {
		result, higher := placement.StoreResult(a.Err)
		s.answer(func() coordinator.Event {
			if result == coordinator.OK {
				s.m.checks.noteWritten(w)
			}
			return coordinator.WriteDone{ID: w.ID, Result: result, Higher: higher}
		})
	})
}

func (s *records) operations(w coordinator.Write) []operation.Op {
	self, name := crdt.NodeID(s.m.p.Node.ID), s.m.spec.Name
	var ops []operation.Op
	if len(w.Records) > 0 {
		ops = append(ops, replication.Mutate(name+keyShards, crdt.KindLWWMap, 64*len(w.Records), func(v crdt.Value) crdt.Value {
			m := v.(*crdt.LWWMap[string, string])
			var delta crdt.Value
			for _, rec := range w.Records {
				at := crdt.Stamp{Time: uint64(rec.Token.Term), Node: self, Seq: rec.Token.Seq}
				delta = replica.JoinDeltas(delta, m.Set(shardKey(rec.Shard), encodeRecord(rec), at))
			}
			return delta
		}))
	}
	sets := func(key string, add []gossip.NodeID) {
		if len(add)+len(w.Gone) == 0 {
			return
		}
		ops = append(ops, replication.Mutate(key, crdt.KindORSet, 64*len(add), func(v crdt.Value) crdt.Value {
			set := v.(*crdt.ORSet[string])
			var delta crdt.Value
			for _, n := range add {
				if !set.Contains(nodeKey(n)) {
					delta = replica.JoinDeltas(delta, set.Add(self, nodeKey(n)))
				}
			}
			for _, n := range w.Gone {
				delta = replica.JoinDeltas(delta, set.Remove(nodeKey(n)))
			}
			return delta
		}))
	}
	sets(name+keyRegions, w.Regions)
	sets(name+keyProxies, w.Proxies)
	return ops
}

// readRecords performs a coordinator's read and answers it.
func (s *records) readRecords(c coordinator.Read) {
	name := s.m.spec.Name
	if !s.m.site.on {
		return
	}
	r := replication.Read{Keys: []string{name + keyShards, name + keyRegions, name + keyProxies}, Fence: s.fenceOf(c.Term), Deadline: s.deadline()}
	s.store.Read(r, func(a replication.Reply) {
		done := coordinator.ReadDone{ID: c.ID}
		done.Result, done.Higher = placement.StoreResult(a.Err)
		if a.Err == nil {
			done.Records, done.Lost = decodeRecords(a.Values[0]), s.store.Lost()
			done.Regions, done.Proxies = decodeNodes(a.Values[1]), decodeNodes(a.Values[2])
		}
		s.answer(func() coordinator.Event { return done })
	})
}

func shardKey(s protocol.ShardID) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(s)))
}

func nodeKey(n gossip.NodeID) string { return string(binary.BigEndian.AppendUint64(nil, uint64(n))) }

func encodeRecord(r protocol.Record) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(r.Home))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Token.Term))
	b = binary.BigEndian.AppendUint64(b, r.Token.Seq)
	b = binary.BigEndian.AppendUint64(append(b, byte(r.State)), uint64(r.From))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Ended.Term))
	b = binary.BigEndian.AppendUint64(b, r.Ended.Seq)
	return string(binary.BigEndian.AppendUint64(append(b, r.Moves), uint64(r.Since)))
}

func decodeRecords(v crdt.Value) []protocol.Record {
	m, ok := v.(*crdt.LWWMap[string, string])
	if !ok || m == nil {
		return nil
	}
	var out []protocol.Record
	for k, text := range m.All() {
		b := []byte(text)
		out = append(out, protocol.Record{
			Shard: protocol.ShardID(binary.BigEndian.Uint32([]byte(k))),
			Home:  gossip.NodeID(binary.BigEndian.Uint64(b)),
			Token: protocol.Token{Term: gossip.Epoch(binary.BigEndian.Uint64(b[8:])), Seq: binary.BigEndian.Uint64(b[16:])},
			State: protocol.RecordState(b[24]),
			From:  gossip.NodeID(binary.BigEndian.Uint64(b[25:])),
			Ended: protocol.Token{Term: gossip.Epoch(binary.BigEndian.Uint64(b[33:])), Seq: binary.BigEndian.Uint64(b[41:])},
			Moves: b[49], Since: gossip.Epoch(binary.BigEndian.Uint64(b[50:])),
		})
	}
	slices.SortFunc(out, func(a, b protocol.Record) int { return int(a.Shard) - int(b.Shard) })
	return out
}

func decodeNodes(v crdt.Value) []gossip.NodeID {
	s, ok := v.(*crdt.ORSet[string])
	if !ok || s == nil {
		return nil
	}
	var out []gossip.NodeID
	for e := range s.All() {
		out = append(out, gossip.NodeID(binary.BigEndian.Uint64([]byte(e))))
	}
	slices.Sort(out)
	return out
}
