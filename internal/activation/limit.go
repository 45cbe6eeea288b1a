package activation

import (
	"time"

	"github.com/peerage-go/peerage/internal/activation/evict"
	"github.com/zeebo/xxh3"
)

// Passivation is sharding.Passivation, which documents it for users.
//
// The limit is divided evenly over the shards of the node, and each shard ends its own
// instances: the shard's mutex, which every message takes anyway, guards the order, so
// senders to different shards do not contend. One order for the whole node was rejected: it
// would use the room better when shards are uneven, but every message would take one lock.
// Hashed ids make shards even, and then the difference is small if the limit is many times
// the number of shards on a node. With few instances per shard, chance makes shards uneven,
// and one shard ends instances while another one has room.
type Passivation struct {
	// Limit is the maximum number of instances on a node; 0 means no limit.
	Limit int
	// Eviction selects the instances that end when the limit is exceeded.
	Eviction evict.Kind
}

// shrinkEvery is how often shards are made to keep to their share.
const shrinkEvery = time.Second

// share returns how many instances each shard may have.
func (h *Host[C, Req, Resp]) share() int {
	limit := h.cfg.Passivation.Limit
	if h.cfg.Limit != nil {
		limit = int(h.cfg.Limit.Load())
	}
	return max(limit/max(int(h.hosted.Load()), 1), 1)
}

// shrink makes the shards keep to their shares until the Host is closed: each got
// smaller when others came.
func (h *Host[C, Req, Resp]) shrink() {
	h.callEvery(shrinkEvery, func() bool {
		for i := range h.shards {
			if s := h.shards[i].Load(); s != nil {
				s.mu.Lock()
				if s.order != nil {
					s.keepTo(h.share(), nil)
				}
				s.mu.Unlock()
			}
		}
		return true
	})
}

// touch notes a message for an instance in the shard's order, and ends others if
// there are too many; called with the mutex.
func (s *Shard[C, Req, Resp]) touch(in *instance[C, Req, Resp]) {
	if !s.place(in) {
		s.order.Touch(&in.extra.place)
	}
	s.keepTo(s.host.share(), in)
}

// place gives an instance a place in the order, if it has none; called with the
// mutex.
func (s *Shard[C, Req, Resp]) place(in *instance[C, Req, Resp]) bool {
	x := in.more()
	if s.order == nil || x.place.Value != nil {
		return false
	}
	x.place.Value, x.place.Hash, x.leaving = in, xxh3.HashString(in.id), false
	s.order.Add(&x.place)
	return true
}

// asideMost bounds how many that stay are looked at to find one that goes.
const asideMost = 8

// keepTo ends instances until there are no more than n; called with the mutex.
// Without a lease nothing ends. One that has put messages aside stays, for this
// time: the next instance would only put them aside again. So does the one for which
// room is made, which may be nil.
func (s *Shard[C, Req, Resp]) keepTo(n int, used *instance[C, Req, Resp]) {
	if n != s.room {
		s.room = n
		s.order.Resize(n)
	}
	if s.order.Len() <= n || s.stopping != nil || !s.host.cfg.Alive() {
		return
	}
	var stay []*evict.Node[*instance[C, Req, Resp]]
	for s.order.Len()+len(stay) > n && len(stay) < asideMost {
		place := s.order.Evict()
		if place == nil {
			break
		}
		in := place.Value
		if in == used || in.stashed() {
			stay = append(stay, place)
			continue
		}
		place.Value = nil
		s.dismiss(in)
	}
	for _, place := range stay {
		s.order.Add(place)
	}
}

// dismiss ends an instance that had to go, now or when it has worked off its mail;
// called with the mutex.
func (s *Shard[C, Req, Resp]) dismiss(in *instance[C, Req, Resp]) {
	switch {
	case in.state != resting: // what it is made of is its runner's
		in.extra.leaving = true
	case needsEnd[C](in.ent, false):
		in.retire = true
		s.begin(in)
	default:
		s.host.cfg.Counters.Passivated.Add(1)
		s.remove(in)
	}
}

// leaving reports whether the instance was to end once its mail is worked off;
// called with the mutex.
func (in *instance[C, Req, Resp]) leaving() bool {
	return in.extra != nil && in.extra.leaving && in.ent != nil && !in.stashed()
}

// displace takes an instance that is no more out of the order; called with the
// mutex.
func (s *Shard[C, Req, Resp]) displace(in *instance[C, Req, Resp]) {
	if x := in.extra; s.order != nil && x != nil && x.place.Value != nil {
		s.order.Remove(&x.place)
		x.place.Value = nil
	}
}
