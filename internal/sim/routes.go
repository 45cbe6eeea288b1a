package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/transport"
)

// route is the way to one shard, modelled after package sharding's: messages
// leave behind all that were taken in earlier, closing queues the marker in the
// same step, what is refused goes back to the head only if everything behind it
// was refused too, and a broken connection suspends the route until a new one
// stands.
type route struct {
	shard                            protocol.ShardID
	open, suspended, flushing, asked bool
	home                             nodeID
	token                            protocol.Token
	sent                             uint64
	buf, back                        []*message
	backNumbers                      []uint64
	settleOwner                      nodeID
	settleMark                       uint64
	// settleToken is that of the allocation to which the owner was sent messages.
	settleToken protocol.Token
}

// message is one tell or ask of a modelled sender.
type message struct {
	sender nodeID
	entity int
	shard  protocol.ShardID
	seq    uint64
	// probe marks those that liveness waits for.
	probe bool
	// call is not 0 for an ask.
	call uint64
}

func (m *message) from() callOf { return callOf{m.sender, m.call} }

type entityOp uint8

const (
	opTell entityOp = iota
	opRefused
	opMarker
	opMarkerAck
	opHello
	opHelloAck
	opReply
	opCancel
	opStateAck
	opFarewell
	opFarewellAck
)

// entityFrame travels on message connections. Token is that of the route for a
// tell; markers of routes themselves have a zero term.
type entityFrame struct {
	typ    int
	op     entityOp
	msg    *message
	shard  protocol.ShardID
	token  protocol.Token
	number uint64
	// call and outcome are those of a reply, or of an ask that is called off.
	call    uint64
	outcome outcomeOf
	// left is the time until an ask's deadline, by the sender's clock.
	left time.Duration
}

func (f *entityFrame) ofType() int { return f.typ }

func (r *route) free() bool {
	return r.open && !r.suspended && r.settleOwner == 0 && len(r.buf) == 0 && !r.flushing
}

func (u *upper) frame(to nodeID, f *entityFrame) error {
	f.typ = u.number
	return u.p.send(to, transport.Message, frame{transport.KindEntity, f})
}

// post sends a message on its way, or drops it when there is no room.
func (u *upper) post(m *message) {
	rt := &u.routes[m.shard]
	if !rt.free() && !(rt.open && m.seq%2 == 0 && u.p.w.cfg.Mutant.Is("flushed after a direct send")) {
		u.keep(rt, m)
		return
	}
	if rt.home == u.p.node.ID {
		u.at(m, rt.home)
		if !u.deliver(m, rt.token, u.deadline(m)) {
			rt.suspended = true
			u.keep(rt, m)
		}
		return
	}
	switch err := u.leaveRoute(rt, m); {
	case err == nil:
	case errors.Is(err, transport.ErrQueueFull):
		u.drop(m)
	default:
		rt.suspended = true
		u.keep(rt, m)
	}
}

func (u *upper) leaveRoute(rt *route, m *message) error {
	f := &entityFrame{op: opTell, msg: m, shard: m.shard, token: rt.token, number: rt.sent + 1}
	if m.call != 0 {
		c := u.calls[m.call]
		if c == nil {
			return nil // no caller waits
		}
		f.left = c.deadline.Sub(u.p.now())
	}
	u.at(m, rt.home)
	if err := u.frame(rt.home, f); err != nil {
		u.at(m, 0)
		return err
	}
	rt.sent++
	return nil
}

func (u *upper) keep(rt *route, m *message) {
	w := u.p.w
	if len(rt.buf) >= w.swarm.bufferMax {
		w.hit(markBufferFull)
		u.drop(m)
		return
	}
	u.at(m, 0)
	u.buffered++
	rt.buf = append(rt.buf, m)
	u.need(rt)
}

func (u *upper) need(rt *route) {
	if rt.open || rt.asked {
		return
	}
	rt.asked = true
	shard := rt.shard
	u.put(func() { u.stepRegion(region.NeedHome{Shards: []protocol.ShardID{shard}}) })
}

func (u *upper) closeRoute(rt *route, m *region.Marker) {
	rt.open, rt.suspended, rt.asked = false, false, false
	if m != nil {
		u.sendMarker(m.Owner, rt.shard, m.Token)
	}
	if len(rt.buf) > 0 {
		u.need(rt)
	}
}

func (u *upper) sendMarker(owner nodeID, shard protocol.ShardID, token protocol.Token) {
	if owner == u.p.node.ID {
		u.acked(owner, shard, token)
		return
	}
	_ = u.frame(owner, &entityFrame{op: opMarker, shard: shard, token: token})
}

func (u *upper) acked(from nodeID, shard protocol.ShardID, token protocol.Token) {
	u.put(func() {
		u.stepRegion(region.MarkerAcked{From: from, Shards: []protocol.ShardToken{{Shard: shard, Token: token}}})
	})
}

func (u *upper) openRoute(rt *route, home nodeID, token protocol.Token) {
	if rt.open && rt.home == home && rt.token == token && !rt.suspended {
		return
	}
	if rt.settleOwner != 0 && rt.settleOwner != home {
		u.sortBack(rt)
	}
	if old := rt.home; rt.open && !rt.suspended && old != home && old != u.p.node.ID && rt.settleOwner == 0 {
		// It turns without a Begin: what the old home refuses comes back first.
		u.settleWith(rt, old)
	}
	rt.open, rt.suspended, rt.asked = true, false, false
	rt.home, rt.token = home, token
	u.flow(rt)
}

// flow lets the buffer out, in order, as far as there is room.
func (u *upper) flow(rt *route) {
	for len(rt.buf) > 0 {
		if !rt.open || rt.suspended || rt.settleOwner != 0 || rt.flushing {
			return
		}
		m := rt.buf[0]
		var err error
		if rt.home != u.p.node.ID {
			err = u.leaveRoute(rt, m)
		} else if u.deliver(m, rt.token, u.deadline(m)) {
			u.at(m, rt.home)
			rt.sent++
		} else {
			err = errNotYet
		}
		if errors.Is(err, transport.ErrQueueFull) {
			u.flowLater(rt)
			return
		}
		if err != nil {
			rt.suspended = true
			return
		}
		rt.buf = rt.buf[1:]
		u.buffered--
	}
	if rt.open && rt.home == u.p.node.ID && rt.settleOwner == 0 {
		h := u.hosts[rt.shard]
		rt.suspended = h == nil || h.token != rt.token
	}
}

var errNotYet = errors.New("sim: home is not ready")

func (u *upper) flowLater(rt *route) {
	rt.flushing = true
	u.p.later(5*time.Millisecond, func() {
		rt.flushing = false
		if u.on {
			u.flow(rt)
		}
	})
}

// entityFrame takes what comes over a message or bulk connection.
func (u *upper) entityFrame(from nodeID, m typed) {
	f, ok := m.(*entityFrame)
	if !ok {
		u.stateFrame(from, m.(*stateFrame))
		return
	}
	switch f.op {
	case opTell:
		expires := clock.Never
		if f.msg.call != 0 {
			expires = u.p.now().Add(f.left)
		}
		if !u.deliver(f.msg, f.token, expires) {
			u.p.w.hit(markMisrouted)
			back := *f
			back.op = opRefused
			u.answer(from, &back)
		}
	case opReply:
		u.replied(f.call, f.outcome)
	case opCancel:
		u.gone[callOf{from, f.call}] = true
	case opStateAck:
		u.departed(protocol.ShardToken{Shard: f.shard, Token: f.token})
	case opFarewell:
		u.answer(from, &entityFrame{op: opFarewellAck})
	case opFarewellAck:
		u.p.layers.farewellAcked(from)
	case opRefused:
		u.refused(from, f)
	case opMarker:
		u.answer(from, &entityFrame{op: opMarkerAck, shard: f.shard, token: f.token})
	case opMarkerAck:
		u.markerAcked(from, f)
	case opHello:
		_ = u.frame(from, &entityFrame{op: opHelloAck})
	case opHelloAck:
		u.peerUp(from)
	}
}

func (u *upper) refused(from nodeID, f *entityFrame) {
	rt := &u.routes[f.shard]
	if !(rt.home == from && rt.token == f.token || rt.settleOwner == from) {
		u.misplace(f.shard, f.token, []*message{f.msg})
		u.p.w.event(u.p, "message lost", f.msg.seq, func() string {
			return u.p.w.name(from) + " refused " + u.p.w.tokenText(f.token) + " of shard " + f.shard.String() + ", home is " + u.p.w.name(rt.home) + " " + u.p.w.tokenText(rt.token)
		})
		return
	}
	u.at(f.msg, 0)
	rt.back = append(rt.back, f.msg)
	rt.backNumbers = append(rt.backNumbers, f.number)
	if rt.settleOwner != 0 {
		return
	}
	if rt.open {
		rt.open, rt.suspended, rt.asked = false, false, true
		shard, token := rt.shard, rt.token
		u.put(func() { u.stepRegion(region.Misrouted{Shard: shard, Token: token}) })
	}
	u.settleWith(rt, from)
}

// settleWith sends a marker; its ack means that all refusals of owner have arrived.
func (u *upper) settleWith(rt *route, owner nodeID) {
	u.markers++
	rt.settleOwner, rt.settleMark, rt.settleToken = owner, u.markers, rt.token
	u.sendMarker(owner, rt.shard, protocol.Token{Seq: rt.settleMark})
}

func (u *upper) markerAcked(from nodeID, f *entityFrame) {
	if f.token.Term != 0 {
		u.acked(from, f.shard, f.token)
		return
	}
	rt := &u.routes[f.shard]
	if rt.settleOwner == from && rt.settleMark == f.token.Seq {
		u.sortBack(rt)
		u.flow(rt)
	}
}

// sortBack ends the wait for refusals: the longest run of numbers that ends at the
// last one sent goes back to the head of the buffer.
func (u *upper) sortBack(rt *route) {
	rt.settleOwner, rt.settleMark = 0, 0
	from := len(rt.back)
	for want := rt.sent; from > 0 && rt.backNumbers[from-1] == want; want-- {
		from--
	}
	u.misplace(rt.shard, rt.settleToken, rt.back[:from])
	if from > 0 {
		u.p.w.event(u.p, "messages lost", uint64(from), func() string { return "shard " + rt.shard.String() + ": something behind them was taken" })
	}
	again := slices.Clone(rt.back[from:])
	rt.back, rt.backNumbers = nil, nil
	u.buffered += len(again)
	rt.buf = append(again, rt.buf...)
	if len(again) > 0 {
		u.need(rt)
	}
}

func (u *upper) peerLost(peer nodeID) {
	for i := range u.routes {
		rt := &u.routes[i]
		if rt.settleOwner == peer {
			u.sortBack(rt)
			u.flow(rt)
		}
		if rt.open && rt.home == peer {
			rt.suspended = true
		}
	}
}

func (u *upper) peerUp(peer nodeID) {
	for i := range u.routes {
		rt := &u.routes[i]
		if rt.suspended && rt.home == peer {
			rt.suspended = false
			u.flow(rt)
		}
	}
}

func (u *upper) lookOnce() {
	if !u.on {
		return
	}
	down := map[nodeID]bool{}
	for i := range u.routes {
		rt := &u.routes[i]
		if rt.settleOwner != 0 {
			u.sendMarker(rt.settleOwner, rt.shard, protocol.Token{Seq: rt.settleMark})
		}
		switch {
		case rt.suspended && rt.home == u.p.node.ID:
			rt.suspended = false
			u.flow(rt)
		case rt.suspended:
			down[rt.home] = true
		}
	}
	for _, id := range sortedIDs(down) {
		_ = u.frame(id, &entityFrame{op: opHello})
	}
}
