package region

import "github.com/peerage-go/peerage/sharding/protocol"

func (c *Core) stop(s StopShard) {
	h := &c.hosts[s.Shard]
	h.phase, h.to, h.again = stopping, s.To, 0
	c.traceShard(TraceStop, s.Shard, s.To, s.Token, "")
	c.do(s)
}

// shardStopped takes the shell's word that nothing of the shards runs any more:
// the floor rises, and Stopped goes out until a coordinator confirms it.
func (c *Core) shardStopped(shards []protocol.ShardToken) {
	for _, st := range shards {
		if int(st.Shard) >= len(c.hosts) {
			continue
		}
		h := &c.hosts[st.Shard]
		if h.phase == none || h.token != st.Token {
			continue
		}
		if k, ok := c.kept[st.Shard]; ok && h.again != 0 && k.Token == h.token {
			c.stop(StopShard{Shard: st.Shard, Token: h.token, To: h.again, Within: h.within})
			continue
		}
		next := h.next
		c.traceShard(TraceStopped, st.Shard, c.cfg.Self, st.Token, "")
		c.end(st.Shard)
		c.outbox.stopped.add(c.office.node, nil, protocol.ShardToken{Shard: st.Shard, Token: c.floors.Token(st.Shard)})
		c.startNext(next)
	}
}

// end makes a shard's stop known to the floors and the routes.
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

// startNext starts what waited for the stop, unless the lease went meanwhile: then
// the order comes again.
func (c *Core) startNext(o *protocol.HostOrder) {
	if o != nil && c.lease && !c.drain.on && c.floors.Token(o.Shard).Less(o.Token) {
		c.start(*o)
	}
}

// abandoned drops all that lives here without running user code. What was dropped
// is reported as stopped: its tokens are floors now.
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

// reportStopped says again what no coordinator has confirmed.
func (c *Core) reportStopped() {
	if c.office.node == 0 {
		return
	}
	for _, st := range c.floors.owed() {
		c.outbox.stopped.add(c.office.node, nil, st)
	}
}
