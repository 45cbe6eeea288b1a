package region

import (
	"fmt"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// Check returns the first invariant of the core that does not hold. It is for
// simulators and tests, between steps; it costs a pass over all shards.
func (c *Core) Check() error {
	wanted, marked, hosting := 0, 0, 0
	for id := range protocol.ShardID(c.cfg.Shards) {
		if err := c.checkRoute(id); err != nil {
			return err
		}
		if err := c.checkHost(id); err != nil {
			return err
		}
		r := c.routes.list.entryOf(id)
		if r.wanted {
			wanted++
		}
		if r.awaitedOwner() != 0 {
			marked++
		}
		if c.hosts.list.copyOf(id).phase != none {
			hosting++
		}
	}
	if wanted != c.routes.wanted || marked != c.routes.marked || hosting != c.hosts.hosting {
		return fmt.Errorf("region: counted %d wanted, %d marked, %d hosting; kept %d, %d, %d",
			wanted, marked, hosting, c.routes.wanted, c.routes.marked, c.hosts.hosting)
	}
	if presumed := c.link.election.Presumed(); c.link.candidate == c.link.node && len(presumed) > 0 {
		return fmt.Errorf("region: %v is presumed to decline, and no candidate is asked", presumed)
	}
	if hosting != len(c.floors.running) {
		return fmt.Errorf("region: %d shards live here, the floors say %d", hosting, len(c.floors.running))
	}
	return nil
}

func (c *Core) checkRoute(id protocol.ShardID) error {
	r := c.routes.list.entryOf(id)
	switch {
	case r.open && c.view.Member(r.home) == nil:
		return fmt.Errorf("region: the route of shard %v leads out of the view", id)
	case r.open && r.wanted:
		return fmt.Errorf("region: the home of shard %v is wanted although its route is open", id)
	case r.awaitedOwner() != 0 && r.open:
		return fmt.Errorf("region: a marker for shard %v is out although its route is open", id)
	}
	return nil
}

func (c *Core) checkHost(id protocol.ShardID) error {
	h := c.hosts.list.copyOf(id)
	floor := c.floors.token[id]
	switch {
	case h.token.IsZero() != (h.phase == none):
		return fmt.Errorf("region: shard %v in phase %d has token %v", id, h.phase, h.token)
	case (h.phase == starting || h.phase == running) && !floor.Less(h.token):
		return fmt.Errorf("region: shard %v runs under %v, at or below its floor %v", id, h.token, floor)
	case (h.stop != nil) != (h.phase == stopping):
		return fmt.Errorf("region: shard %v in phase %d has the stop %v", id, h.phase, h.stop)
	case floor.Less(c.floors.unconfirmed[id]):
		return fmt.Errorf("region: Stopped of shard %v was promised above its floor", id)
	}
	return nil
}

// Registered reports whether the elected coordinator has registered this
// region. Messages then reach their homes, or will.
func (c *Core) Registered() bool { return c.link.registered }

// Coordinator returns the type's coordinator, zero if the view elects none.
func (c *Core) Coordinator() gossip.NodeID { return c.link.node }

// Hosted returns the shards hosted here, by shard.
func (c *Core) Hosted() []protocol.Claim {
	var out []protocol.Claim
	for id, h := range c.hosts.list.usedShards() {
		if h.phase != none {
			out = append(out, h.claim(id))
		}
	}
	return out
}

// Route returns the home to which messages for a shard are sent; ok is false while they
// are buffered.
func (c *Core) Route(s protocol.ShardID) (h protocol.Home, ok bool) {
	if !c.routes.list.hasShard(s) {
		return protocol.Home{}, false
	}
	r := c.routes.list.entryOf(s)
	return protocol.Home{Shard: s, Node: r.home, Token: r.token}, r.open
}
