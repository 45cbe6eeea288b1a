package region

import (
	"time"

	"github.com/peerage-go/peerage/sharding/protocol"
)

func (c *Core) stop(s StopShard) {
	h := &c.hosts[s.Shard]
	h.phase, h.to, h.again, h.stranded = stopping, s.To, 0, false
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
		if k, ok := c.kept[st.Shard]; ok && k.Token == h.token && h.to != 0 && c.view.Member(h.to) == nil {
			if h.stranded = true; h.again != 0 {
				c.turn(protocol.HandOffOrder{Shard: st.Shard, To: h.again}, h.within)
			}
			continue
		}
		c.finishStop(st.Shard)
	}
}

func (c *Core) finishStop(s protocol.ShardID) {
	h := &c.hosts[s]
	next := h.next
	c.traceShard(TraceStopped, s, c.cfg.Self, h.token, "")
	c.end(s)
	c.outbox.stopped.add(c.office.node, nil, protocol.ShardToken{Shard: s, Token: c.floors.Token(s)})
	c.startNext(next)
}

// turn sends the state of a stranded shard to another home. If none is named, the
// stop is over, and the state stays here for whoever gets the shard. An order from
// before the coordinator saw the former one go changes nothing.
func (c *Core) turn(o protocol.HandOffOrder, within time.Duration) {
	switch h := &c.hosts[o.Shard]; {
	case o.To == 0:
		c.finishStop(o.Shard)
	case c.view.Member(o.To) != nil:
		c.stop(StopShard{Shard: o.Shard, Token: h.token, To: o.To, Within: within})
	}
}

// giveUp ends the stop of a stranded shard that nobody turns to another home.
func (c *Core) giveUp(s protocol.ShardID) {
	if c.hosts[s].stranded {
		c.finishStop(s)
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
	if o != nil && c.lease && c.takes(o.Shard) && c.floors.Token(o.Shard).Less(o.Token) {
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
