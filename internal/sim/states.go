package sim

import (
	"time"

	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/sim/statemove"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/internal/transport"
)

// This file connects the Mover of a type with its process, and checks that no state is lost
// that must not be.

// stateFrame is a frame of a type's Mover.
type stateFrame struct {
	typ int
	*statemove.Frame
}

func (f *stateFrame) ofType() int { return f.typ }

// stateEnv is the statemove.Env of a type.
type stateEnv struct{ u *upper }

// SendState queues a frame on the bulk connection.
func (e stateEnv) SendState(to nodeID, f *statemove.Frame) error {
	return e.u.p.send(to, transport.Bulk, frame{transport.KindEntity, &stateFrame{e.u.number, f}})
}

// AckStates acknowledges the states of a shard.
func (e stateEnv) AckStates(to nodeID, st protocol.ShardToken) {
	e.u.answer(to, &entityFrame{typ: e.u.number, op: opStateAck, shard: st.Shard, token: st.Token})
}

// Later calls do after d.
func (e stateEnv) Later(d time.Duration, do func()) {
	e.u.p.later(d, func() {
		if e.u.on {
			do()
		}
	})
}

// Present reports whether a node is in the view.
func (e stateEnv) Present(id nodeID) bool { return e.u.p.layers.view.Member(id) != nil }

// StatesHeld reports to the region core that the states of a shard wait here.
func (e stateEnv) StatesHeld(st protocol.ShardToken, from nodeID) {
	e.u.put(func() { e.u.stepRegion(region.StateHeld{Shard: st.Shard, Token: st.Token, From: from}) })
}

// StatesSent reports a shard as stopped.
func (e stateEnv) StatesSent(st protocol.ShardToken, arrived bool) {
	ends := e.u.p.w.types[e.u.number].ends
	if end := ends[st.Shard]; !arrived && end.token == st.Token {
		end.how = "not transferred"
		ends[st.Shard] = end
	}
	e.u.told(st.Shard, st.Token)
}

// howEnded is how the newest instance of a shard ended, which may explain a lost state.
type howEnded struct {
	node, to nodeID
	token    protocol.Token
	// begun is when its stop was ordered.
	begun virtual.Instant
	// stopped is set when the instance no longer runs.
	stopped bool
	how     string
}

const (
	endedInOrder = "in order"
	// noTaker: all members drain, so no member takes the shard.
	noTaker = "no member to take it"
)

// checkStates checks that a shard's entities begin with the states that they ended
// with, unless something happened in between that may cost a state.
func (u *upper) checkStates(h *hosted) {
	w := u.p.w
	t := w.types[u.number]
	for e := int(h.shard); e < u.spec.entities; e += u.spec.shards {
		lost, b := t.states.Started(time.Duration(w.Now()), e, h.states[e])
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
