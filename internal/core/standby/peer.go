package standby

import (
	"maps"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/chunks"
)

// writesWindow bounds the writes in flight to one holder.
const writesWindow = 4

// peer is a holder as its owner sees it. Writes travel in numbered chunks. A full page leaves
// while the window has room, anything smaller when nothing is in flight. Later changes gather
// meanwhile, and of an entity that changed twice only the newest state is sent. So a slow holder
// costs the owner no memory, and an entity no order.
type peer struct {
	acked map[string]Tag
	// missing has the states that it must have before it counts as full: an older one that is
	// in flight is not enough.
	missing map[string]Tag
	// dirty wait to be sent, oldest first; queued is the same as a set.
	dirty  []string
	queued map[string]struct{}
	// stream distinguishes the numbers of writes from those of an earlier peer for the node.
	stream uint64
	writes chunks.Sender[[]Copy]
}

func (o *owner) newPeer(acked map[string]Tag) *peer {
	o.streams++
	wait := func(misses int) time.Duration { return chunks.Backoff(o.c.cfg.Resend, misses) }
	return &peer{acked: acked, stream: o.streams, writes: chunks.NewSender[[]Copy](chunks.Config{Window: writesWindow, Wait: wait})}
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
	p.missing = map[string]Tag{}
	for _, id := range slices.Sorted(maps.Keys(o.entries)) {
		if p.acked[id].Less(o.entries[id].Tag) {
			p.missing[id] = o.entries[id].Tag
			p.mark(id)
		}
	}
}

// pushNext sends the writes that can leave now.
func (o *owner) pushNext(to gossip.NodeID, p *peer) {
	for p.writes.HasRoom() {
		page, ok := o.cutPage(p)
		if !ok {
			break
		}
		if len(page) > 0 {
			p.writes.Add(page)
		}
	}
	for n, page, ok := p.writes.Next(o.c.now); ok; n, page, ok = p.writes.Next(o.c.now) {
		o.c.sendMessage(to, Write{Shard: o.shard, Token: o.token, Stream: p.stream, Seq: n, For: o.seq, Copies: page})
	}
	o.c.wake(p.writes.Deadline())
}

// cutPage removes a page of copies from the queue. ok is false if there is none that may leave.
// The page is empty if the holder has all of its copies.
func (o *owner) cutPage(p *peer) (page []Copy, ok bool) {
	size, n := 0, 0
	for n < len(p.dirty) {
		if size += o.entries[p.dirty[n]].bytes(); size > o.c.cfg.PageBytes && n > 0 {
			break
		}
		n++
	}
	if n == 0 || n == len(p.dirty) && p.writes.Unacked() > 0 {
		return nil, false
	}
	for _, id := range p.dirty[:n] {
		delete(p.queued, id)
		if e := o.entries[id]; p.acked[id].Less(e.Tag) {
			page = append(page, e.Copy)
		}
	}
	p.dirty = p.dirty[n:]
	return page, true
}

// repush retransmits the writes that were not acknowledged in time.
func (o *owner) repush(to gossip.NodeID, p *peer) {
	p.writes.Expire(o.c.now)
	o.pushNext(to, p)
}

func (o *owner) acked(from gossip.NodeID, m Ack) {
	p := o.peers[from]
	if p == nil || m.Stream != p.stream || m.Full {
		// A holder that is full is asked again, at growing intervals.
		return
	}
	for _, page := range p.writes.OnAck(o.c.now, m.Next) {
		for _, cp := range page {
			if p.acked[cp.ID].Less(cp.Tag) {
				p.acked[cp.ID] = cp.Tag
			}
			if !p.acked[cp.ID].Less(p.missing[cp.ID]) {
				delete(p.missing, cp.ID)
			}
			o.keepMaybe(o.entries[cp.ID])
		}
	}
	o.pushNext(from, p)
	if !o.next.IsZero() && !o.announcing {
		o.forward()
	}
}
