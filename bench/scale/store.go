package main

import (
	"maps"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// store has the records of one entity type, as a replicator with a majority shows them: the newest
// token of a shard counts, and a term below the highest that was seen is fenced. Replicators are not
// played, so records cost no bytes here.
type store struct {
	fence            gossip.Epoch
	records          map[protocol.ShardID]protocol.Record
	regions, proxies map[gossip.NodeID]bool
}

func newStore() *store {
	return &store{records: map[protocol.ShardID]protocol.Record{}, regions: map[gossip.NodeID]bool{}, proxies: map[gossip.NodeID]bool{}}
}

// A request to the store takes as long as an exchange with a majority.
const storeLeast, storeMost = 2 * latencyMax, 4 * latencyMax

// raiseFence reports whether a term may use the store, and the fence.
func (s *store) raiseFence(term gossip.Epoch) (coordinator.Result, gossip.Epoch) {
	if term < s.fence {
		return coordinator.Fenced, s.fence
	}
	s.fence = term
	return coordinator.OK, 0
}

func (s *store) writeRecords(w coordinator.Write) coordinator.WriteDone {
	done := coordinator.WriteDone{ID: w.ID}
	if done.Result, done.Higher = s.raiseFence(w.Term); done.Result != coordinator.OK {
		return done
	}
	for _, r := range w.Records {
		if !r.Token.Less(s.records[r.Shard].Token) {
			s.records[r.Shard] = r
		}
	}
	for _, id := range w.Regions {
		s.regions[id] = true
	}
	for _, id := range w.Proxies {
		s.proxies[id] = true
	}
	for _, id := range w.Gone {
		delete(s.regions, id)
		delete(s.proxies, id)
	}
	return done
}

func (s *store) readRecords(r coordinator.Read) coordinator.ReadDone {
	done := coordinator.ReadDone{ID: r.ID}
	if done.Result, done.Higher = s.raiseFence(r.Term); done.Result != coordinator.OK {
		return done
	}
	for _, shard := range slices.Sorted(maps.Keys(s.records)) {
		done.Records = append(done.Records, s.records[shard])
	}
	done.Regions, done.Proxies = slices.Sorted(maps.Keys(s.regions)), slices.Sorted(maps.Keys(s.proxies))
	return done
}

// useStore makes a request to the store of a type, and gives its coordinator the outcome later.
func (t *entityType) useStore(request func(*store) coordinator.Event) {
	w := t.n.w
	wait := w.run.Rand.Net.Duration(storeLeast, storeMost)
	t.n.p.Later(wait/2, func() {
		done := request(w.stores[t.number])
		t.n.p.Later(wait-wait/2, func() { t.putEvent(done) })
	})
}

// stepCosts sums up the time of the wall clock that the cores of all types took.
type stepCosts struct{ coordinators, regions time.Duration }
