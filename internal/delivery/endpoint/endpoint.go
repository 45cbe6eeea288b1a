package endpoint

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/delivery"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Settings are the settings of an entity type that do not depend on its messages.
type Settings struct {
	// Name is the name of the type. Extract returns the shard of an id.
	Name    string
	Extract Extractor
	// Buffers bounds the buffers of the Router.
	Buffers delivery.Bounds
	// Mailbox, IDBytes and PayloadBytes are sharding.Limits.
	Mailbox, IDBytes, PayloadBytes int

	Supervision activation.Supervision
	Passivation activation.Passivation
	// StopTimeout, IdleTimeout and BlockedAfter are those of activation.Config.
	StopTimeout, IdleTimeout, BlockedAfter time.Duration

	// Lived and Crashed receive the beginnings and ends of instances: activation.Config.Lived
	// and Fell. ShardStarted is called when a shard has started here. nil means no calls.
	Lived        func(shard strategy.ShardID, id string, lives bool)
	Crashed      func(shard strategy.ShardID, id string)
	ShardStarted func()
}

// Counters are the counters and gauges of one type on this node, for the life of the process.
type Counters struct {
	delivery.Counters
	// Entities counts what the entities on this node do.
	Entities activation.Counters
	// NodeLost counts asks that failed because the connection to the home broke. Received
	// counts requests of other nodes, Stale those under another token than the shard's.
	NodeLost, Received, Stale atomic.Uint64
	// In and Out count shards that were started and stopped here by order.
	In, Out atomic.Uint64
	// SelfAsks counts asks that would have waited for themselves, MutualAsks those of
	// entities that ask each other.
	SelfAsks, MutualAsks atomic.Uint64
}

// Incarnation is the part of a Set that serves one type.
type Incarnation struct {
	*delivery.Incarnation
	// Keeper replicates the states of entities; nil if there are no copies.
	Keeper activation.Keeper

	log        *slog.Logger
	observer   figures.ShardingObserver
	leaseValid func() bool
	strict     bool
	budgets    *delivery.Budgets
	mutual     *mutualAsks
}

// Endpoint is the data path of one entity type, for the life of the process. Its Router sends
// encoded messages to their homes. All methods are safe for concurrent use.
type Endpoint struct {
	Settings
	*delivery.Router
	Counters *Counters
	// Current is the incarnation that serves the type, nil while there is none.
	Current atomic.Pointer[Incarnation]

	// epoch is the instant from which activation.Message.Expires counts.
	epoch time.Time
	// strict is that of the present incarnation.
	strict atomic.Bool
	// limit is the present limit of Passivation.
	limit   atomic.Int64
	senders senderCache
	// cancelled are the asks of other nodes whose callers have given up.
	cancelled delivery.CancelledAsks
	buffers   sync.Pool
	rim       rim
}

// rim is the part of an endpoint that depends on the types of messages.
type rim interface {
	delivery.Local
	// openHost makes the host of an incarnation, closeHost removes and returns it. hosting
	// returns the present one. The results are nil if there is none.
	openHost(inc *Incarnation)
	closeHost() hosting
	hosting() hosting
	// hideShards lets no local sender find the shards that run here.
	hideShards()
	// newBatch returns a batch for requests; its flush gives it back.
	newBatch() requestBatch
	onReply(r frames.Reply)
	// failCalls fails the asks that are at a node, 0 for all nodes, and returns their number.
	failCalls(node gossip.NodeID, err error) int
	countCalls() int
}

// initSettings prepares an Endpoint whose rim is at.
func (e *Endpoint) initSettings(s Settings, at rim) {
	e.Settings, e.Counters, e.rim, e.epoch = s, &Counters{}, at, time.Now()
	e.limit.Store(int64(s.Passivation.Limit))
	e.buffers.New = func() any { return new([]byte) }
	e.Router = delivery.NewRouter(delivery.RouterConfig{
		Type: s.Name, Shards: s.Extract.Shards, Counters: &e.Counters.Counters, Local: at,
		ErrorOf: errorOf, Bounds: s.Buffers,
	})
}

// SetEntityLimit replaces the limit of Passivation, which the type must have.
func (e *Endpoint) SetEntityLimit(limit int) { e.limit.Store(int64(limit)) }

// PendingAsks returns the number of asks of this node that wait for their reply.
func (e *Endpoint) PendingAsks() int { return e.rim.countCalls() }

// Attach begins to run the type's entities for an incarnation, if the node hosts it. Serve lets
// messages reach them. Asks that are pending at Detach fail, instances are abandoned, and
// buffers stay for the next incarnation.
func (e *Endpoint) Attach(inc *Incarnation, hosts bool) {
	if hosts {
		e.rim.openHost(inc)
		e.OpenAccounts(inc.Incarnation, inc.budgets)
	}
	e.strict.Store(inc.strict)
	e.Current.Store(inc)
}

// Detach ends the service of the present incarnation, and returns the function that waits for
// the handlers that still run.
func (e *Endpoint) Detach() (wait func(context.Context) error) {
	wait = func(context.Context) error { return nil }
	inc := e.Current.Swap(nil)
	if inc == nil {
		return wait
	}
	e.End()
	if h := e.rim.closeHost(); h != nil {
		h.Abandon()
		wait = h.Close
	}
	e.rim.failCalls(inc.Self, failure.Abandoned)
	e.failLost(0)
	return wait
}

// failLost ends the asks that are at a node to which the connection is lost; 0 stands for all
// nodes.
func (e *Endpoint) failLost(node gossip.NodeID) {
	e.Counters.NodeLost.Add(uint64(e.rim.failCalls(node, failure.NodeLost)))
}

// onNodeLost ends the asks that were on their way to a node, or back, and suspends the routes to
// it.
func (e *Endpoint) onNodeLost(node gossip.NodeID) {
	inc := e.Current.Load()
	if inc == nil {
		return
	}
	// First the routes: an ask that fails may be repeated immediately.
	e.OnPeerLost(inc.Incarnation, node)
	e.failLost(node)
}

// rejectRequest ends a request that is not handled: its caller receives the error, or it is
// counted.
func (e *Endpoint) rejectRequest(from gossip.NodeID, q *frames.Request, c frames.Code, why delivery.Reason, text string) {
	if q.Reliable != nil {
		e.RejectReliable(from, q, c, text)
		return
	}
	e.Counters.Drop(why, 1)
	if inc := e.Current.Load(); inc != nil {
		e.rejectAsk(inc, activation.ReplyTo{Node: from, Call: q.Call}, c, text)
	}
}

// rejectAsk answers an ask that is not handled. It does nothing for a tell.
func (e *Endpoint) rejectAsk(inc *Incarnation, to activation.ReplyTo, c frames.Code, text string) {
	switch {
	case to.Call == 0:
	case to.Node == inc.Self:
		e.rim.FailAsk(to.Call, errorOf(c, text))
	default:
		inc.Out.Send(to.Node, append(frames.AppendReply(nil, e.Name, to.Call, c), frames.CutText(text)...))
	}
}

// noteArrival counts an ask that waits for an ask of its entity.
func (e *Endpoint) noteArrival(asker uint64, id string) {
	if inc := e.Current.Load(); inc != nil && inc.mutual.noteArrival(asker, e.Name, id) {
		e.Counters.MutualAsks.Add(1)
	}
}
