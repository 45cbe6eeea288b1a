package main

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/explore/snapshot"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// plan bounds an exploration.
type plan struct {
	name string
	// up is the number of members at the start; the other nodes may join.
	up int
	// unallocated leaves the shards without homes at the start.
	unallocated bool
	// leastShards places shards by strategy.LeastShards, which also moves them when a member joins.
	// Otherwise the application names their homes.
	leastShards bool
	strategy    strategy.Strategy
	// wishes may happen once each, in any order. faults lists the kinds that may happen, budget
	// is how many.
	wishes []action
	faults []kind
	budget int
	// ownFirst: what a node sends to itself comes before all else. Otherwise it has a queue of its
	// own, as production has.
	ownFirst bool
	// span is the length of paths in time.
	span time.Duration
}

// explorer visits all executions of the composed cores within the bounds of a plan.
//
// Messages take no time. At one instant it delivers the messages of the links, each of which
// keeps its order, the newest view, and the due timers, in every order. When nothing is due,
// time advances to the next timer. Wishes and faults happen between any two such steps, the
// first of them in the first instant, since a cluster at rest is the same later. What a fault
// delays may happen at any later step, or never.
//
// A state that was visited before is not entered again. From every end of the exploration, the
// delays end, all members ask for all shards, and time passes in one order until all shards are
// served (checkServed).
type explorer struct {
	plan   *plan
	camera *snapshot.Camera
	buf    []byte
	seen   map[digest]bool
	// served has the states from which the end was reached.
	served map[digest]bool
	path   []action
	most   int
	// states, steps, depth and ends count the work. cut is set when states reached most.
	states, steps, depth, ends int
	cut                        bool
	// taken counts how often an action was performed, by its name.
	taken map[string]int
	// watch is called at every step, if set.
	watch func(before, after *world, a action)
	// outside leaves out the cores' checks of themselves.
	outside bool
	loud    bool
	lines   []string
}

// kind is the kind of an action.
type kind uint8

const (
	// These are due, and take no time.
	deliver kind = iota
	fire
	learn
	// proceed advances time to the next timer.
	proceed
	// These may happen at any later step, or never.
	release
	heal
	lapse
	regain
	remove
	catchUp
	part
	rise
	endIncarnation
	// These are wished for once each.
	need
	move
	drain
	leave
	join
	meet
	yield
	takeOver
	// These are faults.
	crash
	isolate
	expire
	breakLink
	hold
	lag
	misjudge
	elsewhere
	kinds
)

var kindNames = [kinds]string{
	"deliver", "timers", "view", "time", "late message", "heal", "lease ends", "lease returns", "remove", "late view", "depart", "up", "end",
	"need", "move", "drain", "leave", "join", "stand over another cluster", "yield to another cluster", "take over",
	"crash", "cut off", "lease lapses", "connection breaks", "hold", "delay view", "wrong proof of death", "other majority",
}

func (k kind) String() string { return kindNames[k] }

// action is one step: a and b are indices of nodes, or the ends of a link. For release, a is the
// place in the list of late messages; for move, b is the shard.
type action struct {
	kind  kind
	a, b  int
	class class
}

// node is one node of a state: the two cores, and the shell around them as far as the cores
// can observe it.
type node struct {
	id    gossip.NodeID
	coord *coordinator.Core
	reg   *region.Core

	// alive is false before the node starts and after its incarnation has ended.
	alive bool
	view  *gossip.View
	lease bool
	// lapsedIn is the generation in which the lease lapsed.
	lapsedIn uint32
	// lagging: views do not reach the node. cut: no message reaches it or leaves it.
	lagging, cut bool
	drained      bool

	replica   replica
	tenants   map[protocol.ShardID]*tenant
	held      map[stateOf]bool
	transfers map[protocol.ShardID]*transfer
	// stoppedFor has the newest allocation that stopped here in order.
	stoppedFor map[protocol.ShardID]protocol.Token
}

// tenant is a shard that runs on a node.
type tenant struct {
	token             protocol.Token
	running, stopping bool
	stop              region.StopShard
}

// stateOf names a state: the one with which an allocation ended at a node.
type stateOf struct {
	shard protocol.ShardID
	token protocol.Token
	from  gossip.NodeID
}

// transfer sends the state of a stopped shard until it is acknowledged.
type transfer struct {
	order     region.StopShard
	next, end clock.Instant
}

// replica is a node's part of the replicated records. It has no anti-entropy: a record stands
// exactly where a write or a read has put it.
type replica struct {
	fence   gossip.Epoch
	records map[protocol.ShardID]protocol.Record
}

// truth is the record of the checks: a branch's past, as far as later checks need it.
type truth struct {
	// written has the allocations whose records are acknowledged at their level.
	written map[protocol.ShardToken]bool
	// begun has the newest allocation of each shard that a member has started.
	begun map[protocol.ShardID]protocol.Token
	// office has the holder of each term.
	office map[gossip.Epoch]gossip.NodeID
	// misjudged: a living node was removed by a proof of its death. Faulty: a fault has happened
	// that may lose a state.
	misjudged, faulty bool
}

const (
	nodes  = 3
	shards = 2
	// resend is the interval of retransmissions, stopTimeout what an owner has to stop a shard.
	resend      = 20 * time.Millisecond
	stopTimeout = 100 * resend
)

// class is a kind of connections. Each keeps its order.
type class uint8

const (
	control class = iota
	data
	bulk
	classes
)

// The messages that are none of the protocol's. They are immutable, as those are.
type (
	// operation is a read or write that a node's replicator executes, operated its end.
	operation struct {
		id      uint64
		term    gossip.Epoch
		records []protocol.Record
		write   bool
	}
	operated struct {
		op      *operation
		result  coordinator.Result
		higher  gossip.Epoch
		records []protocol.Record
	}
	// started and stopped report the end of a start or stop to the node's own region.
	started struct{ st protocol.ShardToken }
	stopped struct{ order region.StopShard }
	// trail is the last message of a route that was closed.
	trail struct{ st protocol.ShardToken }
	// marker and markerAck close a route in order.
	marker    struct{ st protocol.ShardToken }
	markerAck struct{ st protocol.ShardToken }
	// stateFrame has the state of a stopped shard.
	stateFrame struct {
		st   protocol.ShardToken
		term gossip.Epoch
	}
	stateAck struct{ st protocol.ShardToken }
)

// digest identifies a state or a part of one: equal states have equal digests.
type digest [16]byte

// flight is a message on a connection.
type flight struct {
	msg any
	id  digest
}

// lateFlight is a message that has left its place in the order, and may arrive at any time.
type lateFlight struct {
	from, to int
	flight
}

// cluster is the state outside the nodes: the newest view, and the record of the checks.
type cluster struct {
	newest *gossip.View
	truth  truth
}

// world is one state. Data that it points to is not modified while another state may use it:
// edit and editCluster copy before a change.
type world struct {
	x       *explorer
	now     clock.Instant
	nodes   [nodes]*node
	ids     [nodes]digest
	cluster *cluster
	past    digest
	links   [classes][nodes][nodes][]flight
	late    []lateFlight
	// left is the number of faults that may still happen, wishes the set of wishes.
	left   int
	wishes uint
	// own marks the parts that this state has copied since the last one.
	own        [nodes]bool
	ownCluster bool
}
