package sim

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/transport"
)

// The transfer of states, modelled after package sharding's (transfer.go there). The old
// home sends the states of a stopped shard as frames of class Bulk, and retransmits all of
// them until they are acknowledged. Only then does it report the shard as stopped. Both
// homes keep the states until the shard runs under a later token.

// stateFrame is one state, or the end of a shard's states with their count.
type stateFrame struct {
	typ     int
	shard   protocol.ShardID
	token   protocol.Token
	entity  int
	version uint64
	end     bool
	count   int
}

func (f *stateFrame) ofType() int { return f.typ }

type arrivalKey struct {
	shard protocol.ShardID
	from  nodeID
}

// arrival are the states of a shard that wait for it to be started here.
type arrival struct {
	token    protocol.Token
	states   map[int]uint64
	complete bool
}

// departure is a transfer on the side of the old home.
type departure struct {
	to       nodeID
	st       protocol.ShardToken
	states   map[int]uint64
	deadline clock.Instant
	// over is called with whether the states arrived.
	over func(arrived bool)
}

const transferResend = 500 * time.Millisecond

// howEnded is how the newest instance of a shard ended, which may explain a lost state.
type howEnded struct {
	node, to nodeID
	token    protocol.Token
	// begun is when its stop was ordered.
	begun instant
	// stopped is set when the instance no longer runs.
	stopped bool
	how     string
}

const (
	endedInOrder = "in order"
	// noTaker: all members drain, so no member takes the shard.
	noTaker = "no member to take it"
)

// transfer sends states to a shard's new home, and keeps a copy.
// It then reports the shard as stopped.
func (u *upper) transfer(st protocol.ShardToken, to nodeID, states map[int]uint64, within time.Duration) {
	end := &u.p.w.types[u.number].ends
	keep := func(arrived bool) {
		if e := (*end)[st.Shard]; !arrived && e.token == st.Token {
			e.how = "not transferred"
			(*end)[st.Shard] = e
		}
		if len(states) > 0 {
			u.arrivals[arrivalKey{st.Shard, u.p.node.ID}] = &arrival{st.Token, states, true}
			u.held(st, u.p.node.ID)
		}
		u.told(st.Shard, st.Token)
	}
	if len(states) == 0 || u.p.w.cfg.Mutant.Is("states are not sent") {
		keep(true)
		return
	}
	d := &departure{to: to, st: st, states: states, deadline: u.p.now().Add(within)}
	d.over = func(arrived bool) {
		if u.departures[st] == d {
			delete(u.departures, st)
			keep(arrived)
		}
	}
	u.departures[st] = d
	u.p.later(within, func() { d.over(false) })
	u.ship(d)
}

// ship sends all states of a transfer, and again while nothing is acknowledged.
func (u *upper) ship(d *departure) {
	u.p.later(transferResend, func() {
		switch {
		case !u.on || u.departures[d.st] != d:
		case u.p.layers.view.Member(d.to) == nil:
			d.over(false)
		default:
			u.ship(d)
		}
	})
	frames := make([]*stateFrame, 0, len(d.states)+1)
	for _, e := range slices.Sorted(maps.Keys(d.states)) {
		frames = append(frames, &stateFrame{typ: u.number, shard: d.st.Shard, token: d.st.Token, entity: e, version: d.states[e]})
	}
	u.shipFrames(d, append(frames, &stateFrame{typ: u.number, shard: d.st.Shard, token: d.st.Token, end: true, count: len(d.states)}))
}

// shipFrames waits for room where there is none.
func (u *upper) shipFrames(d *departure, frames []*stateFrame) {
	for i, f := range frames {
		err := u.p.send(d.to, transport.Bulk, frame{transport.KindEntity, f})
		if errors.Is(err, transport.ErrQueueFull) {
			u.p.later(5*time.Millisecond, func() {
				if u.on && u.departures[d.st] == d {
					u.shipFrames(d, frames[i:])
				}
			})
			return
		}
		if err != nil {
			return
		}
	}
}

// departed takes the acknowledgement of a transfer.
func (u *upper) departed(st protocol.ShardToken) {
	if d := u.departures[st]; d != nil {
		u.p.w.hit(markStateSent)
		d.over(true)
	}
}

// stateFrame takes a part of a transfer at the new home.
func (u *upper) stateFrame(from nodeID, f *stateFrame) {
	key := arrivalKey{f.shard, from}
	got := u.arrivals[key]
	if !f.end {
		if got == nil || got.token.Less(f.token) {
			got = &arrival{token: f.token, states: map[int]uint64{}}
			u.arrivals[key] = got
		}
		if got.token == f.token {
			got.states[f.entity] = f.version
		}
		return
	}
	if got == nil || got.token != f.token || len(got.states) != f.count {
		return
	}
	got.complete = true
	u.held(protocol.ShardToken{Shard: f.shard, Token: f.token}, from)
	u.answer(from, &entityFrame{typ: u.number, op: opStateAck, shard: f.shard, token: f.token})
}

// held reports to the region core that a shard's states wait here.
func (u *upper) held(st protocol.ShardToken, from nodeID) {
	u.put(func() { u.stepRegion(region.StateHeld{Shard: st.Shard, Token: st.Token, From: from}) })
}

func (u *upper) dropState(e region.DropState) {
	key := arrivalKey{e.Shard, e.From}
	if got := u.arrivals[key]; got != nil && got.token == e.Token && !u.p.w.cfg.Mutant.Is("states are kept for ever") {
		delete(u.arrivals, key)
	}
}

// kept returns the states that this process kept of an allocation of its own.
func (u *upper) kept(st protocol.ShardToken) map[int]uint64 {
	if got := u.arrivals[arrivalKey{st.Shard, u.p.node.ID}]; got != nil && got.token == st.Token {
		return got.states
	}
	return nil
}

// take returns the states that were received for a shard that starts.
func (u *upper) take(e region.StartShard) map[int]uint64 {
	if u.p.w.cfg.Mutant.Is("states are kept for ever") {
		for _, from := range u.p.w.everyID() {
			if got := u.arrivals[arrivalKey{e.Shard, from}]; got != nil && got.complete {
				return maps.Clone(got.states)
			}
		}
	}
	key := arrivalKey{e.Shard, e.From}
	got := u.arrivals[key]
	delete(u.arrivals, key)
	if got == nil || !got.complete || !got.token.Less(e.Token) {
		return nil
	}
	return maps.Clone(got.states)
}

// checkStates checks that a shard's entities begin with the states that they ended
// with, unless something happened in between that may cost a state.
func (u *upper) checkStates(h *hosted) {
	w := u.p.w
	t := w.types[u.number]
	for e := int(h.shard); e < u.spec.entities; e += u.spec.shards {
		lost, b := t.states.Started(time.Duration(w.now), e, h.states[e])
		w.judge(b)
		if h.states[e] != 0 {
			w.hit(markStateArrived)
		}
		if !lost {
			continue
		}
		if why := u.excuse(t.ends[h.shard]); why != "" {
			w.hit(markStateLost)
			w.event(u.p, "state lost", uint64(e), func() string { return "shard " + h.shard.String() + " " + why })
			continue
		}
		w.fail("G9", "%s starts shard %d of type %s (%s) without the state of entity %d, which %s ended %s",
			u.p.label, h.shard, u.spec.name, w.tokenText(h.token), e, w.name(t.ends[h.shard].node), t.ends[h.shard].how)
	}
}

// excuse returns the reason why a state may be lost, or "" if it must not be.
func (u *upper) excuse(e howEnded) string {
	w := u.p.w
	switch {
	case w.swarm.wrongEvidence || w.driftBroken:
		return "beyond the bounds"
	case e.how != endedInOrder && !w.swarm.orderly:
		return e.how
	case e.how == noTaker:
		return e.how
	case w.lastDeath >= e.begun:
		return "a process ended meanwhile"
	case w.newest.Member(e.to) == nil:
		return "its new home was removed"
	case !w.handedOver(e):
		return "its home was removed before it had handed over"
	case u.late():
		return "all other members had drained"
	}
	return ""
}

// late reports whether all other hosts of the type had drained before this process joined.
func (u *upper) late() bool {
	v := u.p.member.view
	for _, q := range u.p.w.running() {
		if q == u.p || v.Member(q.node.ID) == nil || !u.p.w.swarm.hosts(q.slot, u.spec) {
			continue
		}
		if in := q.layers.types[u.number].drainedIn; in == 0 || in >= v.Member(u.p.node.ID).Joined {
			return false
		}
	}
	return true
}

// handedOver reports whether the home of an instance is a member still, or has drained
// before it left.
func (w *world) handedOver(e howEnded) bool {
	if w.newest.Member(e.node) != nil {
		return e.stopped
	}
	p := w.byID[e.node]
	return p != nil && p.layers.drained
}
