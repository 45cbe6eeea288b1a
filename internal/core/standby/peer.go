package standby

import (
	"maps"
	"slices"

	"github.com/peerage-go/peerage/gossip"
)

// peer is a holder as its owner sees it. At most one write is in flight. Later changes
// gather meanwhile, and of an entity that changed twice only the newest state is sent.
// So a slow holder costs the owner no memory, and an entity no order.
type peer struct {
	acked map[string]Tag
	// missing are the entities that it must have before it counts as full.
	missing map[string]struct{}
	// dirty wait to be sent, oldest first; queued is the same as a set.
	dirty  []string
	queued map[string]struct{}
	// out is the write in flight; seq is zero when there is none.
	out []Copy
	seq uint64
	resend
}

// mark queues an entity.
func (p *peer) mark(id string) {
	if _, ok := p.queued[id]; ok {
		return
	}
	if p.queued == nil {
		p.queued = map[string]struct{}{}
	}
	p.queued[id] = struct{}{}
	p.dirty = append(p.dirty, id)
}

// queueMissing queues the copies that the holder lacks.
func (p *peer) queueMissing(o *owner) {
	p.missing = map[string]struct{}{}
	for _, id := range slices.Sorted(maps.Keys(o.entries)) {
		if p.acked[id].Less(o.entries[id].Tag) {
			p.missing[id] = struct{}{}
			p.mark(id)
		}
	}
}

// pushNext sends the next write unless one is in flight.
func (o *owner) pushNext(to gossip.NodeID, p *peer) {
	if p.seq != 0 || len(p.dirty) == 0 {
		return
	}
	size, n := 0, 0
	p.out = p.out[:0:0]
	for _, id := range p.dirty {
		e := o.entries[id]
		if size += e.bytes(); size > o.c.cfg.PageBytes && n > 0 {
			break
		}
		n++
		delete(p.queued, id)
		if p.acked[id].Less(e.Tag) {
			p.out = append(p.out, e.Copy)
		}
	}
	p.dirty = p.dirty[n:]
	if len(p.out) == 0 {
		o.pushNext(to, p)
		return
	}
	o.writes++
	p.seq = o.writes
	o.sendWrite(to, p, false)
}

func (o *owner) sendWrite(to gossip.NodeID, p *peer, again bool) {
	p.noteSent(o.c, again)
	o.c.sendMessage(to, Write{Shard: o.shard, Token: o.token, Seq: p.seq, For: o.seq, Copies: p.out})
}

// repush retransmits an unanswered write.
func (o *owner) repush(to gossip.NodeID, p *peer) {
	if p.seq != 0 && p.due(o.c) {
		o.sendWrite(to, p, true)
	}
}

func (o *owner) acked(from gossip.NodeID, m Ack) {
	p := o.peers[from]
	if p == nil || m.Seq != p.seq || m.Full {
		// A holder that is full is asked again, at growing intervals.
		return
	}
	out := p.out
	p.seq, p.out = 0, nil
	for _, cp := range out {
		if p.acked[cp.ID].Less(cp.Tag) {
			p.acked[cp.ID] = cp.Tag
		}
		delete(p.missing, cp.ID)
		o.keepMaybe(o.entries[cp.ID])
	}
	o.pushNext(from, p)
	if !o.next.IsZero() && !o.announcing {
		o.forward()
	}
}
