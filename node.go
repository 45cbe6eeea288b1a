package peerage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/ddata"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/replicator"
	"github.com/peerage-go/peerage/sharding"
)

// Errors of this package; the package comment has the table.
var (
	// ErrStarted: Start was called before.
	ErrStarted = errors.New("peerage: started already")
	// ErrClosed: the node was drained, shut down or closed.
	ErrClosed = errors.New("peerage: closed")
	// ErrNotReady: the node is in no cluster, yet or between two incarnations.
	ErrNotReady = sharding.ErrNotReady
)

// Node is one process taking part in a cluster, through all its incarnations.
// All methods are safe for concurrent use.
//
// A supervisor goroutine owns the life cycle: it runs one stack (gossip,
// replicators, sharding) at a time and, when that stack's incarnation was
// removed, builds the next with a new NodeID at the same address.
type Node struct {
	cfg      Config
	registry *sharding.Registry
	exporter *exporter
	rotated  rotated
	feed     gossip.Feed // of all incarnations
	// generation is kept in DataDir; the zero value keeps nothing.
	generation generationFile
	// origin is that of the files in DataDir; without DataDir nothing is kept in a file.
	origin originFile
	// files of durable keys, by role; set by Start, closed with the last incarnation.
	files map[string]*replicator.Durable
	// roleData is the data of each role, through all incarnations; data their typed faces.
	roleData map[string]*roleData
	data     map[string]*ddata.Data

	// entitiesLost counts entities that stopped since their cluster has yielded.
	entitiesLost atomic.Uint64
	// setAside counts files of durable keys that were set aside as another cluster's.
	setAside atomic.Uint64

	stack atomic.Pointer[stack] // nil before Start and between incarnations
	self  atomic.Pointer[view.Node]

	mu      sync.Mutex
	started bool
	// endBy is when Shutdown must have returned, zero while nobody has said.
	endBy time.Time
	// left are the handlers that outlasted the node; set before done is closed.
	left error
	// closing is set by Close. Invariant: quit is closed once, together with closing.
	closing bool
	drain   *drainage     // nil until the first Drain or Shutdown
	lame    chan struct{} // closed together with setting drain
	quit    chan struct{}
	done    chan struct{} // closed when the supervisor has ended
}

// New checks cfg and returns a node that does nothing yet: register types, then
// Start it. It fails with a *gossip.ConfigError that names everything wrong, or with
// what is wrong with the CertificateFiles.
func New(cfg Config) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if err := cfg.loadCertificates(); err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, registry: new(sharding.Registry),
		lame: make(chan struct{}), quit: make(chan struct{}), done: make(chan struct{}),
	}
	n.roleData, n.data = map[string]*roleData{}, map[string]*ddata.Data{}
	for _, role := range append([]string{""}, cfg.Gossip.Roles...) {
		n.roleData[role] = newRoleData(n, role)
		n.data[role] = ddata.New(n.roleData[role])
	}
	n.exporter = newExporter(n)
	if err := n.exporter.register(); err != nil {
		return nil, err
	}
	return n, nil
}

// Start is New and Node.Start in one.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	n, err := New(cfg)
	if err != nil {
		return nil, err
	}
	return n, n.Start(ctx)
}

// Start opens the node's port and begins to look for its cluster, or forms one.
// It does not wait until one is found: WaitReady does, and messages sent before
// wait or fail as package sharding says. It fails when the address cannot be
// listened on, or a file of durable keys cannot be used (replicator.ErrDurable); the
// node is then closed. The context bounds starting only.
func (n *Node) Start(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closing, n.drain != nil:
		return ErrClosed
	case n.started:
		return ErrStarted
	}
	n.started = true
	first, err := n.startFirst(ctx)
	if err != nil {
		n.closeFiles()
		n.closing = true
		close(n.quit)
		close(n.done)
		n.exporter.unregister()
		n.closeFeed() // nobody was told anything yet, so it does not wait
		return err
	}
	n.adopt(first)
	go n.supervise(first)
	return nil
}

// startFirst opens what all incarnations share, and starts the first.
func (n *Node) startFirst(ctx context.Context) (*stack, error) {
	if err := n.openFiles(); err != nil {
		return nil, err
	}
	cfg := n.cfg.Gossip
	cfg.Process, cfg.Incarnation = rand.Uint64()|1, 1
	if dir := n.cfg.DataDir; dir != "" {
		floor, err := n.generation.open(dir, n.cfg.Logger)
		if err != nil {
			return nil, err
		}
		cfg.MinGeneration = max(cfg.MinGeneration, floor)
		if err := n.origin.open(dir); err != nil {
			return nil, err
		}
		cfg.Origin = n.origin.of
	}
	return startStack(ctx, n, cfg)
}

// adopt is called with the mutex.
func (n *Node) adopt(s *stack) {
	self := s.gossip.Self()
	n.self.Store(&self)
	n.stack.Store(s)
	for role, d := range n.roleData {
		d.adopt(s.replicators[role])
	}
	n.catchUp(s)
}

// adoptNext makes s the node's stack, unless the node has begun to end meanwhile.
func (n *Node) adoptNext(s *stack) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closing || n.drain != nil {
		return false
	}
	n.adopt(s)
	return true
}

// supervise replaces stacks whose incarnation is over until the node closes.
func (n *Node) supervise(s *stack) {
	defer close(n.done)
	defer n.closeFiles()
	backoff := rejoin{base: n.cfg.RejoinAfter}
	for {
		began := time.Now()
		select {
		case <-n.quit:
			n.left = s.close()
			return
		case <-s.over:
		}
		n.stack.CompareAndSwap(s, nil)
		n.left = s.close()
		s.changeFiles()
		if n.cfg.RejoinAfter < 0 {
			return
		}
		next, ok := n.rejoin(s, &backoff, time.Since(began))
		if !ok {
			return
		}
		s = next
	}
}

// rejoin starts the next incarnation at the same address, however long that
// takes. It reports false when the node drains or closes meanwhile.
func (n *Node) rejoin(old *stack, b *rejoin, lived time.Duration) (*stack, bool) {
	cfg := old.nextConfig()
	for {
		select {
		case <-time.After(b.next(lived)):
		case <-n.lame:
			return nil, false
		case <-n.quit:
			return nil, false
		}
		lived = 0
		cfg.Incarnation++ // also of one that fails to start: it may have connected
		s, err := startStack(context.Background(), n, cfg)
		if err != nil {
			n.cfg.Logger.Warn("cannot join again", "err", err)
			continue
		}
		n.cfg.Logger.Info("joining again as a new incarnation", "node", s.gossip.Self().ID, "former", old.gossip.Self().ID)
		if !n.adoptNext(s) {
			n.left = s.close()
			return nil, false
		}
		return s, true
	}
}

// rejoin is the pause between incarnations: it doubles while they die young.
type rejoin struct {
	base   time.Duration
	factor int
}

func (r *rejoin) next(lived time.Duration) time.Duration {
	if lived > rejoinFactorMax*r.base {
		r.factor = 0
	}
	r.factor = min(max(2*r.factor, 1), rejoinFactorMax)
	return time.Duration(r.factor) * r.base
}

// Registry returns where the entity types of this node are registered. It is the
// same for the node's whole life; types may be added before and after Start.
func (n *Node) Registry() *sharding.Registry { return n.registry }

// Self returns the current, or last, incarnation; the zero Node before Start.
func (n *Node) Self() view.Node {
	if self := n.self.Load(); self != nil {
		return *self
	}
	return view.Node{}
}

// View returns the newest view known here, nil while the node is in none.
func (n *Node) View() *view.View {
	if s := n.stack.Load(); s != nil {
		return s.gossip.View()
	}
	return nil
}

// Lease returns the lease as last granted; it may have run out.
func (n *Node) Lease() view.Lease {
	if s := n.stack.Load(); s != nil {
		return s.gossip.Lease()
	}
	return view.Lease{}
}

// LeaseValid reports whether this node may run entities now.
func (n *Node) LeaseValid() bool {
	s := n.stack.Load()
	return s != nil && s.gossip.LeaseValid()
}

// WaitReady blocks until the node is ready in the sense of Ready. It fails with the
// context's error and what the node was waiting for, or with ErrClosed when the node
// drains or is closed.
func (n *Node) WaitReady(ctx context.Context) error {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for !n.Ready() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("peerage: not ready: %s: %w", n.unready(), ctx.Err())
		case <-n.lame:
			return ErrClosed
		case <-n.quit:
			return ErrClosed
		}
	}
	return nil
}

const readyPoll = 2 * time.Millisecond

// Ready reports whether the node should get requests from outside: it stands in a
// view and holds a lease, every registered type has met its coordinator once, its
// cluster is in no contest with another one of its name, it shares a SecretKey with at
// least half of the other members, and it does not drain.
//
// A rolling update waits for the new node's readiness before it takes the next old
// one, so readiness must never wait for what only that next step can bring. It does
// not ask for a number of members (Type.MinMembers counts for shards, not for
// readiness), for other nodes to be ready, for shards to have homes, or for
// rebalancing to end; a type that only the new nodes know is coordinated by them, and a
// proxy's type that no node of its role runs counts as met; and what was met once stays
// so, whoever takes office later. What it does ask for comes from the members that
// are there: silent ones are removed, and nobody waits for them. A type whose
// settings contradict those of the running nodes keeps a node from being ready: that
// update is to stop, and Status says which setting it is.
//
// Nodes find each other before they are ready: publish the addresses of those that
// are not (publishNotReadyAddresses of a headless service), and let the first ones
// of a cluster start together (podManagementPolicy: Parallel).
func (n *Node) Ready() bool {
	s := n.stack.Load()
	return s != nil && !n.Draining() && s.viewed.Load() && s.gossip.LeaseValid() && len(s.contested()) == 0 &&
		!s.gossip.KeysDiffer() && s.sharding.Ready() && s.diskFailing() == ""
}

// isClosing reports whether the node's end was asked for.
func (n *Node) isClosing() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.drain != nil || n.closing
}

// Close stops the node immediately: instances are dropped without running user code, the
// handlers that run are waited for, and peers are told that the process goes. It returns
// when every goroutine of the node has ended, but for those in which a function of
// Subscribe runs that does not return within 100 ms, or a handler that does not return
// within 5 s of the end of its Context. With such a handler it fails with a
// *sharding.UnfinishedError; see Shutdown. Idempotent.
func (n *Node) Close() error {
	n.beginClose()
	<-n.done
	return n.endClose()
}

// beginClose makes the supervisor end the node.
func (n *Node) beginClose() {
	n.mu.Lock()
	first := !n.closing
	if first {
		n.closing = true
		close(n.quit)
		if !n.started {
			close(n.done)
		}
	}
	drain := n.drain
	n.mu.Unlock()
	if drain != nil {
		drain.cancel()
	}
}

// endClose ends what outlives the supervisor, and returns what has outlasted it.
func (n *Node) endClose() error {
	n.mu.Lock()
	drain := n.drain
	n.mu.Unlock()
	if drain != nil {
		<-drain.done
	}
	n.closeFeed()
	n.stack.Store(nil)
	n.registry.Close()
	n.exporter.unregister()
	return n.left
}
