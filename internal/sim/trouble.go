package sim

import (
	"time"

	"github.com/peerage-go/peerage/internal/transport"
)

// Two troubles that come from outside of the protocols.
//
// A frame whose bits have flipped on the way fails its checksum, and the receiver ends the
// connection (internal/transport): what was in flight behind it is lost, and what is behind
// it in the sender's queue as well.
//
// A handler blocks for as long as faults last, or for ever if its shard is ordered to stop
// meanwhile: then the shard is stopped by force, and the next home does not wait.

// corruptOne of so many frames is damaged, blockOne of so many handlers blocks.
const (
	corruptOne = 300
	blockOne   = 150
)

// corrupted reports whether the head of a connection arrives damaged, and ends the
// connection then.
func (c *conn) corrupted() bool {
	w := c.w
	if !w.swarm.corrupt || w.calm || w.troubleRand.IntN(corruptOne) > 0 {
		return false
	}
	w.hit(markCorrupted)
	if w.cfg.Mutant.Is("frames without a checksum") {
		c.flipBits()
		return false
	}
	w.event(c.to, "frame damaged", uint64(c.from.node.ID), nil)
	w.lost++
	c.pending = c.pending[1:]
	c.drop()
	c.from.peerEvent(transport.Lost, c.class, c.to.node.ID, 0)
	c.ended()
	return true
}

// flipBits changes the number of a message.
func (c *conn) flipBits() {
	if f, ok := c.pending[0].frame.msg.(*pathFrame); ok && f.Msg != nil {
		changed, m := *f.Frame, *f.Msg
		m.Seq ^= 4
		changed.Msg = &m
		c.pending[0].frame.msg = &pathFrame{f.typ, &changed}
	}
}

// blocked has a handler block, and calls returns when it does.
func (u *upper) blocked(h *hosted, returns func()) bool {
	w := u.p.w
	if !w.swarm.blocks || w.calm || w.troubleRand.IntN(blockOne) > 0 {
		return false
	}
	w.hit(markBlocked)
	w.event(u.p, "handler blocks", uint64(h.shard), nil)
	var look func()
	look = func() {
		switch {
		case !u.on:
		case h.gone, w.calm && !h.stopping:
			returns()
		default:
			u.p.later(20*time.Millisecond, look)
		}
	}
	u.p.later(20*time.Millisecond, look)
	return true
}
