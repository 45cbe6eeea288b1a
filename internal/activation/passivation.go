package activation

import (
	"time"

	"github.com/peerage-go/peerage/internal/activation/evict"
	"github.com/zeebo/xxh3"
)

// shrinkEvery is the interval at which shards shrink to their share.
const shrinkEvery = time.Second

// share returns the maximum number of instances of each shard.
func (h *Host[C, Req, Resp]) share() int {
	limit := h.cfg.Passivation.Limit
	if h.cfg.Limit != nil {
		limit = int(h.cfg.Limit.Load())
	}
	return max(limit/max(int(h.hosted.Load()), 1), 1)
}

// shrink makes the shards keep to their shares until the Host is closed: a new shard
// reduces the share of each.
func (h *Host[C, Req, Resp]) shrink() {
	h.callEvery(shrinkEvery, func() bool {
		for i := range h.shards {
			if s := h.shards[i].Load(); s != nil {
				s.mu.Lock()
				s.keepTo(h.share(), nil)
				s.mu.Unlock()
			}
		}
		return true
	})
}

// touch records a message for an instance in the shard's order, and evicts instances if
// there are too many; called with the mutex.
func (s *Shard[C, Req, Resp]) touch(in *instance[C, Req, Resp]) {
	if !s.order.limited() {
		return
	}
	s.order.recordUse(in)
	s.keepTo(s.host.share(), in)
}

// keepTo ends instances until at most n are left, if the shard has a limit; called with
// the mutex. Without a lease no instance ends.
func (s *Shard[C, Req, Resp]) keepTo(n int, used *instance[C, Req, Resp]) {
	if !s.order.limited() || !s.order.exceeds(n) || s.stopping != nil || !s.host.cfg.Alive() {
		return
	}
	evicted := s.order.evictTo(n, used)
	for _, in := range evicted {
		s.endExcess(in)
	}
	clear(evicted) // so that they are not retained
}

// endExcess ends an evicted instance, now or when its mailbox is empty; called with the
// mutex.
func (s *Shard[C, Req, Resp]) endExcess(in *instance[C, Req, Resp]) {
	switch {
	case in.state != resting: // the entity belongs to the runner
		in.cold.endsWhenIdle = true
	case needsEnd[C](in.ent, false):
		in.retire = true
		s.startInstance(in)
	default:
		s.host.cfg.Counters.Passivated.Add(1)
		s.endResting(in)
	}
}

// endsWhenIdle reports whether the instance ends when its mailbox is empty; called with
// the mutex.
func (in *instance[C, Req, Resp]) endsWhenIdle() bool {
	return in.cold != nil && in.cold.endsWhenIdle && in.ent != nil && !in.stashed()
}

// evictionOrder is the order in which a shard evicts its instances; it belongs to the
// shard's mutex. The nil evictionOrder has no limit and does nothing.
type evictionOrder[C, Req, Resp any] struct {
	policy evict.Policy[*instance[C, Req, Resp]]
	// room is the limit that policy has.
	room int
	// evicted and skipped are buffers of evictTo.
	evicted []*instance[C, Req, Resp]
	skipped []*evict.Node[*instance[C, Req, Resp]]
}

func newEvictionOrder[C, Req, Resp any](kind evict.Kind, room int) *evictionOrder[C, Req, Resp] {
	return &evictionOrder[C, Req, Resp]{policy: evict.New[*instance[C, Req, Resp]](kind, room), room: room}
}

// limited reports whether there is a limit.
func (o *evictionOrder[C, Req, Resp]) limited() bool { return o != nil }

// addInstance gives an instance a place in the order, and reports whether it had none.
func (o *evictionOrder[C, Req, Resp]) addInstance(in *instance[C, Req, Resp]) bool {
	if !o.limited() {
		return false
	}
	x := in.needCold()
	if x.place.Value != nil {
		return false
	}
	x.place.Value, x.place.Hash, x.endsWhenIdle = in, xxh3.HashString(in.id), false
	o.policy.Add(&x.place)
	return true
}

// recordUse records a use of an instance.
func (o *evictionOrder[C, Req, Resp]) recordUse(in *instance[C, Req, Resp]) {
	if !o.addInstance(in) {
		o.policy.Touch(&in.cold.place)
	}
}

// dropInstance removes an instance that has ended.
func (o *evictionOrder[C, Req, Resp]) dropInstance(in *instance[C, Req, Resp]) {
	if x := in.cold; o.limited() && x != nil && x.place.Value != nil {
		o.policy.Remove(&x.place)
		x.place.Value = nil
	}
}

// exceeds sets the limit to n, and reports whether there are more instances.
func (o *evictionOrder[C, Req, Resp]) exceeds(n int) bool {
	if n != o.room {
		o.room = n
		o.policy.Resize(n)
	}
	return o.policy.Len() > n
}

// skippedMost bounds the instances that evictTo skips to find one that may end.
const skippedMost = 8

// evictTo removes and returns instances until at most n are left. The result is valid
// until the next call. An instance with stashed messages stays this time: its successor
// would only stash them again. The instance used, for which room is made, stays too; it may
// be nil.
func (o *evictionOrder[C, Req, Resp]) evictTo(n int, used *instance[C, Req, Resp]) []*instance[C, Req, Resp] {
	o.evicted, o.skipped = o.evicted[:0], o.skipped[:0]
	for o.policy.Len()+len(o.skipped) > n && len(o.skipped) < skippedMost {
		place := o.policy.Evict()
		if place == nil {
			break
		}
		in := place.Value
		if in == used || in.stashed() {
			o.skipped = append(o.skipped, place)
			continue
		}
		place.Value = nil
		o.evicted = append(o.evicted, in)
	}
	for _, place := range o.skipped {
		o.policy.Add(place)
	}
	clear(o.skipped)
	return o.evicted
}
