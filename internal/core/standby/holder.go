package standby

import (
	"maps"
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// holder is this node's part of one shard: the copies it keeps for the shard's owner.
type holder struct {
	// fence is the highest token met. Invariant: never falls.
	fence  protocol.Token
	layout Layout
	copies map[string]Copy
	// wanted are the fence and Write.For of the newest write. An older layout was
	// superseded by that write, and does not end what the write began.
	wantedBy  protocol.Token
	wantedFor uint64
	writes    writeOrder
}

// outside reports whether a layout has done with what this node keeps for another
// one that is not newer than (t, seq).
func (h *holder) outside(self gossip.NodeID, t protocol.Token, seq uint64) bool {
	l := &h.layout
	if !l.Active || slices.Contains(l.Members, self) {
		return false
	}
	c := l.Token.Compare(t)
	return c > 0 || c == 0 && l.Seq >= seq
}

// admit returns the holder for a message under a token, or refuses it.
func (c *Core) admit(from gossip.NodeID, s protocol.ShardID, t protocol.Token) *holder {
	h := c.holders[s]
	if h == nil {
		h = &holder{copies: map[string]Copy{}}
		c.holders[s] = h
	}
	if t.Less(h.fence) {
		c.do(Refusal{Shard: s, From: from})
		c.sendMessage(from, Refused{Shard: s, Token: t, Fence: h.fence})
		return nil
	}
	h.fence = h.fence.Max(t)
	return h
}

func (c *Core) holderCollect(from gossip.NodeID, m Collect) {
	h := c.admit(from, m.Shard, m.Token)
	if h == nil {
		return
	}
	answer := Held{Shard: m.Shard, Token: m.Token, After: m.After, Layout: h.layout}
	size := 0
	for _, id := range slices.Sorted(maps.Keys(h.copies)) {
		if id <= m.After {
			continue
		}
		cp := h.copies[id]
		if size += cp.bytes(); size > c.cfg.PageBytes && len(answer.Copies) > 0 {
			answer.More = true
			break
		}
		answer.Copies = append(answer.Copies, cp)
	}
	c.sendMessage(from, answer)
}

func (c *Core) holderWrite(from gossip.NodeID, m Write) {
	h := c.admit(from, m.Shard, m.Token)
	if h == nil {
		return
	}
	if h.outside(c.cfg.Self, m.Token, m.For) {
		// A late write: its sender does not count on it.
		return
	}
	order := h.writes.orderOf(m)
	if order == nil {
		return
	}
	answer := Ack{Shard: m.Shard, Token: m.Token, Stream: m.Stream}
	if m.Seq == order.Next() {
		if answer.Full = !c.storeCopies(h, m.Copies); !answer.Full {
			order.AcceptNumber(m.Seq)
		}
	}
	if answer.Next = order.Next(); m.Seq < answer.Next {
		if h.wantedBy != m.Token {
			h.wantedBy, h.wantedFor = m.Token, 0
		}
		h.wantedFor = max(h.wantedFor, m.For)
	}
	c.sendMessage(from, answer)
}

// storeCopies keeps copies that are newer than those held, or reports that there is no room.
func (c *Core) storeCopies(h *holder, copies []Copy) bool {
	more := 0
	for i := range copies {
		if old, ok := h.copies[copies[i].ID]; !ok || old.Tag.Less(copies[i].Tag) {
			more += copies[i].bytes()
			if ok {
				more -= old.bytes()
			}
		}
	}
	if more > 0 && c.bytes+more > c.cfg.BytesMax {
		return false
	}
	for _, cp := range copies {
		if old, ok := h.copies[cp.ID]; !ok || old.Tag.Less(cp.Tag) {
			h.copies[cp.ID] = cp
		}
	}
	c.bytes += more
	return true
}

// holderAnnounce stores a layout. A node outside an active layout drops its copies:
// a quorum of the layout has all of them.
func (c *Core) holderAnnounce(from gossip.NodeID, m Announce) {
	h := c.admit(from, m.Shard, m.Token)
	if h == nil {
		return
	}
	if m.Layout.newer(&h.layout) {
		h.layout = m.Layout
	}
	if h.outside(c.cfg.Self, h.wantedBy, h.wantedFor) {
		for _, cp := range h.copies { // order-free: a sum
			c.bytes -= cp.bytes()
		}
		clear(h.copies)
	}
	c.sendMessage(from, Announced{Shard: m.Shard, Token: m.Token, Seq: m.Layout.Seq, Active: m.Layout.Active})
}
