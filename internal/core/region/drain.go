package region

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// drainState is the orderly end of hosting. Once it begins, no shard is started
// here, and the coordinator moves the shards away. When it reports that no
// more can be moved, the rest (on the last node of a cluster: all) is stopped in order.
type drainState struct {
	on bool
	// asking: Drain is repeated until Drained comes.
	asking bool
	// last is set once no further shards can be moved away: the rest stops here.
	last bool
	told bool
}

func (c *Core) beginDrain() {
	if c.drain.on {
		return
	}
	c.drain.on = true
	if c.office.node == 0 || !c.cfg.Hosts {
		c.drain.last = true
		return
	}
	c.renewDrain()
}

// renewDrain repeats Drain to a coordinator that has just taken office, even after an
// earlier coordinator's Drained. Otherwise the new one would place shards here.
func (c *Core) renewDrain() {
	if c.drain.on && c.cfg.Hosts {
		c.arm()
		c.drain.asking = true
		c.askDrain()
	}
}

func (c *Core) askDrain() {
	if c.drain.asking && c.office.node != 0 {
		c.do(Send{To: c.office.node, Msg: &protocol.Drain{Head: c.head()}})
	}
}

func (c *Core) drained(from gossip.NodeID) {
	if c.drain.asking && from == c.office.node {
		c.drain.asking, c.drain.last = false, true
	}
}

// finishDrain stops the shards that no node takes, and reports when none is left.
func (c *Core) finishDrain() {
	if !c.drain.last || c.drain.told {
		return
	}
	for i := range c.hosts {
		if h := &c.hosts[i]; c.lease && (h.phase == starting || h.phase == running) {
			c.stop(StopShard{Shard: protocol.ShardID(i), Token: h.token}, 0)
		}
		c.giveUp(protocol.ShardID(i))
	}
	if c.hosting == 0 {
		c.drain.told = true
		c.trace(TraceDrained, 0, protocol.Token{}, "")
		c.do(Drained{})
	}
}
