package region

import "github.com/peerage-go/peerage/internal/core/protocol"

// stop begins the stop of a shard, in answer to the order with that Seq, if any.
func (c *Core) stop(s StopShard, order uint64) {
	h := &c.hosts[s.Shard]
	h.phase, h.to, h.answers, h.again, h.stranded = stopping, s.To, order, turning{}, false
	c.traceShard(TraceStop, s.Shard, s.To, s.Token, "")
	c.do(s)
}

// shardStopped handles the shell's report that the shards have stopped:
// the floor rises, and Stopped is sent until a coordinator confirms it.
func (c *Core) shardStopped(shards []protocol.ShardToken) {
	for _, st := range shards {
		if int(st.Shard) >= len(c.hosts) {
			continue
		}
		h := &c.hosts[st.Shard]
		if h.phase == none || h.token != st.Token {
			continue
		}
		if k, ok := c.kept[st.Shard]; ok && k.Token == h.token && h.to != 0 && c.view.Member(h.to) == nil {
			if h.stranded = true; h.again.to != 0 {
				c.turn(st.Shard, h.again)
			}
			continue
		}
		c.finishStop(st.Shard)
	}
}

// finishStop reports that a shard has stopped, in answer to the order for it. So a
// coordinator that has since named another home can tell which of its orders was obeyed.
func (c *Core) finishStop(s protocol.ShardID) {
	h := &c.hosts[s]
	next := h.next
	order := protocol.Head{Seq: h.answers}
	c.noteSent(s, h.to)
	c.traceShard(TraceStopped, s, c.cfg.Self, h.token, "")
	c.end(s)
	c.outbox.stopped.add(c.office.node, &order, protocol.ShardToken{Shard: s, Token: c.floors.Token(s)})
	c.startNext(next)
}

// goOn handles an order for a stopping shard: a repetition, or an order to send the
// state elsewhere because its receiver has left. An order without a receiver is
// not noted before the shard has stopped. Its coordinator repeats it until it is answered,
// and a stranded or stopped shard answers it immediately (turn, promise). Until
// then a member may join that can take the state, and the next order names it.
func (c *Core) goOn(s protocol.ShardID, order turning) {
	switch h := &c.hosts[s]; {
	case h.stranded:
		c.turn(s, order)
	case h.to == order.to:
		h.answers = order.seq
	case h.to != 0 && order.to != 0 && c.view.Member(h.to) == nil:
		h.again = order
	}
}

// turn sends the state of a stranded shard to another home. If none is named, the
// stop ends, and the state stays here for the shard's next home. An order from
// before the coordinator saw the former one go changes nothing.
func (c *Core) turn(s protocol.ShardID, order turning) {
	h := &c.hosts[s]
	switch {
	case order.to == 0:
		h.answers = order.seq
		c.finishStop(s)
	case c.view.Member(order.to) != nil:
		c.stop(StopShard{Shard: s, Token: h.token, To: order.to, Within: order.within}, order.seq)
	}
}

// giveUp ends the stop of a stranded shard that gets no other home.
func (c *Core) giveUp(s protocol.ShardID) {
	if c.hosts[s].stranded {
		c.finishStop(s)
	}
}

// end records a shard's stop in the floors and the routes.
func (c *Core) end(s protocol.ShardID) {
	h := &c.hosts[s]
	c.arm()
	c.floors.stopped(s, h.token)
	if c.cfg.Mutant.Is("Stopped without a floor") {
		delete(c.floors.token, s)
	}
	*h = host{}
	c.hosting--
	if r := &c.routes[s]; r.state == open && r.home == c.cfg.Self {
		c.closeRoute(s, nil)
		r.state = unknown
	}
}

// startNext starts the shard that waited for the stop, unless the lease has ended: then
// the coordinator repeats the order.
func (c *Core) startNext(o *protocol.HostOrder) {
	if o != nil && c.lease && c.takes(o.Shard) && c.floors.Token(o.Shard).Less(o.Token) {
		c.start(*o)
	}
}

// abandoned drops all shards that live here without running user code. They are
// reported as stopped: their tokens are floors now.
func (c *Core) abandoned() {
	c.do(AbandonAll{})
	for i := range c.hosts {
		id, h := protocol.ShardID(i), &c.hosts[i]
		if h.phase == none {
			continue
		}
		c.traceShard(TraceAbandoned, id, c.cfg.Self, h.token, "")
		c.end(id)
	}
	c.reportStopped()
}

// reportStopped repeats the reports that no coordinator has confirmed.
func (c *Core) reportStopped() {
	if c.office.node == 0 {
		return
	}
	for _, st := range c.floors.owed() {
		c.outbox.stopped.add(c.office.node, nil, st)
	}
}
