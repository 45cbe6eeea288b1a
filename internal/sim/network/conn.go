package network

import (
	"time"

	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/internal/transport"
)

type flight struct {
	due   virtual.Instant
	frame Frame
}

type connState uint8

const (
	dialing connState = iota
	up
	dead
)

// Conn is one outgoing connection of a process.
type Conn struct {
	fabric   *fabric
	run      *run.Run
	from, to *Endpoint
	class    transport.Class
	state    connState
	// closed is set when the peer opened a newer connection: what was read from
	// this one and not yet handled is dropped.
	closed  bool
	pending []flight
	// room is called when the queue has room.
	room    []func(reachable bool)
	pumping bool
	stalled virtual.Instant // since when the path is blocked, never if it is not
}

// dialState is what a process remembers of its dials to a host.
type dialState struct {
	tries int
	// next is the earliest time of the next dial.
	next virtual.Instant
}

const (
	dialTimeout      = 500 * time.Millisecond
	stallTimeoutMin  = 800 * time.Millisecond
	stallTimeoutMax  = 3 * time.Second
	dialBackoffFirst = 10 * time.Millisecond
	dialBackoffMax   = 200 * time.Millisecond
)

// dialed returns the connection to a peer, dialing if there is none.
func (e *Endpoint) dialed(peer *Endpoint, class transport.Class) *Conn {
	key := peerClass{peer.id.Node, class}
	if c := e.out[key]; c != nil {
		return c
	}
	c := &Conn{fabric: e.fabric, run: e.run, from: e, to: peer, class: class, stalled: virtual.Never}
	e.out[key] = c
	c.dialAt(max(c.run.Now(), e.dials[peer.slot].next))
	return c
}

// dialAt finds the process that answers, at the given time.
func (c *Conn) dialAt(start virtual.Instant) {
	f := c.fabric
	answer := start.Add(2 * f.machines[c.from.slot].latency[c.to.slot])
	c.run.Time.At(answer, func() {
		if c.state == dead {
			return
		}
		answering := c.from.all.onHost[c.to.slot]
		switch blocked := f.blocked(c.from.slot, c.to.slot); {
		case blocked == Drop || f.machines[c.to.slot].down && blocked == Open:
			c.run.Time.At(start.Add(dialTimeout), func() { c.failDial(transport.DialFailed, nil) })
		case blocked == Open && answering == nil && f.machines[c.to.slot].tenant:
			c.run.Hit(coverage.TenantAnswered)
			c.failDial(transport.DialFailed, nil)
		case blocked == Reject || answering == nil:
			c.failDial(transport.Refused, nil)
		case answering.thread.Paused():
			c.run.Time.At(start.Add(dialTimeout), func() {
				if c.to.thread.Alive() && !c.to.thread.Paused() && f.blocked(c.from.slot, c.to.slot) == Open {
					c.onConnected()
					return
				}
				c.failDial(transport.DialFailed, nil)
			})
		case answering != c.to:
			c.failDial(transport.OtherNode, answering)
		default:
			c.onConnected()
		}
	})
}

// onConnected opens the connection: an older one from the same process and class
// has ended.
func (c *Conn) onConnected() {
	if c.state != dialing || !c.to.thread.Alive() || !c.from.thread.Alive() {
		return
	}
	if !c.to.admits(c) {
		c.failDial(transport.DialFailed, nil)
		return
	}
	key := peerClass{c.from.id.Node, c.class}
	if old := c.to.in[key]; old != nil {
		old.closed = true
	}
	c.to.in[key] = c
	c.state = up
	c.from.dials[c.to.slot] = dialState{}
	c.from.notify(transport.Connected, c.class, c.to.id.Node, 0)
	c.to.notify(transport.Accepted, c.class, c.from.id.Node, 0)
	for i := range c.pending {
		c.pending[i].due = max(c.pending[i].due, c.run.Now())
	}
	c.pump()
}

// failDial ends a dial without a connection.
func (c *Conn) failDial(typ transport.PeerEventType, other *Endpoint) {
	if c.state != dialing {
		return
	}
	c.state = dead
	c.pending = nil
	e, d := c.from, &c.from.dials[c.to.slot]
	delete(e.out, peerClass{c.to.id.Node, c.class})
	c.announceRoom()
	d.tries++
	wait := min(dialBackoffFirst<<min(d.tries, 8), dialBackoffMax)
	d.next = c.run.Now().Add(wait)
	if typ == transport.OtherNode {
		c.run.Hit(coverage.OtherNode)
		e.notify(typ, c.class, other.id.Node, c.to.id.Node)
		return
	}
	e.notify(typ, c.class, c.to.id.Node, 0)
}

// announceRoom ends the waits for room in the queue, once it is half empty.
func (c *Conn) announceRoom() {
	if len(c.pending) > c.run.Config.QueueFramesMax/2 {
		return
	}
	room := c.room
	c.room = nil
	for _, then := range room {
		then(!c.from.forgotten[c.to.id.Node])
	}
}

// pump delivers what is due and plans the next delivery.
func (c *Conn) pump() {
	if c.pumping || c.state != up || len(c.pending) == 0 || c.stalled != virtual.Never {
		return
	}
	c.pumping = true
	c.run.Time.At(c.pending[0].due, c.deliverHead)
}

func (c *Conn) deliverHead() {
	c.pumping = false
	if c.state != up || len(c.pending) == 0 {
		return
	}
	switch c.blockedNow() {
	case Drop:
		c.stall()
		return
	case Reject:
		c.Break()
		return
	}
	if !c.to.thread.Alive() {
		c.onPeerGone()
		return
	}
	if (corruptor{c.run}).damages(&c.pending[0].frame, c.from.id.Node, c.to.id.Label) {
		c.loseHead()
		return
	}
	head := c.pending[0]
	c.pending = c.pending[1:]
	c.arrive(head.frame)
	c.announceRoom()
	c.pump()
}

// loseHead ends a connection whose receiver has found a damaged frame.
func (c *Conn) loseHead() {
	c.pending = c.pending[1:]
	c.discard()
	c.from.notify(transport.Lost, c.class, c.to.id.Node, 0)
	c.reportEnd()
}

// arrive puts a frame into the receiver's socket buffer; it is handled when the
// process gets to it.
func (c *Conn) arrive(f Frame) {
	c.to.thread.Run(func() {
		if !c.closed {
			c.to.passFrame(c.from.id.Node, f)
		}
	})
}

// blockedNow returns what happens to the packets of the connection.
func (c *Conn) blockedNow() Block { return c.fabric.blockOf(c.from.slot, c.to.slot) }

// receives reports whether the far process runs.
func (c *Conn) receives() bool { return c.to.thread.Alive() }

// onPath takes a change of the path from one of its hosts to the other.
func (c *Conn) onPath(from, to int, b Block) {
	switch {
	case b == Reject && c.state == up:
		c.Break()
	case b == Open && c.from.slot == from && c.to.slot == to:
		c.resume()
	}
}

// stall holds everything until the path opens, and gives up after a while.
func (c *Conn) stall() {
	since := c.run.Now()
	c.stalled = since
	c.run.After(c.run.Rand.Net.Duration(stallTimeoutMin, stallTimeoutMax), func() {
		if c.state == up && c.stalled == since {
			c.Break()
		}
	})
}

// resume lets a stalled connection flow again, with TCP's slowness to notice.
func (c *Conn) resume() {
	if c.stalled == virtual.Never {
		return
	}
	c.stalled = virtual.Never
	for i := range c.pending {
		c.pending[i].due = max(c.pending[i].due, c.run.Now().Add(c.run.Rand.Net.Duration(0, 200*time.Millisecond)))
		if i > 0 {
			c.pending[i].due = max(c.pending[i].due, c.pending[i-1].due)
		}
	}
	c.pump()
}

// Break ends an open connection immediately: any prefix of what was in flight may still
// have arrived. Both ends are notified.
func (c *Conn) Break() {
	if c.state != up {
		return
	}
	if c.to.thread.Alive() && c.blockedNow() == Open {
		for k := c.run.Rand.Net.IntN(len(c.pending) + 1); k > 0; k-- {
			c.arrive(c.pending[0].frame)
			c.pending = c.pending[1:]
		}
	}
	c.discard()
	c.from.notify(transport.Lost, c.class, c.to.id.Node, 0)
	c.reportEnd()
}

// onPeerGone ends a connection whose far process is gone.
func (c *Conn) onPeerGone() {
	if c.fabric.machines[c.to.slot].down || c.fabric.blocked(c.from.slot, c.to.slot) == Drop {
		c.stall()
		return
	}
	c.discard()
	c.from.notify(transport.Lost, c.class, c.to.id.Node, 0)
}

// discard drops the connection and what it carried.
func (c *Conn) discard() {
	c.state = dead
	c.pending = nil
	key := peerClass{c.to.id.Node, c.class}
	if c.from.out[key] == c {
		delete(c.from.out, key)
	}
	c.announceRoom()
}

// reportEnd notifies the accepting end, sooner or later.
func (c *Conn) reportEnd() {
	to := c.to
	c.run.After(c.run.Rand.Net.Duration(0, 300*time.Millisecond), func() {
		if to.thread.Alive() && !c.closed && to.in[peerClass{c.from.id.Node, c.class}] == c {
			to.notify(transport.AcceptedLost, c.class, c.from.id.Node, 0)
		}
	})
}

// fence ends a connection whose sender is superseded; both ends are notified.
func (c *Conn) fence() {
	key := peerClass{c.from.id.Node, c.class}
	if c.closed || c.to.in[key] != c {
		return
	}
	c.closed = true
	delete(c.to.in, key)
	c.run.Hit(coverage.LateFenced)
	c.run.After(0, func() { c.to.notify(transport.AcceptedLost, c.class, c.from.id.Node, 0) }) // its reader reports the loss
	c.run.After(c.fabric.machines[c.to.slot].latency[c.from.slot], func() {
		if c.state == up && c.stalled == virtual.Never {
			c.Break()
		}
	})
}
