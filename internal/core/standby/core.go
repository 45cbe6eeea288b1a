package standby

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// Core is the replicated state of one entity type on one node. It is not safe for
// concurrent use.
type Core struct {
	cfg  Config
	now  clock.Instant
	out  *Effects
	view *gossip.View

	holders map[protocol.ShardID]*holder
	owners  map[protocol.ShardID]*owner
	// bytes is what holders keep. Invariant: the sum over all copies.
	bytes int
	// next is when something is due. Invariant: not after the earliest of the owners.
	next clock.Instant
}

// New returns a Core that holds nothing.
func New(cfg Config) *Core {
	for _, d := range []struct {
		at  *time.Duration
		def time.Duration
	}{{&cfg.Resend, 200 * time.Millisecond}, {&cfg.Grace, 500 * time.Millisecond}} {
		*d.at = cmp.Or(*d.at, d.def)
	}
	cfg.BytesMax = cmp.Or(cfg.BytesMax, 1<<30)
	cfg.PageBytes = cmp.Or(cfg.PageBytes, 256<<10)
	cfg.Mode = cmp.Or(cfg.Mode, Quorum)
	cfg.Replicas = max(cfg.Replicas, 1)
	return &Core{
		cfg: cfg, next: clock.Never,
		holders: map[protocol.ShardID]*holder{}, owners: map[protocol.ShardID]*owner{},
	}
}

// Step handles one event and appends what is to be done to out. Now must not go
// back between steps.
func (c *Core) Step(now clock.Instant, ev Event, out *Effects) {
	c.now, c.out = now, out
	switch ev := ev.(type) {
	case Tick:
		c.stepTick()
	case ViewChanged:
		c.view = ev.View
		c.eachOwner((*owner).viewChanged)
	case Received:
		c.onReceived(ev)
	case Configured:
		c.cfg.Role, c.cfg.Mode, c.cfg.Replicas, c.cfg.BytesMax = ev.Role, ev.Mode, ev.Replicas, ev.BytesMax
	case Begin:
		c.onBegin(ev)
	case End:
		if o := c.owners[ev.Shard]; o != nil && !ev.Token.Less(o.token) {
			delete(c.owners, ev.Shard)
		}
	case EndAll:
		clear(c.owners)
	case Changes:
		c.changes(ev)
	}
	c.out = nil
}

// changes first notes all, then sends.
func (c *Core) changes(all []Change) {
	var touched []*owner
	for i := range all {
		o := c.owner(all[i].Shard, all[i].Token)
		if o == nil || !o.ready {
			continue
		}
		o.change(&all[i])
		if !o.touched {
			o.touched = true
			touched = append(touched, o)
		}
	}
	for _, o := range touched {
		o.touched = false
		o.pushAll()
	}
}

// Deadline returns when a Tick is due.
func (c *Core) Deadline() clock.Instant { return c.next }

// Bytes returns how much the copies held here take.
func (c *Core) Bytes() int { return c.bytes }

// Standby returns for how many shards this node holds copies without being their
// home.
func (c *Core) Standby() int {
	n := 0
	for s, h := range c.holders { // order-free: counts
		if c.owners[s] == nil && len(h.copies) > 0 {
			n++
		}
	}
	return n
}

// eachOwner calls f for every owner, in the order of shards.
func (c *Core) eachOwner(f func(*owner)) {
	for _, s := range slices.Sorted(maps.Keys(c.owners)) {
		if o := c.owners[s]; o != nil {
			f(o)
		}
	}
}

func (c *Core) stepTick() {
	c.next = clock.Never
	c.eachOwner((*owner).stepOwner)
}

// wake asks for a Tick after d.
func (c *Core) wake(at clock.Instant) { c.next = clock.Min(c.next, at) }

func (c *Core) onBegin(ev Begin) {
	if o := c.owners[ev.Shard]; o != nil && !o.token.Less(ev.Token) {
		return
	}
	o := newOwner(c, ev.Shard, ev.Token)
	c.owners[ev.Shard] = o
	o.collect()
}

// members returns the nodes to ask and to inform: the role's voting members.
func (c *Core) members() []gossip.NodeID {
	var ids []gossip.NodeID
	for _, m := range c.view.WithRole(c.cfg.Role) {
		ids = append(ids, m.ID)
	}
	return ids
}

// present reports whether a node may still answer.
func (c *Core) present(id gossip.NodeID) bool { return id == c.cfg.Self || c.view.Member(id) != nil }

func (c *Core) sendMessage(to gossip.NodeID, m Message) { c.do(Send{To: to, Msg: m}) }

func (c *Core) do(e Effect) { c.out.Do = append(c.out.Do, e) }

func (c *Core) onReceived(r Received) {
	switch m := r.Msg.(type) {
	case Collect:
		c.holderCollect(r.From, m)
	case Write:
		c.holderWrite(r.From, m)
	case Announce:
		c.holderAnnounce(r.From, m)
	case Held:
		if o := c.owner(m.Shard, m.Token); o != nil {
			o.held(r.From, m)
		}
	case Ack:
		if o := c.owner(m.Shard, m.Token); o != nil {
			o.acked(r.From, m)
		}
	case Announced:
		if o := c.owner(m.Shard, m.Token); o != nil {
			o.announced(r.From, m)
		}
	case Refused:
		if o := c.owner(m.Shard, m.Token); o != nil && o.token.Less(m.Fence) {
			delete(c.owners, m.Shard)
			c.do(Deposed{Shard: m.Shard, Token: m.Token})
		}
	}
}

// owner returns the owner part for an allocation, nil if there is none.
func (c *Core) owner(s protocol.ShardID, t protocol.Token) *owner {
	if o := c.owners[s]; o != nil && o.token == t {
		return o
	}
	return nil
}
