package endpoint

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/delivery"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/internal/transport"
)

// Links is the part of a transport that a Set uses.
type Links interface {
	delivery.Links
	Open(to gossip.NodeID, c transport.Class) bool
}

// Config holds the settings of a Set. All fields but Observer must be set.
type Config struct {
	// Self is this incarnation of the node.
	Self  gossip.NodeID
	Links Links
	// Ctx ends with the incarnation. Work counts its goroutines.
	Ctx  context.Context
	Work *sync.WaitGroup
	Log  *slog.Logger
	// LeaseValid reports whether the node may run entities now.
	LeaseValid func() bool
	// Observer receives single events; nil means no calls.
	Observer figures.ShardingObserver
	// Strict lets messages and responses of this node go through their codecs, and finds late
	// uses of a Context.
	Strict bool
	// HandleTransfer and HandleReplication handle the frames of states that move with their
	// shard, and of states that are replicated.
	HandleTransfer, HandleReplication func(from gossip.NodeID, frame []byte) error
}

// Set holds the Endpoints of one incarnation of a node. All methods are safe for concurrent
// use.
type Set struct {
	cfg Config
	// Out sends answers. Budgets bound what is granted and parked, for all types.
	Out     delivery.Outbox
	Budgets *delivery.Budgets
	mutual  mutualAsks
	flushed flushBarrier
	// byType is read for every frame, and replaced when a type is added, under addMu.
	byType atomic.Pointer[map[string]*Endpoint]
	addMu  sync.Mutex
	// Malformed counts frames that are malformed, UnknownType requests of types that are not
	// registered, AnswersLost answers without room.
	Malformed, UnknownType, AnswersLost atomic.Uint64
}

// NewSet returns a Set without Endpoints.
func NewSet(cfg Config) *Set {
	s := &Set{cfg: cfg, Budgets: delivery.NewBudgets()}
	s.mutual.log = cfg.Log
	s.Out = delivery.Outbox{Links: cfg.Links, Ctx: cfg.Ctx, Work: cfg.Work, Lost: func(n int) { s.AnswersLost.Add(uint64(n)) }}
	s.byType.Store(&map[string]*Endpoint{})
	return s
}

// NewIncarnation returns the part of the set that serves a type. The caller sets the functions
// of its delivery.Incarnation that notify the driver of the type.
func (s *Set) NewIncarnation(typ string) *Incarnation {
	inc := &Incarnation{
		Incarnation: &delivery.Incarnation{
			Self: s.cfg.Self, Links: s.cfg.Links, Ctx: s.cfg.Ctx, Work: s.cfg.Work, Out: &s.Out,
		},
		log: s.cfg.Log, observer: s.cfg.Observer, leaseValid: s.cfg.LeaseValid, strict: s.cfg.Strict,
		budgets: s.Budgets, mutual: &s.mutual,
	}
	if o := s.cfg.Observer; o != nil {
		inc.HomeResolved = func(took time.Duration) { o.HomeResolved(typ, took) }
	}
	return inc
}

// AddEndpoint lets frames find an Endpoint that is attached.
func (s *Set) AddEndpoint(e *Endpoint) {
	s.addMu.Lock()
	defer s.addMu.Unlock()
	all := maps.Clone(*s.byType.Load())
	all[e.Name] = e
	s.byType.Store(&all)
}

// All returns the Endpoints by the names of their types. The caller must not change the map.
func (s *Set) All() map[string]*Endpoint { return *s.byType.Load() }

// Find returns the Endpoint of a type, nil if the type is not registered.
func (s *Set) Find(typ []byte) *Endpoint { return (*s.byType.Load())[string(typ)] }

// AsksPending reports whether an ask of this node waits for its reply.
func (s *Set) AsksPending() bool {
	for _, e := range s.All() { // order-free: one is enough
		if e.PendingAsks() > 0 {
			return true
		}
	}
	return false
}

// PendingPairs returns the number of pairs of entities, here, of which one asks the other.
func (s *Set) PendingPairs() int { return int(s.mutual.count.Load()) }

// OnPeerUp lets the routes to a peer flow again: an outgoing connection for messages is open.
func (s *Set) OnPeerUp(peer gossip.NodeID) {
	for _, e := range s.All() { // order-free: types do not share routes
		if inc := e.Serving(); inc != nil {
			e.Router.OnPeerUp(inc, peer)
		}
	}
}

// OnPeerLost reports that a connection for messages broke, in either direction, or that the
// peer is proven dead. Asks in flight to it fail before OnPeerLost returns.
func (s *Set) OnPeerLost(peer gossip.NodeID) {
	s.flushed.onNodeLost(peer)
	for _, e := range s.All() { // order-free: types do not share calls
		e.onNodeLost(peer)
	}
}

// OnMemberGone is OnPeerLost for a node that has left the view.
func (s *Set) OnMemberGone(node gossip.NodeID) {
	s.flushed.onNodeLost(node)
	for _, e := range s.All() { // order-free: types do not share calls
		e.onNodeLost(node)
		if inc := e.Serving(); inc != nil && inc.Accounts != nil {
			inc.Accounts.Forget(node)
		}
	}
}

const (
	// lookEvery is the interval of looks for routes that wait for a connection.
	lookEvery = 50 * time.Millisecond
	// looksPerSweep is the number of looks between two searches for accounts of senders to
	// shards that no longer run here.
	looksPerSweep = 100
	// looksPerIdle is the number of looks between two searches for idle windows: 20 s.
	looksPerIdle = 400
)

// Look asks for the connections that routes wait for, until the incarnation ends. A frame makes
// the transport dial; OnPeerUp, or the answer, lets the routes flow.
func (s *Set) Look() {
	hello := []byte{byte(frames.KindHello)}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for looks := 1; ; looks++ {
		select {
		case <-s.cfg.Ctx.Done():
			return
		case <-tick.C:
		}
		down := map[gossip.NodeID]bool{}
		for _, e := range s.All() { // order-free: types do not share routes
			for _, n := range e.lookOnce(looks) {
				down[n] = true
			}
		}
		for n := range down {
			_ = s.cfg.Links.Send(n, transport.Message, transport.KindEntity, hello)
		}
	}
}

// lookOnce returns the nodes to which routes wait for a connection.
func (e *Endpoint) lookOnce(looks int) []gossip.NodeID {
	inc := e.Serving()
	if inc == nil {
		return nil
	}
	if looks%looksPerSweep == 0 && inc.Accounts != nil {
		inc.Accounts.Sweep(e.HostedUnder)
	}
	if looks%looksPerIdle == 0 && inc.Accounts != nil {
		inc.Accounts.AskIdle()
	}
	return e.Router.Look(inc)
}
