package peerage

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/ddata"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/door"
	"github.com/peerage-go/peerage/internal/membership"
	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/internal/replica"
	"github.com/peerage-go/peerage/internal/transport"
)

// stack is one incarnation of a node: gossip, a replicator per role above it, and sharding
// on top. It forwards events and frames between the layers, and decides nothing.
type stack struct {
	node        *Node
	cfg         membership.Config
	gossip      *membership.Node
	replicators map[string]*replica.Replicator
	data        map[string]*ddata.Data
	// records are the replicators of the coordinators' records, by role. They share neither
	// lock, limits, disk nor connection with the application's data.
	records    map[string]*replica.Replicator
	recordData map[string]*ddata.Data
	sharding   shardingService

	// viewed is set once the layers above gossip have their first view.
	viewed atomic.Bool

	// fileConflict is the reason why this incarnation leaves the cluster that has admitted
	// it, nil if it stays.
	fileConflict atomic.Pointer[fileConflict]

	// heir is the contest in which this cluster has yielded.
	heir atomic.Pointer[gossip.ForeignCluster]

	over     chan struct{} // closed when the incarnation was removed
	overOnce sync.Once
	// removed is the reason of the end; it is set before over is closed.
	removed gossip.Removed
	cancel  func()
}

// startStack starts the layers from the bottom up. Until all layers have started, frames
// are dropped, and Subscribe repeats events afterwards.
func startStack(ctx context.Context, n *Node, cfg membership.Config) (*stack, error) {
	s := &stack{
		node: n, cfg: cfg, over: make(chan struct{}),
		replicators: map[string]*replica.Replicator{}, data: map[string]*ddata.Data{},
		records: map[string]*replica.Replicator{}, recordData: map[string]*ddata.Data{},
	}
	cfg.Removed = n.exporter.removal
	var up atomic.Bool
	cfg.Handlers = map[transport.Kind]transport.Handler{
		transport.KindReplicator:  gate(&up, func(from gossip.NodeID, p []byte) { handFrame(s.replicators, from, p) }),
		transport.KindRecords:     gate(&up, func(from gossip.NodeID, p []byte) { handFrame(s.records, from, p) }),
		transport.KindCoordinator: gate(&up, func(from gossip.NodeID, p []byte) { s.sharding.HandleCoordinator(from, p) }),
	}
	cfg.BlockHandlers = map[transport.Kind]transport.BlockHandler{
		transport.KindEntity: func(from gossip.NodeID, frames *transport.Frames) {
			if up.Load() {
				s.sharding.HandleEntities(from, frames)
			}
		},
	}
	flowOf, err := door.Open[func([]byte) (transport.Flow, bool)](n.registry)
	if err != nil {
		return nil, err
	}
	cfg.Flows = map[transport.Kind]func([]byte) (transport.Flow, bool){transport.KindEntity: flowOf}
	if cfg.Transport, err = n.transport(&cfg); err != nil {
		return nil, err
	}
	if s.gossip, err = membership.Start(ctx, cfg); err != nil {
		return nil, err
	}
	if err = s.startUpper(); err != nil {
		s.closeLayers()
		return nil, err
	}
	up.Store(true)
	s.cancel = s.gossip.Subscribe(s.event)
	s.gossip.Subscribe(n.feed.Put)
	return s, nil
}

// transport returns the next incarnation's endpoint of the in-memory network, nil for TCP.
func (n *Node) transport(cfg *membership.Config) (transport.Transport, error) {
	if n.cfg.Network == nil {
		return nil, nil
	}
	return n.cfg.Network.memory.Transport(transport.MemoryConfig{
		Config: cfg.TransportConfig(gossip.NodeID(rand.Uint64() | 1)), Listen: cfg.Listen,
	})
}

// gate drops frames until the layers that handle them have started.
func gate(up *atomic.Bool, h transport.Handler) transport.Handler {
	return func(from gossip.NodeID, payload []byte) {
		if up.Load() {
			h(from, payload)
		}
	}
}

func (s *stack) startUpper() error {
	var err error
	for _, role := range s.roles() {
		s.replicators[role], s.records[role] = s.newReplicator(role), s.newRecords(role)
		if s.data[role], err = openData(s.replicators[role]); err != nil {
			return err
		}
		if s.recordData[role], err = openData(s.records[role]); err != nil {
			return err
		}
	}
	s.sharding, err = startSharding(s.node.registry, s.shardingConfig(), s.node.exporter.sharding)
	return err
}

// shardingConfig returns the wiring of package sharding for this incarnation.
func (s *stack) shardingConfig() placement.Config {
	return placement.Config{
		Self: s.gossip.Self(), Links: s.gossip.Transport(), Capacity: s.node.cfg.Capacity,
		MinMembers: s.node.cfg.MinMembers, RememberedPerSecond: s.node.cfg.RememberedPerSecond,
		Strict:     s.node.cfg.Strict,
		LeaseValid: s.gossip.LeaseValid, Clock: s.gossip.Clock(), RemoveAfter: s.gossip.Config().RemoveAfter,
		Store: s.store, Yield: s.gossip.Yield, Figures: reporter{s.node}.encodeNode,
		Logger: s.node.cfg.Logger,
	}
}

// event forwards the incarnation's events in order.
func (s *stack) event(e membership.Event) {
	switch e := e.(type) {
	case gossip.ViewChanged:
		if !s.viewed.Load() && !s.fits(e.View) {
			break // this incarnation ends; no layer above gossip has seen its view
		}
		s.node.generation.met(e.View.Epoch.Generation()) // before any of its tokens is allocated
		for _, role := range s.roles() {
			s.replicators[role].SetView(e.View)
			s.records[role].SetView(e.View)
		}
		s.sharding.ViewChanged(e.View)
		s.viewed.Store(true)
	case gossip.LeaseChanged:
		if e.Valid {
			for _, role := range s.roles() {
				s.replicators[role].LeaseRegained()
				s.records[role].LeaseRegained()
			}
		}
		s.sharding.LeaseChanged(e.Valid)
	case membership.Abandoned:
		s.sharding.Abandoned()
	case gossip.ForeignCluster:
		s.foreign(e)
	case gossip.Removed:
		s.sharding.Abandoned()
		s.markEnded(e)
	case membership.PeerUp:
		for _, role := range s.roles() {
			s.replicators[role].PeerUp(e.ID)
			s.records[role].PeerUp(e.ID)
		}
		s.sharding.PeerUp(e.ID, e.Class)
	case membership.PeerDead:
		s.sharding.PeerLost(e.ID, transport.Message)
	case membership.PeerLost:
		for _, role := range s.roles() {
			if e.Class == transport.Data || e.Class == transport.Bulk {
				s.replicators[role].PeerLost(e.ID)
			}
			if e.Class == transport.Control || e.Class == transport.Bulk {
				s.records[role].PeerLost(e.ID)
			}
		}
		if e.Incoming && e.Class == transport.Control {
			// Not a loss: the peer opens a new connection, and no PeerUp will follow. If
			// it counted as a loss, the peer would never get shards again.
			break
		}
		s.sharding.PeerLost(e.ID, e.Class)
	}
}

// markEnded marks the incarnation as ended and logs the end. Only its first call counts.
func (s *stack) markEnded(r gossip.Removed) {
	s.overOnce.Do(func() {
		s.removed = r
		s.logEnd(r)
		close(s.over)
	})
}

// markLeft marks the incarnation as ended after a call of Leave, with the reason of gossip.
// otherwise is the reason of an incarnation that could not leave. The event of the end may
// come later, or never, as the layers close.
func (s *stack) markLeft(otherwise gossip.Removed) {
	if r, ended := s.gossip.Ended(); ended {
		otherwise = r
	}
	s.markEnded(otherwise)
}

// logEnd logs the end of the incarnation and what follows, as a warning if no call asked for it.
func (s *stack) logEnd(r gossip.Removed) {
	level, next := slog.LevelWarn, "this incarnation has ended; the node joins again as a new one"
	switch {
	case s.node.isClosing():
		level, next = slog.LevelInfo, "this incarnation has ended, as the node drains or closes; it does not join again"
	case s.node.cfg.RejoinAfter < 0:
		next = "this incarnation has ended, and RejoinAfter is negative; start the process again"
	}
	s.node.cfg.Logger.Log(context.Background(), level, next,
		"node", s.gossip.Self().Name, "id", s.gossip.Self().ID, "epoch", r.Epoch, "reason", r.Reason)
}

// roles returns the replicators' roles in a fixed order.
func (s *stack) roles() []string { return append([]string{""}, s.gossip.Self().Roles...) }

// nextConfig returns the settings of the next incarnation: the same address and contact
// points, and the members of the last view as FormerMembers. It never bootstraps. It is
// called after the incarnation has ended.
func (s *stack) nextConfig() membership.Config {
	cfg := s.cfg
	self := s.gossip.Self()
	cfg.Listen, cfg.Advertise, cfg.Bootstrap = samePort(cfg.Listen, self.Addr), self.Addr, false
	cfg.SecretKeys = s.gossip.SecretKeys() // they may have been rotated
	alone := s.removed.QuorumLost
	if s.removed.Generation > 0 {
		cfg.MinGeneration = max(cfg.MinGeneration, s.removed.Generation+1)
	}
	if v := s.gossip.View(); v != nil {
		cfg.FormerMembers = formerMembers(v, self.Addr, cfg.FormerMembers)
		alone = alone || len(v.Members) == 1
	}
	if len(cfg.Join) == 0 && cfg.JoinFunc == nil {
		// Without a list only a node that left no living cluster behind forms one by itself,
		// and looks for one first.
		if cfg.BootstrapExpect = 0; alone || len(cfg.FormerMembers) == 0 {
			cfg.BootstrapExpect = 1
		}
	}
	if v := s.gossip.View(); v != nil {
		cfg.Origin = v.Origin
	}
	if c := s.fileConflict.Load(); c != nil && c.higher {
		cfg.LeastGeneration = max(cfg.LeastGeneration, cfg.MinGeneration)
	}
	if s.removed.Outranked {
		cfg.LeastGeneration = max(cfg.LeastGeneration, cfg.MinGeneration)
	}
	if f := s.heir.Load(); f != nil {
		for i := range f.Nodes {
			if addr := f.Nodes[i].Addr; !slices.Contains(cfg.FormerMembers, addr) {
				cfg.FormerMembers = append([]string{addr}, cfg.FormerMembers[:min(len(cfg.FormerMembers), formerMax-1)]...)
			}
		}
	}
	return cfg
}

// formerMax bounds the addresses of former members that the next incarnation tries.
const formerMax = 1024

// formerMembers returns the addresses of the view's members without self, followed by those
// of before.
func formerMembers(v *gossip.View, self string, before []string) (out []string) {
	known := map[string]bool{self: true}
	take := func(addr string) {
		if !known[addr] && len(out) < formerMax {
			known[addr] = true
			out = append(out, addr)
		}
	}
	for i := range v.Members {
		take(v.Members[i].Addr)
	}
	for _, addr := range before {
		take(addr)
	}
	return out
}

// samePort replaces port 0 in the listen address by the port that was taken, so that peers
// find the next incarnation at the same address.
func samePort(listen, taken string) string {
	if listen == "" {
		return taken
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port != "0" {
		return listen
	}
	if _, port, err = net.SplitHostPort(taken); err != nil {
		return listen
	}
	return net.JoinHostPort(host, port)
}

// closeLayers ends the layers from the top down and waits for their goroutines. It returns an
// error that names the handlers that ignored the end of their Contexts.
func (s *stack) closeLayers() (left error) {
	if s.cancel != nil {
		s.cancel()
	}
	if s.sharding != nil {
		ctx, cancel := s.node.patience()
		left = s.sharding.Close(ctx)
		s.logClose("sharding", left)
		cancel()
	}
	for _, all := range []map[string]*replica.Replicator{s.replicators, s.records} {
		for _, r := range all {
			s.logClose("replicator", r.Close())
		}
	}
	if left != nil {
		if lease := s.gossip.Lapse(); lease > 0 {
			// Peers take closed connections for a dead process, but handlers still run.
			time.AfterFunc(lease, func() { s.logClose("gossip", s.gossip.Close()) })
			return left
		}
	}
	s.logClose("gossip", s.gossip.Close())
	return left
}

func (s *stack) logClose(layer string, err error) {
	if err != nil {
		s.node.cfg.Logger.Warn("layer did not close cleanly; the node closes the next one", "layer", layer, "err", err)
	}
}

// handOver drains the sharding layer. It stops if the incarnation ends.
func (s *stack) handOver(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-s.over:
			cancel(gossip.ErrRemoved)
		case <-ctx.Done():
		}
	}()
	err := s.sharding.Drain(ctx)
	if err != nil && context.Cause(ctx) == gossip.ErrRemoved {
		err = gossip.ErrRemoved
	}
	cancel(nil)
	<-watched
	return err
}
