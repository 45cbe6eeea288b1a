package entities

import (
	"fmt"
	"slices"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/internal/sim/replica"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// set is the store of remembered ids, as internal/placement keeps it: OR-sets in the replicator of
// the type's role.
type set struct {
	typ   string
	self  crdt.NodeID
	store *replica.Driver
}

func (s *set) keyOf(shard strategy.ShardID, part uint64) string {
	return fmt.Sprintf("%s%s/%d/%d", placement.RememberedPrefix, s.typ, shard, part)
}

// survives reports whether this process must have what a majority has stored.
func (s *set) survives(id *invariant.StoredID) bool { return s.store.MustHave(id.In, id.Voters) }

// readIDs reads the ids of a shard, one part after another, and calls done once.
func (s *set) readIDs(shard strategy.ShardID, deadline clock.Instant, done func(ids []string, ok bool)) {
	s.readPart(shard, 0, deadline, nil, done)
}

func (s *set) readPart(shard strategy.ShardID, part uint64, deadline clock.Instant, ids []string, done func([]string, bool)) {
	if part == placement.RememberedParts {
		slices.Sort(ids)
		done(ids, true)
		return
	}
	s.store.Read(replication.Read{Keys: []string{s.keyOf(shard, part)}, Deadline: deadline}, func(a replication.Reply) {
		if a.Err != nil {
			done(nil, false)
			return
		}
		if v, ok := a.Values[0].(*crdt.ORSet[string]); ok && v != nil {
			ids = slices.AppendSeq(ids, v.All())
		}
		s.readPart(shard, part+1, deadline, ids, done)
	})
}

// writeIDs adds and removes ids of a shard, and calls done once.
func (s *set) writeIDs(shard strategy.ShardID, add, remove []string, deadline clock.Instant, done func(ok bool)) {
	var adds, removes [placement.RememberedParts][]string
	for _, id := range add {
		part := placement.RememberedPart(id)
		adds[part] = append(adds[part], id)
	}
	for _, id := range remove {
		part := placement.RememberedPart(id)
		removes[part] = append(removes[part], id)
	}
	u := replication.Update{Level: s.store.WriteLevel(), Deadline: deadline}
	for part := range uint64(placement.RememberedParts) {
		if len(adds[part])+len(removes[part]) > 0 {
			u.Ops = append(u.Ops, s.changeOf(s.keyOf(shard, part), adds[part], removes[part]))
		}
	}
	s.store.Update(u, func(a replication.Reply) { done(a.Err == nil) })
}

// changeOf is the change of one part.
func (s *set) changeOf(key string, add, remove []string) operation.Op {
	return replication.Mutate(key, crdt.KindORSet, 32*len(add), func(v crdt.Value) crdt.Value {
		ids := v.(*crdt.ORSet[string])
		var delta crdt.Value
		for _, id := range add {
			if !ids.Contains(id) {
				delta = replica.JoinDeltas(delta, ids.Add(s.self, id))
			}
		}
		for _, id := range remove {
			delta = replica.JoinDeltas(delta, ids.Remove(id))
		}
		return delta
	})
}
