package sim

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/internal/transport"
)

// The modelled network guarantees exactly what internal/transport guarantees:
// frames of one class to one peer arrive in order or not at all; a lost
// connection loses any suffix of what was sent; nothing read from a connection
// counts once the peer has opened a newer one, or a later incarnation of its process has
// (late.go). Between hosts a path can be open,
// dropping (connections stall, then time out) or rejecting (connections break,
// dials are refused), each way on its own.

// block is what a one-way path between two hosts does with packets.
type block uint8

const (
	open block = iota
	drop
	reject
)

// frame is a message in flight. The simulator passes the values themselves:
// messages are immutable, the codecs have tests of their own.
type frame struct {
	kind transport.Kind
	msg  any
}

type flight struct {
	due   virtual.Instant
	frame frame
}

type connState uint8

const (
	dialing connState = iota
	up
	dead
)

// conn is one outgoing connection of a process.
type conn struct {
	w        *world
	from, to *proc
	class    transport.Class
	state    connState
	// closed is set when the peer opened a newer connection: what was read from
	// this one and not yet handled is dropped.
	closed  bool
	pending []flight
	// room is called when the queue has room.
	room    []func(known bool)
	pumping bool
	stalled virtual.Instant // since when the path is blocked, never if it is not
}

type peerClass struct {
	id    gossip.NodeID
	class transport.Class
}

const (
	dialTimeout      = 500 * time.Millisecond
	stallTimeoutMin  = 800 * time.Millisecond
	stallTimeoutMax  = 3 * time.Second
	dialBackoffFirst = 10 * time.Millisecond
	dialBackoffMax   = 200 * time.Millisecond
)

// send queues a frame as Transport.Send does: nil means queued.
func (p *proc) send(to gossip.NodeID, class transport.Class, f frame) error {
	w := p.w
	peer := w.byID[to]
	if peer == nil || p.forgotten[to] {
		return transport.ErrUnknownPeer
	}
	w.sent++
	if w.swarm.datagrams && f.kind == transport.KindView {
		w.datagram(p, peer, f)
		return nil
	}
	c := p.dialed(peer, class)
	if len(c.pending) >= w.swarm.queueFramesMax {
		w.hit(markQueueFull)
		return transport.ErrQueueFull
	}
	due := w.Now().Add(w.latency(p, peer, class))
	if n := len(c.pending); n > 0 {
		due = max(due, c.pending[n-1].due)
	}
	c.pending = append(c.pending, flight{due, f})
	c.pump()
	return nil
}

// announceRoom ends the waits for room in the queue, once it is half empty.
func (c *conn) announceRoom() {
	if len(c.pending) > c.w.swarm.queueFramesMax/2 {
		return
	}
	room := c.room
	c.room = nil
	for _, then := range room {
		then(!c.from.forgotten[c.to.node.ID])
	}
}

// dialed returns the connection to a peer, dialing if there is none.
func (p *proc) dialed(peer *proc, class transport.Class) *conn {
	key := peerClass{peer.node.ID, class}
	if c := p.out[key]; c != nil {
		return c
	}
	c := &conn{w: p.w, from: p, to: peer, class: class, stalled: virtual.Never}
	p.out[key] = c
	c.dial(max(p.w.Now(), p.dialNext[peer.slot]))
	return c
}

func (w *world) latency(from, to *proc, class transport.Class) time.Duration {
	base := w.hosts[from.slot].latency[to.slot]
	if w.netRand.IntN(64) == 0 {
		return base + w.netRand.Duration(0, w.swarm.spike)
	}
	if class == transport.Bulk {
		base += w.netRand.Duration(0, 5*time.Millisecond)
	}
	return base + time.Duration(w.netRand.Uint64()%uint64(base/2+1))
}

// path returns what happens to packets from one host to another.
func (w *world) path(from, to int) block { return w.hosts[from].block[to] }

func (w *world) blocked(a, b int) block { return max(w.path(a, b), w.path(b, a)) }

// dial finds the process that answers, at the given time.
func (c *conn) dial(at virtual.Instant) {
	w := c.w
	start := max(at, w.Now())
	answer := start.Add(2 * w.hosts[c.from.slot].latency[c.to.slot])
	w.At(answer, func() {
		if c.state == dead {
			return
		}
		host := &w.hosts[c.to.slot]
		answering := host.proc
		switch blocked := w.blocked(c.from.slot, c.to.slot); {
		case blocked == drop || host.down && blocked == open:
			w.At(start.Add(dialTimeout), func() { c.fail(transport.DialFailed, nil) })
		case blocked == reject || answering == nil:
			c.fail(transport.Refused, nil)
		case answering.paused:
			w.At(start.Add(dialTimeout), func() {
				if c.to.alive && !c.to.paused && w.blocked(c.from.slot, c.to.slot) == open {
					c.connected()
					return
				}
				c.fail(transport.DialFailed, nil)
			})
		case answering != c.to:
			c.fail(transport.OtherNode, answering)
		default:
			c.connected()
		}
	})
}

// connected opens the connection: an older one from the same process and class
// has ended.
func (c *conn) connected() {
	if c.state != dialing || !c.to.alive || !c.from.alive {
		return
	}
	if !c.to.admits(c) {
		c.fail(transport.DialFailed, nil)
		return
	}
	key := peerClass{c.from.node.ID, c.class}
	if old := c.to.in[key]; old != nil {
		old.closed = true
	}
	c.to.in[key] = c
	c.state = up
	c.from.dialTries[c.to.slot] = 0
	c.from.dialNext[c.to.slot] = 0
	c.from.peerEvent(transport.Connected, c.class, c.to.node.ID, 0)
	c.to.peerEvent(transport.Accepted, c.class, c.from.node.ID, 0)
	for i := range c.pending {
		c.pending[i].due = max(c.pending[i].due, c.w.Now())
	}
	c.pump()
}

// fail ends a dial without a connection.
func (c *conn) fail(typ transport.PeerEventType, other *proc) {
	if c.state != dialing {
		return
	}
	c.state = dead
	c.w.lost += len(c.pending)
	c.pending = nil
	p, slot := c.from, c.to.slot
	delete(p.out, peerClass{c.to.node.ID, c.class})
	c.announceRoom()
	p.dialTries[slot]++
	wait := min(dialBackoffFirst<<min(p.dialTries[slot], 8), dialBackoffMax)
	p.dialNext[slot] = c.w.Now().Add(wait)
	if typ == transport.OtherNode {
		c.w.hit(markOtherNode)
		p.peerEvent(typ, c.class, other.node.ID, c.to.node.ID)
		return
	}
	p.peerEvent(typ, c.class, c.to.node.ID, 0)
}

// pump delivers what is due and plans the next delivery.
func (c *conn) pump() {
	if c.pumping || c.state != up || len(c.pending) == 0 || c.stalled != virtual.Never {
		return
	}
	c.pumping = true
	c.w.At(c.pending[0].due, c.flow)
}

func (c *conn) flow() {
	c.pumping = false
	if c.state != up || len(c.pending) == 0 {
		return
	}
	switch c.w.path(c.from.slot, c.to.slot) {
	case drop:
		c.stall()
		return
	case reject:
		c.reset()
		return
	}
	if !c.to.alive {
		c.orphaned()
		return
	}
	if c.corrupted() {
		return
	}
	head := c.pending[0]
	c.pending = c.pending[1:]
	c.arrive(head.frame)
	c.announceRoom()
	c.pump()
}

// arrive puts a frame into the receiver's socket buffer; it is handled when the
// process gets to it.
func (c *conn) arrive(f frame) {
	to, from := c.to, c.from.node.ID
	to.run(func() {
		if c.closed {
			c.w.lost++
			return
		}
		to.handle(from, f)
	})
}

// stall holds everything until the path opens, and gives up after a while.
func (c *conn) stall() {
	since := c.w.Now()
	c.stalled = since
	c.w.After(c.w.netRand.Duration(stallTimeoutMin, stallTimeoutMax), func() {
		if c.state == up && c.stalled == since {
			c.breaks()
		}
	})
}

// resume lets a stalled connection flow again, with TCP's slowness to notice.
func (c *conn) resume() {
	if c.stalled == virtual.Never {
		return
	}
	c.stalled = virtual.Never
	for i := range c.pending {
		c.pending[i].due = max(c.pending[i].due, c.w.Now().Add(c.w.netRand.Duration(0, 200*time.Millisecond)))
		if i > 0 {
			c.pending[i].due = max(c.pending[i].due, c.pending[i-1].due)
		}
	}
	c.pump()
}

// reset breaks the connection immediately and notifies both ends.
func (c *conn) reset() { c.breaks() }

// breaks ends an open connection: any prefix of what was in flight may still
// have arrived.
func (c *conn) breaks() {
	if c.state != up {
		return
	}
	if c.to.alive && c.w.path(c.from.slot, c.to.slot) == open {
		for k := c.w.netRand.IntN(len(c.pending) + 1); k > 0; k-- {
			c.arrive(c.pending[0].frame)
			c.pending = c.pending[1:]
		}
	}
	c.drop()
	c.from.peerEvent(transport.Lost, c.class, c.to.node.ID, 0)
	c.ended()
}

// orphaned is a connection whose far process is gone.
func (c *conn) orphaned() {
	if c.w.hosts[c.to.slot].down || c.w.blocked(c.from.slot, c.to.slot) == drop {
		c.stall()
		return
	}
	c.drop()
	c.from.peerEvent(transport.Lost, c.class, c.to.node.ID, 0)
}

// drop forgets the connection and what it carried.
func (c *conn) drop() {
	c.state = dead
	c.w.lost += len(c.pending)
	c.pending = nil
	key := peerClass{c.to.node.ID, c.class}
	if c.from.out[key] == c {
		delete(c.from.out, key)
	}
	c.announceRoom()
}

// ended notifies the accepting end, sooner or later.
func (c *conn) ended() {
	to := c.to
	c.w.After(c.w.netRand.Duration(0, 300*time.Millisecond), func() {
		if to.alive && !c.closed && to.in[peerClass{c.from.node.ID, c.class}] == c {
			to.peerEvent(transport.AcceptedLost, c.class, c.from.node.ID, 0)
		}
	})
}

// datagram sends a control frame that may be lost, duplicated or late.
// Some runs do so to test the protocols that claim to need no delivery guarantee.
func (w *world) datagram(from, to *proc, f frame) {
	copies := 1
	if w.netRand.Chance(w.swarm.dropPercent) {
		copies = 0
	} else if w.netRand.Chance(w.swarm.dupPercent) {
		copies = 2
	}
	for range copies {
		d := w.latency(from, to, transport.Control)
		if w.netRand.Chance(w.swarm.latePercent) {
			d += w.netRand.Duration(0, w.swarm.late)
		}
		w.After(d, func() {
			if w.path(from.slot, to.slot) != open {
				w.lost++
				return
			}
			to.run(func() { to.handle(from.node.ID, f) })
		})
	}
}
