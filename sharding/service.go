package sharding

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/delivery/endpoint"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/internal/residency"
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
	cfg      placement.Config
	log      *slog.Logger
	ctx      context.Context
	end      context.CancelFunc
	work     sync.WaitGroup
	// endpoints carry the messages of all types, drivers place the shards.
	endpoints *endpoint.Set
	drivers   *placement.Drivers

	pace *residency.Pace
}

// startService begins to serve the types of r. It neither blocks nor waits for a view. o may be nil.
// It fails if another service serves the Registry.
func (r *Registry) startService(cfg placement.Config, o figures.ShardingObserver) (*service, error) {
	s := &service{cfg: cfg, registry: r, log: cfg.Logger}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.endpoints = endpoint.NewSet(endpoint.Config{
		Self: cfg.Self.ID, Links: cfg.Links, Ctx: s.ctx, Work: &s.work, Log: s.log, LeaseValid: cfg.LeaseValid,
		Observer: forUsers(o), Strict: cfg.Strict || raceEnabled,
		HandleTransfer:    func(from gossip.NodeID, f []byte) error { return s.drivers.HandleTransfer(from, f) },
		HandleReplication: func(from gossip.NodeID, f []byte) error { return s.drivers.HandleReplication(from, f) },
	})
	env := placement.Env{
		Log: s.log, Ctx: s.ctx, Work: &s.work, SendAnswer: s.endpoints.Out.Send,
		StateReplicated: func(string, time.Duration) {}, HashStates: cfg.Strict || raceEnabled,
	}
	if o != nil {
		env.StateReplicated, env.ShardMoved = o.StateKept, o.ShardMoved
	}
	s.drivers = placement.New(cfg, env)
	s.pace = residency.NewPace(max(cfg.RememberedPerSecond, 0))
	types, err := r.attach(s)
	if err != nil {
		s.end()
		return nil, err
	}
	for _, t := range types {
		s.serve(t)
	}
	s.work.Go(s.endpoints.Look)
	return s, nil
}

// serve makes a registered type take part.
func (s *service) serve(t *registered) {
	s.drivers.AddType(t.place, &t.placed, func(d *placement.TypeDriver) placement.Endpoint { return t.attachTo(s, d) })
}

// HandleEntity handles a frame of KindEntity: see endpoint.Set.
func (s *service) HandleEntity(from gossip.NodeID, payload []byte) {
	s.endpoints.HandleFrame(from, payload)
}

// HandleEntities is HandleEntity for frames that arrived one behind the other.
func (s *service) HandleEntities(from gossip.NodeID, in interface {
	Next() (frame []byte, ok bool)
}) {
	s.endpoints.HandleFrames(from, in)
}

// HandleCoordinator handles a frame of KindCoordinator. It keeps nothing of payload and does
// not block. If too many frames wait, it drops and counts the frame: the protocol
// retransmits.
func (s *service) HandleCoordinator(from gossip.NodeID, payload []byte) {
	s.drivers.HandleMessage(from, payload)
}

// ViewChanged reports a newer view. Asks that wait for nodes that left fail before it
// returns.
func (s *service) ViewChanged(v *gossip.View) {
	for _, id := range s.drivers.ViewChanged(v) {
		s.endpoints.OnMemberGone(id)
	}
}

// LeaseChanged reports that the lease became valid, ended, or changed its generation.
func (s *service) LeaseChanged(valid bool) { s.drivers.LeaseChanged(valid) }

// PeerUp reports that an outgoing connection to a peer is open.
func (s *service) PeerUp(id gossip.NodeID, c transport.Class) {
	switch c {
	case transport.Message:
		s.endpoints.OnPeerUp(id)
	case transport.Control:
		s.drivers.SetResponding(id, true)
	}
}

// PeerLost reports that a connection to a peer broke, in either direction, or that the peer
// is proven dead. Asks in flight to it fail before PeerLost returns.
func (s *service) PeerLost(id gossip.NodeID, c transport.Class) {
	switch c {
	case transport.Message:
		s.endpoints.OnPeerLost(id)
	case transport.Control:
		s.drivers.SetResponding(id, false)
	}
}

// Ready reports whether every type of the Registry has registered with its coordinator once;
// see placement.Drivers.
func (s *service) Ready() bool { return s.drivers.Ready() }

// Status returns this node's state of all types, sorted by name. It sends no message.
func (s *service) Status() []placement.TypeStatus { return s.drivers.Status() }

// CollectFigures asks all members of the view for the figures of their nodes until ctx ends.
// It returns the view, and the figures of the members that answered, as Config.Figures
// encoded them. It fails with ErrNotReady without a view.
func (s *service) CollectFigures(ctx context.Context) (*gossip.View, map[gossip.NodeID]string, error) {
	survey, err := s.drivers.Survey(ctx, &protocol.Query{Figures: true})
	if err != nil {
		return nil, nil, err
	}
	all := map[gossip.NodeID]string{}
	for id, a := range survey.Answers { // order-free: copied to a map
		if len(a.Figures) > 0 {
			all[id] = a.Figures
		}
	}
	return survey.View, all, nil
}

// Frames returns the counters about frames.
func (s *service) Frames() figures.Frames {
	parked, windows := s.endpoints.Budgets.Used()
	malformed, overrun := s.drivers.FrameCounts()
	return figures.Frames{
		ParkedBytes: parked, WindowBytes: windows,
		Malformed: s.endpoints.Malformed.Load() + malformed, UnknownType: s.endpoints.UnknownType.Load(),
		AnswersLost: s.endpoints.AnswersLost.Load(), Overrun: overrun,
	}
}

// Running returns the calls of entities' code that run now, with their goroutines' stacks.
func (s *service) Running() (all []RunningHandler) {
	for _, e := range s.endpoints.All() {
		all = append(all, runningHandlers(e.RunningCalls())...)
	}
	return all
}

// Abandoned drops every instance that runs here, without running user code. Once it has
// returned, no handler begins, and no shard that was about to start will start.
func (s *service) Abandoned() { s.drivers.Abandoned() }

// Drain hands all shards off to other nodes, in order. It returns once this node hosts
// none, no other node can take the rest, or ctx ends. Messages are served all the while;
// afterwards this node is a proxy. Leave the cluster after it.
func (s *service) Drain(ctx context.Context) error { return s.drivers.Drain(ctx) }

// WaitAnswered waits until no ask of this node is pending, at most until ctx ends. Then it
// waits, for a moment at most, until the tells and replies of this node have reached the
// other members. Close the Registry first, since new asks keep coming otherwise. Leave the
// cluster afterwards.
func (s *service) WaitAnswered(ctx context.Context) {
	tick := time.NewTicker(answeredPoll)
	defer tick.Stop()
	for s.endpoints.AsksPending() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
	var wait func(context.Context)
	s.drivers.WithMembers(func(members []gossip.Member) { wait = s.endpoints.BeginFlush(members) })
	wait(ctx)
}

const answeredPoll = time.Millisecond

// Close ends everything immediately, and waits until all goroutines have ended, at most
// until ctx ends. Running instances are abandoned. If handlers ignore the end of their
// Contexts, Close fails with an *UnfinishedError. The Regions return ErrNotReady until
// another service starts with the Registry. Close is idempotent.
func (s *service) Close(ctx context.Context) error {
	if !s.drivers.Close() {
		return nil
	}
	s.registry.detach(s)
	s.end()
	s.drivers.Wait()
	// Everything is dropped before anything is waited for: a handler that does not return
	// must not let the entities of other types go on.
	var waits []func(context.Context) error
	for _, e := range s.endpoints.All() { // order-free: each is detached by itself
		waits = append(waits, e.Detach())
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
