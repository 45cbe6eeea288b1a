package delivery

import (
	"context"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/reliable"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/signal"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Router holds the routes of one type, one for each shard, for the life of the process. It
// moves encoded requests. Local decodes them and runs them on this node. All methods are safe
// for concurrent use.
type Router struct {
	typeName   string
	shardCount uint32
	bounds     Bounds
	routes     routeTable
	counters   *Counters
	// local delivers to the shards that run here.
	local Local
	// errorOf returns the error for a code and a text that another node sent.
	errorOf func(frames.Code, string) error
	// now is the incarnation that serves the type, nil while there is none.
	now atomic.Pointer[Incarnation]
	// closed is set by Close: no further incarnation will serve the type. ended is closed then.
	closed atomic.Bool
	ended  chan struct{}

	// heldMessages and heldBytes count the contents of all buffers.
	heldMessages, heldBytes atomic.Int64
	room                    signal.Signal
	// looks counts calls of Look, and belongs to its caller.
	looks   uint64
	looking lookList
	// differs describes how this node's settings differ from the coordinator's; nil means
	// that they are equal. While they differ, no shard has a home for this node.
	differs atomic.Pointer[string]
	// producers are the reliable producers.
	producers producers
}

// Local is the part of an endpoint that a Router uses: the shards that run on this node, and
// the asks that wait here.
type Local interface {
	// Publish lets local senders find the shard that runs here, Hide undoes it. Both are
	// called with the mutex of the route.
	Publish(shard strategy.ShardID, token protocol.Token) (hosted bool)
	Hide(shard strategy.ShardID)
	// Deliver passes a request of any node to the shard that runs here. It reports false if
	// the shard does not run here under that token, and an error if the frame is malformed.
	// It keeps nothing of the frame.
	Deliver(from gossip.NodeID, frame []byte) (hosted bool, err error)
	// MoveCall records the node of an ask, FailAsk ends the ask. Both report whether it was
	// open.
	MoveCall(call uint64, node gossip.NodeID) bool
	FailAsk(call uint64, err error) bool
}

// Incarnation is the part of a node's service that a router uses.
type Incarnation struct {
	Self  gossip.NodeID
	Links Links
	Ctx   context.Context
	Work  *sync.WaitGroup
	// Need, Misrouted and Acked notify the driver of the type; they do not block.
	Need      func(strategy.ShardID)
	Misrouted func(strategy.ShardID, protocol.Token)
	Acked     func(from gossip.NodeID, shard strategy.ShardID, token protocol.Token)
	// Out sends answers; it does not block either.
	Out *Outbox
	// HomeResolved is called when a shard with waiting messages has got its home, with the
	// time that they waited; nil means no calls.
	HomeResolved func(took time.Duration)
	// Accounts are those of the senders to this node, nil if it does not host the type.
	Accounts *Accounts
}

// Send queues a frame for a node.
func (n *Incarnation) Send(to gossip.NodeID, frame []byte) error {
	return n.Links.Send(to, transport.Message, transport.KindEntity, frame)
}

// RouterConfig holds the settings of a router.
type RouterConfig struct {
	// Type is the name of the type.
	Type     string
	Shards   uint32
	Bounds   Bounds
	Counters *Counters
	// Local is the typed side.
	Local Local
	// ErrorOf returns the error for a code and a text that another node sent.
	ErrorOf func(frames.Code, string) error
}

// Bounds limits the messages in the buffers of a router: of all its routes, and of each.
type Bounds struct {
	BufferMessages, BufferBytes int
	ShardMessages, ShardBytes   int
}

func NewRouter(cfg RouterConfig) *Router {
	return &Router{
		typeName: cfg.Type, shardCount: cfg.Shards, bounds: cfg.Bounds, counters: cfg.Counters, local: cfg.Local, errorOf: cfg.ErrorOf,
		routes: newRouteTable(cfg.Shards), ended: make(chan struct{}),
	}
}

// Serving returns the incarnation that serves the type, nil if none does.
func (r *Router) Serving() *Incarnation { return r.now.Load() }

// Ended returns a channel that Close closes.
func (r *Router) Ended() <-chan struct{} { return r.ended }

// SetDifference sets the description of how this node's settings differ from the
// coordinator's; nil means that they are equal.
func (r *Router) SetDifference(differs *string) { r.differs.Store(differs) }

// RouteStatus describes one route.
type RouteStatus struct {
	Home  gossip.NodeID
	Token protocol.Token
	// State is the state of the route in one word.
	State string
	// Buffered is the number of messages in its buffer.
	Buffered int
}

// Status returns the present state of the route to a shard.
func (r *Router) Status(shard strategy.ShardID) (s RouteStatus) {
	rt := r.routes.usedRoute(shard)
	if rt == nil {
		rt = &shardRoute{}
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	s.Home, s.Token = rt.core.Home()
	s.State = rt.core.State()
	s.Buffered, _, _ = rt.core.Held()
	return s
}

// Held returns the number of the messages in the buffers, and their bytes.
func (r *Router) Held() (messages, bytes int) {
	return int(r.heldMessages.Load()), int(r.heldBytes.Load())
}

// producers are the reliable producers of a type on this node.
type producers struct {
	all atomic.Pointer[[]*Producer]
	// changeMu orders changes; readers load the slice.
	changeMu sync.Mutex
	// closedResends counts the retransmissions of closed producers.
	closedResends atomic.Uint64
}

func (ps *producers) forEach(f func(*Producer)) {
	if all := ps.all.Load(); all != nil {
		for _, p := range *all {
			f(p)
		}
	}
}

func (ps *producers) addOne(p *Producer) {
	ps.changeMu.Lock()
	defer ps.changeMu.Unlock()
	var all []*Producer
	ps.forEach(func(o *Producer) { all = append(all, o) })
	all = append(all, p)
	ps.all.Store(&all)
}

func (ps *producers) removeOne(p *Producer) {
	ps.changeMu.Lock()
	defer ps.changeMu.Unlock()
	all := slices.DeleteFunc(slices.Clone(*ps.all.Load()), func(o *Producer) bool { return o == p })
	ps.all.Store(&all)
	ps.closedResends.Add(p.resends.Load())
}

// noteAll notes an event for all producers.
func (ps *producers) noteAll(ev reliable.Event) {
	ps.forEach(func(p *Producer) { p.noteEvent(ev) })
}

// noteOne notes an event for one producer.
func (ps *producers) noteOne(id reliable.Producer, ev reliable.Event) {
	ps.forEach(func(p *Producer) {
		if p.id == id {
			p.noteEvent(ev)
		}
	})
}
