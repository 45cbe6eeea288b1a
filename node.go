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
	"github.com/peerage-go/peerage/internal/membership"
	"github.com/peerage-go/peerage/internal/replica"
	"github.com/peerage-go/peerage/internal/transport"
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
	// ErrNoKeys: RotateKeys was called on a node without Config.SecretKeys. Encryption
	// cannot be turned on in a running node.
	ErrNoKeys = errors.New("peerage: the node was started without SecretKeys, so there are none to rotate")
)

// Node is one process in a cluster, through all its incarnations. All methods are safe for
// concurrent use.
//
// A supervisor goroutine owns the life cycle. It runs one stack (gossip, replicators,
// sharding) at a time. When the stack's incarnation was removed, it builds the next one
// with a new NodeID at the same address.
type Node struct {
	cfg Config
	// certificates are those of cfg.CertificateFiles, nil without them.
	certificates *transport.Certificates
	registry     *sharding.Registry
	exporter     *exporter
	rotated      rotated
	feed         membership.Feed // of all incarnations
	// generation is stored in DataDir; the zero value stores nothing.
	generation generationFile
	// origin is the origin of the files in DataDir; without DataDir, it is in memory only.
	origin originFile
	// files are the files of durable keys, by role; set by Start, closed with the last
	// incarnation.
	files map[string]*replica.Durable
	// roleData is the data of each role, through all incarnations; data wraps it in typed
	// values.
	roleData map[string]*roleData
	data     map[string]*ddata.Data

	// entitiesLost counts entities that stopped because their cluster yielded.
	entitiesLost atomic.Uint64
	// setAside counts files of durable keys that were set aside, since they are another
	// cluster's.
	setAside atomic.Uint64
	outage   outage

	// made is when New returned the node.
	made  time.Time
	stack atomic.Pointer[stack] // nil before Start and between incarnations
	self  atomic.Pointer[gossip.Node]

	mu      sync.Mutex
	started bool
	// endBy is when Shutdown must have returned; zero if Shutdown has no deadline.
	endBy time.Time
	// left names the handlers that outlasted the node; set before done is closed.
	left error
	// closing is set by Close. Invariant: quit is closed once, together with setting
	// closing.
	closing bool
	drain   *drainage     // nil until the first Drain or Shutdown
	lame    chan struct{} // closed together with setting drain
	quit    chan struct{}
	done    chan struct{} // closed when the supervisor has ended
}

// New checks cfg and returns a node that is not started: register types, then call Start.
// It fails with a *ConfigError that lists every invalid setting, with an error of
// the CertificateFiles, or if the Registerer rejects the metrics.
func New(cfg Config) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	certificates, err := cfg.loadCertificates()
	if err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, certificates: certificates, registry: new(sharding.Registry),
		made: time.Now(), lame: make(chan struct{}), quit: make(chan struct{}), done: make(chan struct{}),
	}
	if err := interceptAll(n.registry, cfg.Interceptors); err != nil {
		return nil, err
	}
	n.roleData, n.data = map[string]*roleData{}, map[string]*ddata.Data{}
	for _, role := range append([]string{""}, cfg.Roles...) {
		n.roleData[role] = newRoleData(n, role)
		if n.data[role], err = openData(n.roleData[role]); err != nil {
			return nil, err
		}
	}
	if n.exporter, err = newExporter(n); err != nil {
		return nil, err
	}
	if err := n.exporter.register(); err != nil {
		return nil, err
	}
	return n, nil
}

// Start calls New, then Node.Start.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	n, err := New(cfg)
	if err != nil {
		return nil, err
	}
	return n, n.Start(ctx)
}

// Start opens the node's port, and begins to look for its cluster or to form one. It does
// not wait for a cluster: WaitReady does. Messages sent before that wait or fail as package
// sharding documents. Start fails if the node cannot listen on its address, or if a file of
// durable keys cannot be used (replicator.ErrDurable); the node is then closed. ctx bounds
// only the start.
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
		n.closeFeed() // no subscriber has received an event yet, so it does not wait
		return err
	}
	n.adopt(first)
	go n.supervise(first)
	return nil
}

// startFirst opens the files that all incarnations share, and starts the first incarnation.
func (n *Node) startFirst(ctx context.Context) (*stack, error) {
	if err := n.openFiles(); err != nil {
		return nil, err
	}
	cfg := n.cfg.membership(n.certificates)
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

// adopt makes s the node's stack. The caller holds the mutex.
func (n *Node) adopt(s *stack) {
	self := s.gossip.Self()
	n.self.Store(&self)
	n.stack.Store(s)
	for role, d := range n.roleData {
		d.adopt(s.replicators[role])
	}
	n.catchUp(s)
}

// adoptNext makes s the node's stack and returns true, unless the node is ending.
func (n *Node) adoptNext(s *stack) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closing || n.drain != nil {
		return false
	}
	n.adopt(s)
	return true
}

// supervise replaces each stack whose incarnation has ended, until the node closes.
func (n *Node) supervise(s *stack) {
	defer close(n.done)
	defer n.closeFiles()
	backoff := rejoin{base: n.cfg.RejoinAfter}
	for {
		began := time.Now()
		select {
		case <-n.quit:
			n.left = s.closeLayers()
			return
		case <-s.over:
		}
		final := n.cfg.RejoinAfter < 0
		n.outage.endIncarnation(s.explainEnd(nil), final)
		n.stack.CompareAndSwap(s, nil)
		n.left = s.closeLayers()
		if err := s.changeFiles(); err != nil {
			n.outage.endIncarnation(s.explainEnd(err), final)
		}
		if final {
			return
		}
		next, ok := n.rejoin(s, &backoff, time.Since(began))
		if !ok {
			return
		}
		s = next
	}
}

// rejoin starts the next incarnation at the same address, and retries until it succeeds. It
// returns false if the node drains or closes meanwhile.
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
			n.cfg.Logger.Warn("cannot start the next incarnation; retrying", "err", err)
			continue
		}
		n.cfg.Logger.Info("joining again as a new incarnation", "node", s.gossip.Self().ID, "former", old.gossip.Self().ID)
		if !n.adoptNext(s) {
			n.left = s.closeLayers()
			return nil, false
		}
		return s, true
	}
}

// rejoin computes the pause between incarnations. The pause doubles while they end soon.
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

// Registry returns the node's Registry of entity types. It stays the same for the node's
// whole life. Types may be registered before and after Start.
func (n *Node) Registry() *sharding.Registry { return n.registry }

// Self returns the current or last incarnation, the zero Node before Start.
func (n *Node) Self() gossip.Node {
	if self := n.self.Load(); self != nil {
		return *self
	}
	return gossip.Node{}
}

// View returns the newest view that this node has, nil if it is in no cluster.
func (n *Node) View() *gossip.View {
	if s := n.stack.Load(); s != nil {
		return s.gossip.View()
	}
	return nil
}

// Lease returns the present state of the node's lease. Without a cluster it is the zero
// LeaseStatus.
func (n *Node) Lease() gossip.LeaseStatus {
	if s := n.stack.Load(); s != nil {
		return s.gossip.LeaseStatus()
	}
	return gossip.LeaseStatus{}
}

// LeaseValid reports whether this node may run entities now.
func (n *Node) LeaseValid() bool {
	s := n.stack.Load()
	return s != nil && s.gossip.LeaseValid()
}

// WaitReady blocks until Ready returns true. It fails with the context's error and the
// reasons why the node is not ready, or with ErrClosed if the node drains or is closed.
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

// Ready reports whether the node should receive requests from outside. It is true if all of
// these hold:
//
//   - The node is in a view and has a valid lease.
//   - Every type of the Registry has registered with its coordinator once.
//   - Its cluster is in no contest with another one of the same name.
//   - It shares a SecretKey with at least half of the other members.
//   - The disk of its durable keys works.
//   - The node does not drain.
//
// A rolling update waits until the new node is ready before it replaces the next old one.
// So readiness must never depend on something that only that next step can bring. Ready
// does not depend on the number of members (Type.MinMembers delays shards, not readiness),
// on the readiness of other nodes, on shards having homes, or on the end of rebalancing. A
// type that only the new nodes register is coordinated by them. A proxy's type that no node
// of its role runs counts as registered. A registration counts forever, whichever node
// coordinates later. Everything else comes from the members that are there: silent members
// are removed, and the node does not wait for them. A type whose settings contradict those
// of the running nodes keeps the new node from being ready: that update must stop, and
// Status names the setting.
//
// Nodes find each other before they are ready. So publish the addresses of nodes that are
// not ready (publishNotReadyAddresses of a headless service), and let the first nodes of a
// cluster start together (podManagementPolicy: Parallel).
func (n *Node) Ready() bool {
	s := n.stack.Load()
	return s != nil && !n.Draining() && s.viewed.Load() && s.gossip.LeaseValid() && len(s.contested()) == 0 &&
		!s.gossip.KeysDiffer() && s.sharding.Ready() && s.diskFailing() == ""
}

// isClosing reports whether Drain, Shutdown or Close was called.
func (n *Node) isClosing() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.drain != nil || n.closing
}

// Close stops the node immediately. Instances are dropped without running user code, Close
// waits for running handlers, and the node announces to its peers that the process ends.
//
// Close returns once every goroutine of the node has ended, with two exceptions: functions
// of Subscribe that do not return within 100 ms, and handlers that do not return within 5 s
// after their Context has ended. If there are such handlers, it fails with a
// *sharding.UnfinishedError; see Shutdown. Close is idempotent.
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

// endClose ends everything that outlives the supervisor. It returns an error that names the
// handlers that still run.
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

// patience returns the context that bounds the wait for handlers.
func (n *Node) patience() (context.Context, context.CancelFunc) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.endBy.IsZero() {
		return context.WithTimeout(context.Background(), closePatience)
	}
	return context.WithDeadline(context.Background(), n.endBy)
}
