package statecopy

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/standby"
	"github.com/peerage-go/peerage/internal/delivery/frames"
)

// Config holds the settings of a Set. All fields must be set.
type Config struct {
	Self  gossip.NodeID
	Clock clock.Clock
	Log   *slog.Logger
	// Ctx ends the goroutines; Work counts them.
	Ctx  context.Context
	Work *sync.WaitGroup
	// Send queues a frame and does not block.
	Send func(to gossip.NodeID, frame []byte) error
	// FramesDropped is called with the number of frames that found no room here.
	FramesDropped func(n uint64)
	// Replicated is called for each replicated version, with the time that its state waited.
	Replicated func(typ string, lag time.Duration)
	// TypesMax bounds the types.
	TypesMax int
	// HashAll gives each state a hash, so that an entity that changes a returned slice is
	// always found.
	HashAll bool
}

// Set holds the Replicators of all types of one node. All methods are safe for concurrent use.
type Set struct {
	cfg Config
	// types is read for each frame, and replaced when a type is added.
	types atomic.Pointer[map[string]*Replicator]

	mu     sync.Mutex
	view   *gossip.View
	closed bool
}

// NewSet returns an empty Set.
func NewSet(cfg Config) *Set {
	s := &Set{cfg: cfg}
	s.types.Store(&map[string]*Replicator{})
	return s
}

// Host returns the Replicator of a type that this node hosts from now on.
func (s *Set) Host(typ, role string, set Settings, host Host) *Replicator {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.addReplicator(typ, set)
	r.table.configure(set)
	r.queue.Put(standby.Configured{Role: role, Mode: set.Mode, Replicas: set.Replicas, BytesMax: set.NodeBytes})
	r.host.Store(&host)
	return r
}

// addReplicator returns the Replicator of a type; called with the mutex.
func (s *Set) addReplicator(typ string, set Settings) *Replicator {
	all := *s.types.Load()
	r := all[typ]
	if r != nil {
		return r
	}
	r = newReplicator(&s.cfg, typ, set)
	if s.view != nil {
		r.queue.Put(standby.ViewChanged{View: s.view})
	}
	all = maps.Clone(all)
	all[typ] = r
	s.types.Store(&all)
	s.cfg.Work.Go(r.runLoop)
	return r
}

// ViewChanged passes a newer view to all types.
func (s *Set) ViewChanged(v *gossip.View) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.view = v
	for _, r := range *s.types.Load() { // order-free: each type is independent
		r.queue.Put(standby.ViewChanged{View: v})
	}
}

// Close makes the Set add no further types.
func (s *Set) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// HandleFrame handles a frame of another node. It keeps nothing of payload and does not block.
func (s *Set) HandleFrame(from gossip.NodeID, payload []byte) error {
	typ, rest, err := frames.ParseStandby(payload)
	if err != nil {
		return err
	}
	m, err := standby.Decode(rest)
	if err != nil {
		return err
	}
	r := s.replicatorFor(typ, from)
	if r == nil {
		return nil
	}
	r.counters().BytesIn.Add(uint64(len(payload)))
	if !r.queue.PutFrame(frame{from, m, len(payload)}) {
		s.cfg.FramesDropped(1)
	}
	return nil
}

// replicatorFor returns the Replicator of a type. If this node does not run the type, a member
// can make it hold copies.
func (s *Set) replicatorFor(typ []byte, from gossip.NodeID) *Replicator {
	if r := (*s.types.Load())[string(typ)]; r != nil {
		return r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.view.Member(from) == nil || len(*s.types.Load()) >= s.cfg.TypesMax {
		return nil
	}
	return s.addReplicator(string(typ), Settings{})
}
