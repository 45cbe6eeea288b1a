package sharding

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/transport"
)

// A shard that moves in order takes its entities' states along:
//
//	old home: stop the entities, gather the states
//	          send state, state, ..., stateEnd(count)       class Bulk
//	new home: keep them; all there? send stateAck
//	old home: stateAck, or too late -> Stopped, to the coordinator
//
// and from there the move goes on as ever: write, HostShard, start. So the new home
// has the states before it is asked to start, and never waits. What was lost is
// sent again as a whole until it is acknowledged: states are kept by entity id, so
// that changes nothing.
//
// Both keep the states, and their region cores know it, until the shard is seen to
// live under a later token: a coordinator that takes office in between goes on where
// its predecessor stopped. If the new home dies before it has them, they go to another
// one; if it begins to leave, it starts the shard all the same, and passes it on.
//
// A state is lost when its shard lives without it. Of those that never arrived the old
// home knows that, when it sees the shard live, or ends itself; of those that were not
// taken the new home does. The latter cannot know that the old one has sent them
// elsewhere since, or has taken its own back: what it counts then is no loss. That
// happens when a coordinator passes a silent new home over, and hardly ever.
//
// The other way round, the new home fetching at its start, was rejected: it
// lengthens the time in which nobody serves the shard, and the old home must keep
// states for a node that may never come.

// transferResend is how long the old home waits for the ack of all it has sent.
const transferResend = 500 * time.Millisecond

// transfer sends the states of a stopped shard to its new home, and returns when
// they have arrived or the time is up.
func (sh *shell) transfer(to gossip.NodeID, st activation.Stopped, within time.Duration) (arrived bool) {
	if len(st.States) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(sh.s.ctx, within)
	defer cancel()
	acked := sh.s.departures.expect(departure{sh.info.name, st.Shard, st.Token})
	defer sh.s.departures.forget(departure{sh.info.name, st.Shard, st.Token})
	for {
		err := sh.sendStates(ctx, to, st)
		if len(st.States) == 0 {
			// None of them can travel.
			return true
		}
		select {
		case <-acked:
			sh.path.base().counters.statesOut.Add(uint64(activation.Travelling(st.States)))
			return true
		case <-ctx.Done():
		case <-time.After(transferResend):
			if v := sh.view.Load(); v.Member(to) != nil {
				continue
			}
			err = transport.ErrUnknownPeer
		}
		sh.s.log.Warn("sharding: states did not reach the new home", "type", sh.info.name,
			"shard", st.Shard, "to", to, "states", activation.Travelling(st.States), "error", errors.Join(err, ctx.Err()))
		return false
	}
}

// lose counts states that a shard lives without.
func (sh *shell) lose(states map[string][]byte, shard ShardID, why string) {
	n := activation.Travelling(states)
	sh.path.base().counters.statesLost.Add(uint64(n))
	if n > 0 {
		sh.s.log.Error("sharding: states are lost: "+why, "type", sh.info.name, "shard", shard, "states", n)
	}
}

func (sh *shell) sendStates(ctx context.Context, to gossip.NodeID, st activation.Stopped) error {
	var frame []byte
	for _, id := range slices.Sorted(maps.Keys(st.States)) {
		frame = frames.AppendState(frame[:0], sh.info.name, st.Shard, st.Token, id, st.States[id])
		err := sh.sendBulk(ctx, to, frame)
		if errors.Is(err, transport.ErrFrameTooLarge) {
			sh.path.base().counters.statesLost.Add(1)
			sh.s.log.Error("sharding: state too large to travel", "type", sh.info.name, "entity", id, "bytes", len(st.States[id]))
			delete(st.States, id)
			continue
		}
		if err != nil {
			return err
		}
	}
	return sh.sendBulk(ctx, to, frames.AppendStateEnd(frame[:0], sh.info.name, st.Shard, st.Token, len(st.States)))
}

// sendBulk waits for room.
func (sh *shell) sendBulk(ctx context.Context, to gossip.NodeID, frame []byte) error {
	for {
		err := sh.s.cfg.Links.Send(to, transport.Bulk, transport.KindEntity, frame)
		if !errors.Is(err, transport.ErrQueueFull) {
			return err
		}
		if err := sh.s.cfg.Links.WaitRoom(ctx, to, transport.Bulk); err != nil {
			return err
		}
	}
}

// handleState handles the frames of a transfer, on both sides.
func (s *service) handleState(from gossip.NodeID, frame []byte) error {
	switch frames.KindOf(frame) {
	case frames.KindState:
		m, id, state, err := frames.ParseState(frame)
		if err != nil {
			return err
		}
		s.arrivals.add(arrivalKey{string(m.Type), m.Shard, from}, m.Token, string(id), slices.Clone(state))
	case frames.KindStateEnd:
		m, count, err := frames.ParseStateEnd(frame)
		if err != nil {
			return err
		}
		key := arrivalKey{string(m.Type), m.Shard, from}
		if s.arrivals.complete(key, m.Token, count) {
			// The region core learns of the states before their former home does, and so
			// before that home reports the shard as stopped.
			s.stateHeld(key, m.Token)
			s.out.send(from, frames.AppendMarker(nil, frames.KindStateAck, key.typ, m.Shard, m.Token))
		}
	case frames.KindStateAck:
		m, err := frames.ParseMarker(frame)
		if err != nil {
			return err
		}
		s.departures.done(departure{string(m.Type), m.Shard, m.Token})
	}
	return nil
}

// keep keeps the states of a shard that was stopped here, for a coordinator that
// finds its move half done, or turns it to another home.
func (sh *shell) keep(st activation.Stopped, arrived bool) {
	if len(st.States) == 0 {
		return
	}
	key := arrivalKey{sh.info.name, st.Shard, sh.s.cfg.Self.ID}
	if sh.s.arrivals.put(key, st.Token, st.States, arrived) {
		sh.inbox.Put(region.StateHeld{Shard: st.Shard, Token: st.Token, From: key.from})
	} else if !arrived {
		sh.lose(st.States, st.Shard, "they did not arrive, and there is no room for them here")
	}
}

// stateHeld tells the region core that a shard's states have come.
func (s *service) stateHeld(k arrivalKey, token Token) {
	s.mu.Lock()
	sh := s.shells[k.typ]
	s.mu.Unlock()
	if sh != nil {
		sh.inbox.Put(region.StateHeld{Shard: k.shard, Token: token, From: k.from})
	}
}

// dropState forgets states whose shard lives elsewhere, or here without them.
func (sh *shell) dropState(e region.DropState) {
	got := sh.s.arrivals.discard(arrivalKey{sh.info.name, e.Shard, e.From}, e.Token)
	switch {
	case got == nil || e.Home == 0:
	case e.From == sh.s.cfg.Self.ID && !got.arrived:
		sh.lose(got.states, e.Shard, "they reached no other node, and the shard lives on "+e.Home.String())
	case e.From != sh.s.cfg.Self.ID && e.Home != e.From:
		sh.lose(got.states, e.Shard, "they came for nothing, the shard lives on "+e.Home.String())
	}
}

// loseKept counts what this node, which leaves, has kept alone.
func (sh *shell) loseKept() {
	lost := sh.s.arrivals.alone(sh.info.name, sh.s.cfg.Self.ID)
	for _, k := range slices.SortedFunc(maps.Keys(lost), func(a, b arrivalKey) int { return cmp.Compare(a.shard, b.shard) }) {
		sh.lose(lost[k], k.shard, "they reached no other node, and this one leaves")
	}
}

// departure names a transfer on the side of the old home.
type departure struct {
	typ   string
	shard ShardID
	token Token
}

// departures are the transfers that wait for their ack.
type departures struct {
	mu    sync.Mutex
	waits map[departure]chan struct{}
}

func (d *departures) expect(t departure) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waits == nil {
		d.waits = map[departure]chan struct{}{}
	}
	ch := make(chan struct{})
	d.waits[t] = ch
	return ch
}

func (d *departures) done(t departure) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if ch := d.waits[t]; ch != nil {
		close(ch)
		delete(d.waits, t)
	}
}

func (d *departures) forget(t departure) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.waits, t)
}

// arrivalKey names what came for a shard from its former home.
type arrivalKey struct {
	typ   string
	shard ShardID
	from  gossip.NodeID
}

// arrival is a transfer on the side of the new home.
type arrival struct {
	token    Token
	states   map[string][]byte
	bytes    int
	complete bool
	// arrived: these are kept by the old home, and the new one has them.
	arrived bool
	since   time.Time
}

// arrivals are the states that wait for their shard to be started here.
type arrivals struct {
	mu    sync.Mutex
	all   map[arrivalKey]*arrival
	bytes int
}

const (
	// arrivalsBytesMax bounds what waits, over all types.
	arrivalsBytesMax = 1 << 30
	// arrivalMax is how long part of a shard's states waits for the rest.
	arrivalMax = time.Minute
)

// add keeps one state. Those of an older allocation give way to those of a newer.
func (a *arrivals) add(k arrivalKey, token Token, id string, state []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	got := a.all[k]
	if got == nil || got.token.Less(token) {
		a.expire()
		a.drop(k)
		got = &arrival{token: token, states: map[string][]byte{}, since: time.Now()}
		a.all[k] = got
	}
	if got.token != token || a.bytes+len(state) > arrivalsBytesMax {
		return
	}
	got.bytes += len(state) - len(got.states[id])
	a.bytes += len(state) - len(got.states[id])
	got.states[id] = state
}

// put keeps the states of a whole shard, or reports that there is no room.
func (a *arrivals) put(k arrivalKey, token Token, states map[string][]byte, arrived bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drop(k)
	got := &arrival{token: token, states: states, since: time.Now(), complete: true, arrived: arrived}
	for _, state := range states { // order-free: a sum
		got.bytes += len(state)
	}
	if a.bytes+got.bytes > arrivalsBytesMax {
		return false
	}
	a.all[k] = got
	a.bytes += got.bytes
	return true
}

// kept returns a copy of what is kept of an allocation, and keeps it: who sends it on
// leaves out what cannot travel, while another goroutine may count what is kept.
func (a *arrivals) kept(k arrivalKey, token Token) map[string][]byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	if got := a.all[k]; got != nil && got.token == token {
		return maps.Clone(got.states)
	}
	return nil
}

// discard drops what is kept of an allocation and returns it, nil if nothing is.
func (a *arrivals) discard(k arrivalKey, token Token) *arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	got := a.all[k]
	if got == nil || got.token != token {
		return nil
	}
	a.drop(k)
	return got
}

// alone returns what was kept of a type's shards by their old home, self, and never
// arrived. It does so once: what it has returned is marked as arrived, so that nobody
// counts it as lost again.
func (a *arrivals) alone(typ string, self gossip.NodeID) map[arrivalKey]map[string][]byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[arrivalKey]map[string][]byte{}
	for k, got := range a.all {
		if k.typ == typ && k.from == self && !got.arrived {
			got.arrived = true
			out[k] = got.states
		}
	}
	return out
}

// complete reports whether all states of a transfer are here.
func (a *arrivals) complete(k arrivalKey, token Token, count int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	got := a.all[k]
	if got == nil || got.token != token || len(got.states) != count {
		return false
	}
	got.complete = true
	return true
}

// take hands out what came for an allocation of a shard from its former home.
func (a *arrivals) take(k arrivalKey, token Token) map[string][]byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	got := a.all[k]
	a.drop(k)
	if got == nil || !got.complete || !got.token.Less(token) {
		return nil
	}
	return got.states
}

// drop is called with the mutex.
func (a *arrivals) drop(k arrivalKey) {
	if a.all == nil {
		a.all = map[arrivalKey]*arrival{}
	}
	if got := a.all[k]; got != nil {
		a.bytes -= got.bytes
		delete(a.all, k)
	}
}

// expire drops transfers that were given up half way; called with the mutex. Of
// whole ones the region core says when they are of no use.
func (a *arrivals) expire() {
	for k, got := range a.all {
		if !got.complete && time.Since(got.since) > arrivalMax {
			a.drop(k)
		}
	}
}
