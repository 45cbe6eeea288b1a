package sharding

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/delivery"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/internal/residency"
	"github.com/peerage-go/peerage/internal/statecopy"
	"github.com/peerage-go/peerage/internal/statetransfer"
	"github.com/peerage-go/peerage/internal/transport"
)

// service is the sharding of one incarnation of a node. It hosts shards of the types of a
// Registry, takes part in their coordination, and connects the Regions to the other nodes.
// All methods are safe for concurrent use.
//
// The owner of the node must forward events of gossip to the methods of the same names, and
// frames to HandleCoordinator, HandleEntities and HandleEntity.
type service struct {
	registry *Registry
	// observer receives single events; nil means none.
	observer figures.ShardingObserver
	cfg      placement.Config
	log      *slog.Logger
	ctx      context.Context
	end      context.CancelFunc
	// budgets bound what is granted and parked, for all types.
	budgets *delivery.Budgets
	work    sync.WaitGroup
	out     delivery.Outbox

	// paths is read for every frame, and replaced when a type is added.
	paths atomic.Pointer[map[string]dataPath]

	mu     sync.Mutex
	closed bool
	shells map[string]*shell
	view   *gossip.View
	// floors outlive the shells of a type.
	floors map[string]*region.Floors
	// declined are the views up to which this node has declined to coordinate types that
	// it did not run: it keeps its word when it runs them.
	declined map[string]gossip.Epoch
	silent   map[gossip.NodeID]bool

	flush     flushBarrier
	transfers *statetransfer.Transfers
	queries   queries
	// replicated are the replicated states of all types.
	replicated *statecopy.Set
	pace       *residency.Pace
	mutual     mutualAsks
	// ready is sticky.
	ready atomic.Bool

	malformed, unknown, unsent, overrun atomic.Uint64
}

// startService begins to serve the types of r. It neither blocks nor waits for a view. o may be nil.
// It fails if another service serves the Registry.
func (r *Registry) startService(cfg placement.Config, o figures.ShardingObserver) (*service, error) {
	s := &service{
		cfg: cfg, registry: r, observer: o, log: cfg.Logger, budgets: delivery.NewBudgets(),
		shells: map[string]*shell{}, floors: map[string]*region.Floors{}, declined: map[string]gossip.Epoch{}, silent: map[gossip.NodeID]bool{},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.out = delivery.Outbox{Links: cfg.Links, Ctx: s.ctx, Work: &s.work, Lost: func(n int) { s.unsent.Add(uint64(n)) }}
	s.paths.Store(&map[string]dataPath{})
	s.replicated = statecopy.NewSet(s.replicationConfig())
	s.transfers = statetransfer.New(statetransfer.Config{
		Self: cfg.Self.ID, Links: cfg.Links, Log: s.log, Ctx: s.ctx, SendAck: s.out.Send, StateHeld: s.stateHeld,
	})
	s.pace = residency.NewPace(cmp.Or(max(cfg.RememberedPerSecond, 0), DefaultRememberedPerSecond))
	paths, err := r.attach(s)
	if err != nil {
		s.end()
		return nil, err
	}
	for _, p := range paths {
		s.serve(p)
	}
	s.work.Go(s.look)
	return s, nil
}

// replicationConfig returns the settings of the replication of states.
func (s *service) replicationConfig() statecopy.Config {
	cfg := statecopy.Config{
		Self: s.cfg.Self.ID, Clock: s.cfg.Clock, Log: s.log, Ctx: s.ctx, Work: &s.work,
		TypesMax: typesMax, HashAll: s.cfg.Strict || raceEnabled,
		Send: func(to gossip.NodeID, frame []byte) error {
			return s.cfg.Links.Send(to, transport.Bulk, transport.KindEntity, frame)
		},
		FramesDropped: func(n uint64) { s.overrun.Add(n) },
		Replicated:    func(string, time.Duration) {},
	}
	if s.observer != nil {
		cfg.Replicated = s.observer.StateKept
	}
	return cfg
}

// stateHeld reports to a type's region core that the states of a shard are here.
func (s *service) stateHeld(typ string, e region.StateHeld) {
	s.mu.Lock()
	sh := s.shells[typ]
	s.mu.Unlock()
	if sh != nil {
		sh.inbox.Put(e)
	}
}

// path returns the path of a type, nil if the type is not registered.
func (s *service) path(typ []byte) dataPath { return (*s.paths.Load())[string(typ)] }

// serve makes a registered type take part.
func (s *service) serve(p dataPath) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	info := p.describe()
	if old := s.shells[info.name]; old != nil {
		// Other nodes ran the type before this one registered it.
		old.retire()
	}
	paths := maps.Clone(*s.paths.Load())
	paths[info.name] = p
	sh := s.newShell(*info, p)
	if info.state.on() && s.hosts(info) {
		sh.replicateStates()
	}
	s.shells[info.name] = sh
	p.attach(sh.inc, s.hosts(info), s.log)
	s.paths.Store(&paths)
	s.begin(sh)
}

// hosts reports whether this node hosts a type.
func (s *service) hosts(info *typeInfo) bool { return !info.proxy && s.cfg.Self.HasRole(info.role) }

// PeerUp reports that an outgoing connection to a peer is open.
func (s *service) PeerUp(id gossip.NodeID, c transport.Class) {
	switch c {
	case transport.Message:
		for _, p := range *s.paths.Load() {
			if inc := p.base().Serving(); inc != nil {
				p.base().OnPeerUp(inc, id)
			}
		}
	case transport.Control:
		s.hearing(id, true)
	}
}

// PeerLost reports that a connection to a peer broke, in either direction, or that the peer
// is proven dead. Asks in flight to it fail before PeerLost returns.
func (s *service) PeerLost(id gossip.NodeID, c transport.Class) {
	switch c {
	case transport.Message:
		s.flush.nodeLost(id)
		for _, p := range *s.paths.Load() {
			p.lost(id)
		}
	case transport.Control:
		s.hearing(id, false)
	}
}

// hearing notes whether a peer responds, and informs the coordinators: they move nothing
// while a member is silent.
func (s *service) hearing(id gossip.NodeID, heard bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent[id] == !heard {
		return
	}
	if heard {
		delete(s.silent, id)
	} else {
		s.silent[id] = true
	}
	s.tellSilent()
}

// tellSilent is called with the mutex.
func (s *service) tellSilent() {
	nodes := slices.Sorted(maps.Keys(s.silent))
	for _, sh := range s.shells {
		sh.inbox.Put(coordinator.Silent{Nodes: nodes})
	}
}

// HandleCoordinator handles a frame of KindCoordinator. It keeps nothing of payload and
// does not block. If too many frames wait, it drops and counts the frame: the protocol
// retransmits.
func (s *service) HandleCoordinator(from gossip.NodeID, payload []byte) {
	m, err := protocol.Decode(payload)
	if err != nil {
		s.malformed.Add(1)
		return
	}
	if protocol.IsQuery(m) {
		s.handleQuery(from, m)
		return
	}
	sh := s.shellFor(m)
	if sh.declines(m) != nil {
		s.decline(from, m)
	}
	if sh != nil && !sh.inbox.PutFrame(received{from, m}) {
		s.overrun.Add(1)
	}
}

// lookEvery is how often routes are looked at that wait for a connection.
const lookEvery = 50 * time.Millisecond

// sweepEvery is how many looks are between two searches for accounts of senders to shards
// that do not run here any longer.
const sweepEvery = 100

// idleEvery is how many looks are between two searches for windows that are idle: 20 s.
const idleEvery = 400

var hello = []byte{byte(frames.KindHello)}

const helloClass = transport.Message

// look keeps asking for connections that routes wait for. A frame makes the
// transport dial; PeerUp, or the answer, lets the routes flow.
func (s *service) look() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for looks := 1; ; looks++ {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		down := map[gossip.NodeID]bool{}
		for _, p := range *s.paths.Load() {
			if inc := p.base().Serving(); inc != nil {
				if looks%sweepEvery == 0 && inc.Accounts != nil {
					inc.Accounts.Sweep(p.hosted)
				}
				if looks%idleEvery == 0 && inc.Accounts != nil {
					inc.Accounts.AskIdle()
				}
				for _, n := range p.base().Look(inc) {
					down[n] = true
				}
			}
		}
		for n := range down {
			_ = s.cfg.Links.Send(n, transport.Message, transport.KindEntity, hello)
		}
	}
}

// Close ends everything immediately, and waits until all goroutines have ended, at most
// until ctx ends. Running instances are abandoned. If handlers ignore the end of their
// Contexts, Close fails with an *UnfinishedError. The Regions return ErrNotReady until
// another service starts with the Registry. Close is idempotent.
func (s *service) Close(ctx context.Context) error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.replicated.Close()
	shells := slices.Collect(maps.Values(s.shells))
	s.mu.Unlock()
	if !first {
		return nil
	}
	s.registry.detach(s)
	s.end()
	for _, sh := range shells {
		sh.inbox.Close()
	}
	// Everything is dropped before anything is waited for: a handler that does not return
	// must not let the entities of other types go on.
	var waits []func(context.Context) error
	for _, sh := range shells {
		<-sh.ended
		if sh.path != nil {
			waits = append(waits, sh.path.detach())
		}
	}
	var left *UnfinishedError
	for _, wait := range waits {
		if e := (*activation.UnfinishedError)(nil); errors.As(wait(ctx), &e) {
			left = left.with(e)
		}
	}
	s.work.Wait()
	if left == nil {
		return nil
	}
	return left
}

// Running returns the calls of entities' code that run now, with their goroutines' stacks.
func (s *service) Running() (all []RunningHandler) {
	for _, p := range *s.paths.Load() {
		all = append(all, p.running()...)
	}
	return all
}
