package region

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/assert"
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
	// stop is how the shard stops. Invariant: nil exactly unless the phase is stopping. Few of the
	// shards that live here are.
	stop *hostStop
}

// hostStop is the stop of a shard.
type hostStop struct {
	// to is where the state is sent.
	to gossip.NodeID
	// answers is the Seq of the order that the stop answers, zero if no coordinator
	// of this term has ordered it.
	answers uint64
	// again is an order to send the state elsewhere once the shard has stopped: to has left
	// the view.
	again turning
	// stranded: it has stopped, to has left the view, and its state waits here
	// for the coordinator to name another home.
	stranded bool
	// next is a start that waits for the stop.
	next *protocol.HostOrder
}

// stopOf returns the stop of a shard, the zero one if it does not stop.
func (h *host) stopOf() hostStop {
	if h.stop == nil {
		return hostStop{}
	}
	return *h.stop
}

// claim is the line of a census report about a shard that has a phase here.
func (h *host) claim(id protocol.ShardID) protocol.Claim {
	cl := protocol.Claim{Shard: id, Token: h.token, State: protocol.ClaimHosted}
	switch h.phase {
	case starting:
		cl.State = protocol.ClaimStarting
	case stopping:
		cl.State, cl.To = protocol.ClaimStopping, h.stop.to
	}
	return cl
}

// turning is an order to send a state that waits here to another home.
type turning struct {
	to     gossip.NodeID
	seq    uint64
	within time.Duration
}

// hostTable has the shards as tenants of this node.
type hostTable struct {
	*env
	link   *link
	routes *routeTable
	states *stateTable
	drain  *drainState
	outbox *outbox

	list hostList
	// hosting counts the shards in any phase but none. Invariant: it is exact.
	hosting int
}

// hostShards starts shards, or confirms that they run. A shard that is still stopping
// is started when it has stopped, and confirmed only then: an immediate confirmation made
// phantom shards in Akka (#32976).
func (hs *hostTable) hostShards(from gossip.NodeID, m *protocol.HostShards) {
	for _, o := range m.Shards {
		if hs.inRange(from, o.Shard) {
			hs.hostShard(from, m, o)
		}
	}
}

func (hs *hostTable) hostShard(from gossip.NodeID, m *protocol.HostShards, o protocol.HostOrder) {
	h := hs.list.entryOf(o.Shard)
	same := h.phase != none && h.token == o.Token
	if !same && hs.outdated(o) {
		hs.traceShard(TraceStaleToken, o.Shard, from, o.Token, "HostShards")
		hs.promise(from, nil, protocol.ShardToken{Shard: o.Shard, Token: o.Token})
		return
	}
	if h.phase == none && !hs.takes(o.Shard) || o.Token.Less(h.token) {
		hs.promise(from, nil, protocol.ShardToken{Shard: o.Shard, Token: o.Token})
		return
	}
	h.order = h.order.Max(m.Stamp())
	switch {
	case h.phase == none:
		hs.startShard(o)
	case same && h.phase == running:
		hs.outbox.hosted.addAnswer(from, m.Header(), protocol.ShardToken{Shard: o.Shard, Token: o.Token})
	case same:
		// If it is starting, the answer follows when it runs. If it is stopping, Stopped follows.
		hs.giveUp(o.Shard)
	default:
		hs.follow(o)
	}
}

// outdated reports whether an order may start nothing here: the shard was promised not to run
// under its token, or the token is of a generation below the view's bound (View.TokensFrom).
func (hs *hostTable) outdated(o protocol.HostOrder) bool {
	return !hs.floors.Token(o.Shard).Less(o.Token) || o.Token.Term.Generation() < hs.view.TokensFrom
}

// takes reports whether a shard may be started here. A draining node still takes a
// shard whose state waits here, as long as it can be moved on: else the state were lost.
func (hs *hostTable) takes(s protocol.ShardID) bool {
	_, bears := hs.states.kept[s]
	return hs.cfg.Hosts && (!hs.drain.on || bears && !hs.drain.last)
}

// follow makes way for a later allocation than the present one. startNext decides whether it is
// started.
func (hs *hostTable) follow(o protocol.HostOrder) {
	h := hs.list.entryOf(o.Shard)
	if h.phase != stopping {
		hs.stopShard(StopShard{Shard: o.Shard, Token: h.token}, 0)
	}
	if next := h.stop.next; next == nil || next.Token.Less(o.Token) {
		h.stop.next = &o
	}
}

func (hs *hostTable) startShard(o protocol.HostOrder) {
	h := hs.list.entryOf(o.Shard)
	if assert.Enabled {
		hs.assertStart(o)
	}
	h.phase, h.token = starting, o.Token
	hs.hosting++
	hs.floors.started(o.Shard, o.Token)
	hs.traceShard(TraceStart, o.Shard, o.From, o.Token, "")
	hs.do(StartShard{Shard: o.Shard, Token: o.Token, From: o.From, Ended: o.Ended})
	hs.states.dropState(o.Shard, hs.cfg.Self, o.Token)
}

func (hs *hostTable) shardStarted(shards []protocol.ShardToken) {
	for _, st := range shards {
		if !hs.list.hasShard(st.Shard) {
			continue
		}
		h := hs.list.entryOf(st.Shard)
		if h.phase != starting || h.token != st.Token {
			continue
		}
		h.phase = running
		hs.traceShard(TraceHosted, st.Shard, hs.cfg.Self, st.Token, "")
		hs.routes.openOwn(st.Shard, h.token, h.order)
		hs.outbox.hosted.addAnswer(hs.link.node, nil, st)
	}
}

func (hs *hostTable) runsUnder(s protocol.ShardID, t protocol.Token) bool {
	h := hs.list.copyOf(s)
	return h.phase == running && h.token == t
}

// promise sends Stopped for a shard that does not run here under the token or
// below; it answers the order unless that is nil. The floor rises first, so that the
// promise holds whatever order comes late.
func (hs *hostTable) promise(to gossip.NodeID, order *protocol.Head, st protocol.ShardToken) {
	hs.floors.raise(st.Shard, st.Token)
	floor := hs.floors.Token(st.Shard)
	if h := hs.list.copyOf(st.Shard); h.phase != none && !floor.Less(h.token) {
		// Running under a later token: promise about the old token alone.
		floor = st.Token
	}
	hs.outbox.stopped.addAnswer(to, order, protocol.ShardToken{Shard: st.Shard, Token: floor.Max(st.Token)})
}

// handOff stops shards, and promises the same for those that are not here. An
// order overtaken by a later HostShards is void, since that was answered with hosted.
func (hs *hostTable) handOff(from gossip.NodeID, m *protocol.HandOff) {
	for _, o := range m.Shards {
		if hs.inRange(from, o.Shard) {
			hs.handOffShard(from, m, o)
		}
	}
}

func (hs *hostTable) handOffShard(from gossip.NodeID, m *protocol.HandOff, o protocol.HandOffOrder) {
	h := hs.list.entryOf(o.Shard)
	order := turning{o.To, m.Seq, m.Within}
	switch {
	case h.phase == none && hs.sendElsewhere(o, order):
	case h.phase == none || o.Token.Less(h.token):
		hs.promise(from, m.Header(), protocol.ShardToken{Shard: o.Shard, Token: o.Token})
	case o.Move.Less(h.order):
		hs.traceShard(TraceStaleToken, o.Shard, from, o.Move, "HandOff overtaken")
	case h.phase == stopping:
		hs.dropNext(o)
		hs.goOn(o.Shard, order)
	default:
		hs.stopShard(StopShard{Shard: o.Shard, Token: h.token, To: o.To, Within: m.Within}, m.Seq)
	}
}

// dropNext drops a pending start that is superseded before it began.
func (hs *hostTable) dropNext(o protocol.HandOffOrder) {
	stop := hs.list.entryOf(o.Shard).stop
	if stop.next != nil && !o.Token.Less(stop.next.Token) {
		hs.floors.raise(o.Shard, o.Token)
		stop.next = nil
	}
}

func (hs *hostTable) hostsAny(shards []protocol.HandOffOrder) bool {
	for _, o := range shards {
		if hs.list.hasShard(o.Shard) && hs.list.copyOf(o.Shard).phase != none {
			return true
		}
	}
	return false
}
