package activation

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/core/protocol"
)

// EntityState describes an instance for operators.
type EntityState = protocol.EntityState

// Describe returns the state of an entity's instance, and whether there is one. It runs no
// code of entities.
func Describe[C, Req, Resp any](s *Shard[C, Req, Resp], id string) (state EntityState, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in := s.entities.Find(id); in != nil {
		return in.describeAs(s.info.number, time.Since(s.host.began)), true
	}
	return state, false
}

// Search returns the states of the instances whose id contains text, sorted by id: the first
// most of them. It runs no user code. It holds the mutex for a comparison of each id.
func Search[C, Req, Resp any](s *Shard[C, Req, Resp], text string, most int) (found []EntityState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Since(s.host.began)
	for in := range s.entities.All() { // order-free: sorted below
		if !strings.Contains(in.id, text) {
			continue
		}
		if found = append(found, in.describeAs(s.info.number, now)); len(found) > 2*most {
			found = firstEntities(found, most)
		}
	}
	return firstEntities(found, most)
}

// firstEntities sorts found by id and returns the first most.
func firstEntities(found []EntityState, most int) []EntityState {
	slices.SortFunc(found, func(a, b EntityState) int { return cmp.Compare(a.ID, b.ID) })
	return found[:min(most, len(found))]
}

// countWaiting is called with the mutex of the shard.
func (in *instance[C, Req, Resp]) countWaiting() int {
	waiting := max(0, int(in.left.Load()))
	if in.mailbox != nil {
		waiting += len(in.mailbox.msgs)
	}
	return waiting
}

// describeAs is called with the mutex of the shard, when the Host began this long ago.
func (in *instance[C, Req, Resp]) describeAs(shard ShardID, host time.Duration) EntityState {
	return EntityState{
		Shard: shard, ID: in.id, Age: in.age(host), Waiting: uint64(in.countWaiting()), Running: in.state != resting,
	}
}
