package region

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// hostPhase is how far a shard has started or stopped here.
type hostPhase uint8

const (
	none hostPhase = iota
	starting
	running
	stopping
)

// host is one shard as a tenant of this node. The zero host is none.
type host struct {
	phase hostPhase
	// token is that of the allocation. Invariant: zero exactly if phase is none, and
	// above the shard's floor unless the phase is stopping.
	token protocol.Token
	// order is the stamp of the newest HostShards that was obeyed: a HandOff from
	// before it was overtaken by it.
	order protocol.Token
	// to is where the state is sent. Invariant: zero unless stopping.
	to gossip.NodeID
	// answers is the Seq of the order that the stop answers, zero if no coordinator
	// of this term has ordered it.
	answers uint64
	// again is an order to send the state elsewhere once the shard has stopped: to has left
	// the view.
	again turning
	// stranded: it has stopped, to has left the view, and its state waits here
	// for the coordinator to name another home. Invariant: only while stopping.
	stranded bool
	// next is a start that waits for the stop. Invariant: only while stopping.
	next *protocol.HostOrder
}

// turning is an order to send a state that waits here to another home.
type turning struct {
	to     gossip.NodeID
	seq    uint64
	within time.Duration
}

// hostShards starts shards, or confirms that they run. A shard that is still stopping
// is started when it has stopped, and confirmed only then: an immediate confirmation made
// phantom shards in Akka (#32976).
func (c *Core) hostShards(r Received, m *protocol.HostShards) {
	if !c.lease || c.view.Member(c.cfg.Self) == nil {
		c.hold(r, "lease")
		return
	}
	for _, o := range m.Shards {
		if c.inRange(r.From, o.Shard) {
			c.hostShard(r.From, m, o)
		}
	}
}

func (c *Core) hostShard(from gossip.NodeID, m *protocol.HostShards, o protocol.HostOrder) {
	h := &c.hosts[o.Shard]
	same := h.phase != none && h.token == o.Token
	if !same && !c.floors.Token(o.Shard).Less(o.Token) && !c.cfg.Mutant.Is("no token check") {
		c.traceShard(TraceStaleToken, o.Shard, from, o.Token, "HostShards")
		c.promise(from, nil, protocol.ShardToken{Shard: o.Shard, Token: o.Token})
		return
	}
	takes := c.takes(o.Shard)
	if h.phase == none && !takes || h.phase != none && o.Token.Less(h.token) {
		c.promise(from, nil, protocol.ShardToken{Shard: o.Shard, Token: o.Token})
		return
	}
	h.order = h.order.Max(m.Stamp())
	switch {
	case h.phase == none:
		c.start(o)
	case same && h.phase == running:
		c.outbox.hosted.add(from, m.Header(), protocol.ShardToken{Shard: o.Shard, Token: o.Token})
	case same:
		// If it is starting, the answer follows when it runs. If it is stopping, Stopped follows.
		c.giveUp(o.Shard)
	default:
		c.follow(o, takes)
	}
}

// takes reports whether a shard may be started here. A draining node still takes a
// shard whose state waits here, as long as it can be moved on: else the state were lost.
func (c *Core) takes(s protocol.ShardID) bool {
	_, bears := c.kept[s]
	return c.cfg.Hosts && (!c.drain.on || bears && !c.drain.last)
}

// follow makes way for a later allocation than the present one.
func (c *Core) follow(o protocol.HostOrder, takes bool) {
	h := &c.hosts[o.Shard]
	if h.phase != stopping {
		c.stop(StopShard{Shard: o.Shard, Token: h.token}, 0)
	}
	if takes && (h.next == nil || h.next.Token.Less(o.Token)) {
		h.next = &o
	}
}

func (c *Core) start(o protocol.HostOrder) {
	h := &c.hosts[o.Shard]
	h.phase, h.token, h.next = starting, o.Token, nil
	c.hosting++
	c.floors.started(o.Shard, o.Token)
	c.traceShard(TraceStart, o.Shard, o.From, o.Token, "")
	c.do(StartShard{Shard: o.Shard, Token: o.Token, From: o.From})
	c.dropState(o.Shard, c.cfg.Self, o.Token)
}

func (c *Core) shardStarted(shards []protocol.ShardToken) {
	for _, st := range shards {
		if int(st.Shard) >= len(c.hosts) {
			continue
		}
		h := &c.hosts[st.Shard]
		if h.phase != starting || h.token != st.Token {
			continue
		}
		h.phase = running
		c.traceShard(TraceHosted, st.Shard, c.cfg.Self, st.Token, "")
		c.openOwn(st.Shard)
		c.outbox.hosted.add(c.office.node, nil, st)
	}
}

// promise sends Stopped for a shard that does not run here under the token or
// below; it answers the order unless that is nil. The floor rises first, so that the
// promise holds whatever order comes late.
func (c *Core) promise(to gossip.NodeID, order *protocol.Head, st protocol.ShardToken) {
	if !c.cfg.Mutant.Is("Stopped without a floor") {
		c.floors.raise(st.Shard, st.Token)
	}
	floor := c.floors.Token(st.Shard)
	if h := &c.hosts[st.Shard]; h.phase != none && !floor.Less(h.token) {
		// Running under a later token: promise about the old token alone.
		floor = st.Token
	}
	c.outbox.stopped.add(to, order, protocol.ShardToken{Shard: st.Shard, Token: floor.Max(st.Token)})
}

// handOff stops shards, and promises the same for those that are not here. An
// order overtaken by a later HostShards is void, since that was answered with hosted.
func (c *Core) handOff(r Received, m *protocol.HandOff) {
	if !c.lease && c.hostsAny(m.Shards) {
		// The type's stop handler is user code: without a lease it must not run.
		c.hold(r, "lease")
		return
	}
	for _, o := range m.Shards {
		if c.inRange(r.From, o.Shard) {
			c.handOffShard(r.From, m, o)
		}
	}
}

func (c *Core) handOffShard(from gossip.NodeID, m *protocol.HandOff, o protocol.HandOffOrder) {
	h := &c.hosts[o.Shard]
	order := turning{o.To, m.Seq, m.Within}
	switch {
	case h.phase == none && c.resend(o, order):
	case h.phase == none || o.Token.Less(h.token):
		c.promise(from, m.Header(), protocol.ShardToken{Shard: o.Shard, Token: o.Token})
	case o.Move.Less(h.order):
		c.traceShard(TraceStaleToken, o.Shard, from, o.Move, "HandOff overtaken")
	case h.phase == stopping:
		c.dropNext(o)
		c.goOn(o.Shard, order)
	default:
		c.stop(StopShard{Shard: o.Shard, Token: h.token, To: o.To, Within: m.Within}, m.Seq)
	}
}

// dropNext drops a pending start that is superseded before it began.
func (c *Core) dropNext(o protocol.HandOffOrder) {
	if h := &c.hosts[o.Shard]; h.next != nil && !o.Token.Less(h.next.Token) {
		c.floors.raise(o.Shard, o.Token)
		h.next = nil
	}
}

func (c *Core) hostsAny(shards []protocol.HandOffOrder) bool {
	for _, o := range shards {
		if int(o.Shard) < len(c.hosts) && c.hosts[o.Shard].phase != none {
			return true
		}
	}
	return false
}
