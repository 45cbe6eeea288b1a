package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip/transport"
	"github.com/peerage-go/peerage/sharding/protocol"
	"github.com/peerage-go/peerage/sharding/region"
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
}

// message is one tell of a modelled sender.
type message struct {
	sender nodeID
	entity int
	shard  protocol.ShardID
	seq    uint64
	// probe marks those that liveness waits for.
	probe bool
}

type entityOp uint8

const (
	opTell entityOp = iota
	opRefused
	opMarker
	opMarkerAck
	opHello
	opHelloAck
)

// entityFrame travels on message connections. Token is that of the route for a
// tell; markers of routes themselves have a zero term.
type entityFrame struct {
	op     entityOp
	msg    *message
	shard  protocol.ShardID
	token  protocol.Token
	number uint64
}

func (r *route) free() bool {
	return r.open && !r.suspended && r.settleOwner == 0 && len(r.buf) == 0 && !r.flushing
}

func (u *upper) frame(to nodeID, f *entityFrame) error {
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
		if !u.deliver(m, rt.token) {
			rt.suspended = true
			u.keep(rt, m)
		}
		return
	}
	switch err := u.leaveRoute(rt, m); {
	case err == nil:
	case errors.Is(err, transport.ErrQueueFull):
		u.p.w.dropped++
	default:
		rt.suspended = true
		u.keep(rt, m)
	}
}

func (u *upper) leaveRoute(rt *route, m *message) error {
	if err := u.frame(rt.home, &entityFrame{op: opTell, msg: m, shard: m.shard, token: rt.token, number: rt.sent + 1}); err != nil {
		return err
	}
	rt.sent++
	return nil
}

func (u *upper) keep(rt *route, m *message) {
	w := u.p.w
	if len(rt.buf) >= w.swarm.bufferMax {
		w.hit(markBufferFull)
		w.dropped++
		return
	}
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
		} else if u.deliver(m, rt.token) {
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

// entityFrame takes what comes over a message connection.
func (u *upper) entityFrame(from nodeID, f *entityFrame) {
	switch f.op {
	case opTell:
		if !u.deliver(f.msg, f.token) {
			u.p.w.hit(markMisrouted)
			back := *f
			back.op = opRefused
			_ = u.frame(from, &back)
		}
	case opRefused:
		u.refused(from, f)
	case opMarker:
		_ = u.frame(from, &entityFrame{op: opMarkerAck, shard: f.shard, token: f.token})
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
		u.p.w.misplace(f.shard, f.token, 1)
		u.p.w.event(u.p, "message lost", f.msg.seq, func() string {
			return u.p.w.name(from) + " refused " + u.p.w.tokenText(f.token) + " of shard " + f.shard.String() + ", home is " + u.p.w.name(rt.home) + " " + u.p.w.tokenText(rt.token)
		})
		return
	}
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
	u.markers++
	rt.settleOwner, rt.settleMark = from, u.markers
	u.sendMarker(from, rt.shard, protocol.Token{Seq: rt.settleMark})
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
	u.p.w.misplace(rt.shard, rt.token, from)
	if from > 0 {
		u.p.w.event(u.p, "messages lost", uint64(from), func() string { return "shard " + rt.shard.String() + ": something behind them was taken" })
	}
	again := slices.Clone(rt.back[from:])
	rt.back, rt.backNumbers = nil, nil
	u.buffered += len(again)
	rt.buf = append(again, rt.buf...)
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

// look keeps asking for connections that routes wait for.
func (u *upper) look() {
	u.p.w.after(50*time.Millisecond, func() {
		if !u.on {
			return
		}
		u.p.run(u.lookOnce)
		u.look()
	})
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
