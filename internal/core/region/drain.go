package region

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// drainState is the orderly end of hosting. Once it begins, no shard is started
// here, and the coordinator moves the shards away. When it reports that no
// more can be moved, the rest (on the last node of a cluster: all) is stopped in order.
type drainState struct {
	*env
	link *link

	on bool
	// asking: Drain is repeated until Drained comes.
	asking bool
	// last is set once no further shards can be moved away: the rest stops here.
	last bool
	// reported: Drained was reported.
	reported bool
}

func (d *drainState) beginDrain() {
	if d.on {
		return
	}
	d.on = true
	if d.link.node == 0 || !d.cfg.Hosts {
		d.last = true
		return
	}
	d.renewDrain()
}

// renewDrain repeats Drain to a coordinator that has just taken office, even after an
// earlier coordinator's Drained. Otherwise the new one would place shards here.
func (d *drainState) renewDrain() {
	if d.on && d.cfg.Hosts {
		d.arm()
		d.asking = true
		d.askDrain()
	}
}

func (d *drainState) askDrain() {
	if d.asking {
		d.do(Send{To: d.link.node, Msg: &protocol.Drain{Head: d.head()}})
	}
}

func (d *drainState) drained(from gossip.NodeID) {
	if d.asking && from == d.link.node {
		d.asking, d.last = false, true
	}
}

// finishDrain stops the shards that no node takes, and reports when none is left.
func (c *Core) finishDrain() {
	if !c.drain.last || c.drain.reported {
		return
	}
	for id, h := range c.hosts.list.usedShards() {
		if c.lease && (h.phase == starting || h.phase == running) {
			c.hosts.stopShard(StopShard{Shard: id, Token: h.token}, 0)
		}
		c.hosts.giveUp(id)
	}
	if c.hosts.hosting == 0 {
		c.drain.reported = true
		c.traceEvent(TraceDrained, 0, protocol.Token{}, "")
		c.do(Drained{})
	}
}
