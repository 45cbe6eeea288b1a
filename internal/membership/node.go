package membership

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/internal/discovery"
	"github.com/peerage-go/peerage/internal/driver"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/transport"
)

// signOffMax bounds how long Close waits until its goodbyes are sent.
const signOffMax = 200 * time.Millisecond

// Node is one incarnation of a node of a cluster. All methods are safe for
// concurrent use.
//
// Goroutines: one loop, one that delivers events, one that resolves contact points if
// they must be resolved repeatedly, those of the transport and of memberlist, and one per
// contact point being probed. Close ends them all.
type Node struct {
	cfg       Config
	self      gossip.Node
	clock     clock.Clock
	transport transport.Transport
	discovery *discovery.Discovery

	view     atomic.Pointer[gossip.View]
	lease    publishedLease
	events   *dispatcher
	inbox    *driver.Driver[input]
	counters counters
	recent   recentList
	// keysDiffer: see KeysDiffer.
	keysDiffer atomic.Bool
	// departures is filled by the loop and read where events are delivered.
	departures departures
	// doubted holds the nodes whose proof of death the next frame withdraws; doubts is
	// their number, so that frames cost one atomic load.
	doubted sync.Map
	doubts  atomic.Int32

	ctx       context.Context
	cancel    context.CancelFunc
	wg        sync.WaitGroup
	stop      chan struct{}
	loopEnded chan struct{}

	// mu guards the end and the waiters.
	mu      sync.Mutex
	ended   *gossip.Removed
	over    chan struct{} // closed when ended is set
	closed  chan struct{}
	changed chan struct{}
	closing sync.Once
	// lapsed: the end must not be announced to the peers; see Lapse.
	lapsed atomic.Bool
}

// Start checks cfg, opens the transport and starts to search for a cluster. It does not
// wait until one is found: WaitUp does. It fails with ErrSettings, or if it cannot
// listen on the address. The context bounds only Start itself.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := cfg.Validate(); err != nil {
		if cfg.Transport != nil {
			_ = cfg.Transport.Close()
		}
		return nil, err
	}
	cfg = cfg.withDefaults()
	if len(cfg.SecretKeys) == 0 {
		cfg.SecretKeys = derivedKeys(cfg.SharedSecrets)
	}
	if cfg.Seed == 0 {
		cfg.Seed = random()
	}
	if cfg.Transport == nil {
		t, err := openTransport(&cfg, gossip.NodeID(random()))
		if err != nil {
			return nil, err
		}
		cfg.Transport = t
	}
	n := newNode(cfg)
	if err := n.startParts(); err != nil {
		n.cancel()
		n.events.closeQueue()
		_ = n.transport.Close()
		return nil, err
	}
	return n, nil
}

// random returns a number that is never 0.
func random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return max(binary.LittleEndian.Uint64(b[:]), 1)
}

func newNode(cfg Config) *Node {
	self := cfg.Transport.Self()
	roles := slices.Clone(cfg.Roles)
	slices.Sort(roles)
	n := &Node{
		cfg: cfg,
		self: gossip.Node{
			ID: self.ID, Name: self.Name, Addr: self.Addr,
			Roles: slices.Compact(roles), Zone: cfg.Zone, AppVersion: cfg.AppVersion, Metadata: maps.Clone(cfg.Metadata),
			WireOldest: self.Versions.Oldest, WireNewest: self.Versions.Newest,
		},
		clock: cfg.Clock, transport: cfg.Transport,
		inbox: newInbox(cfg.Clock),
		stop:  make(chan struct{}), loopEnded: make(chan struct{}),
		over: make(chan struct{}), closed: make(chan struct{}), changed: make(chan struct{}),
	}
	n.events = newDispatcher(n.departures.departureOf)
	n.ctx, n.cancel = context.WithCancel(context.Background())
	if f := cfg.trace.lease; f != nil {
		n.lease.trace = func(l view.Lease, held bool, from clock.Instant) { f(n.self.ID, l, held, from) }
	}
	return n
}

// startParts sets the handlers, opens the transport, and starts the goroutines.
func (n *Node) startParts() error {
	t := n.transport
	t.Handle(transport.KindView, n.takeView)
	t.Handle(transport.KindEvidence, n.takeMessage)
	for k, h := range n.cfg.Handlers {
		t.Handle(k, n.withSignOfLife(h))
	}
	for k, h := range n.cfg.BlockHandlers {
		t.HandleBlocks(k, func(from gossip.NodeID, frames *transport.Frames) {
			n.reportSignOfLife(from)
			h(from, frames)
		})
	}
	for k, of := range n.cfg.Flows {
		t.HandleFlows(k, of)
	}
	t.Observe(func(ev transport.PeerEvent) { n.inbox.Put(linkIn{ev}) })
	if err := t.Start(); err != nil {
		return fmt.Errorf("gossip: %w", err)
	}
	l := newLoop(n)
	if !n.cfg.NoDiscovery {
		d, err := discovery.Start(n.cfg.discoveryConfig(), n.self, t, n.discoverySink())
		if err != nil {
			return err
		}
		n.discovery = d
	}
	n.resolveContacts()
	go l.runLoop()
	return nil
}

// discoverySink connects discovery with the loop and the view.
func (n *Node) discoverySink() discovery.Sink {
	return discovery.Sink{
		Found: func(node gossip.Node) bool { return n.inbox.PutHint(found{node}) },
		Member: func(node *gossip.Node) bool {
			m := n.View().Member(node.ID)
			return m != nil && m.Addr == node.Addr
		},
		Counters: &n.counters.Counters,
	}
}

// takeView is the transport's handler for the view protocol.
func (n *Node) takeView(from gossip.NodeID, payload []byte) {
	n.reportSignOfLife(from)
	msg, err := view.Decode(payload)
	if err != nil {
		n.malformed(from, err)
		return
	}
	n.counters.viewIn.Count(len(payload))
	if !n.inbox.PutFrame(frameIn{from, msg}) {
		n.counters.overflow.Add(1)
	}
}

// takeMessage is the transport's handler for KindEvidence.
func (n *Node) takeMessage(from gossip.NodeID, payload []byte) {
	msg, err := decodeMessage(payload)
	if err != nil {
		n.malformed(from, err)
		return
	}
	if _, bye := msg.(*goodbye); !bye {
		n.reportSignOfLife(from)
	}
	if !n.inbox.PutFrame(messageIn{from, msg}) {
		n.counters.overflow.Add(1)
	}
}

// malformed counts a frame that cannot be decoded, and makes the loop record it.
func (n *Node) malformed(from gossip.NodeID, err error) {
	n.counters.malformed.Add(1)
	if !n.inbox.PutFrame(malformedIn{from, err}) {
		n.counters.overflow.Add(1)
	}
}

// withSignOfLife wraps a handler so that a doubted node's frame ends the doubt.
func (n *Node) withSignOfLife(h transport.Handler) transport.Handler {
	return func(from gossip.NodeID, payload []byte) {
		n.reportSignOfLife(from)
		h(from, payload)
	}
}

// reportSignOfLife reports to the loop a sign of life from a node that was proven dead.
func (n *Node) reportSignOfLife(from gossip.NodeID) {
	if n.doubts.Load() == 0 {
		return
	}
	if _, was := n.doubted.LoadAndDelete(from); was {
		n.doubts.Add(-1)
		n.inbox.Put(heardIn{from})
	}
}

// doubt marks and unmarks nodes for notice.
func (n *Node) doubt(doubt, trust []gossip.NodeID) {
	for _, id := range doubt {
		if _, was := n.doubted.LoadOrStore(id, true); !was {
			n.doubts.Add(1)
		}
	}
	for _, id := range trust {
		if _, was := n.doubted.LoadAndDelete(id); was {
			n.doubts.Add(-1)
		}
	}
}

// Self returns this node's description of itself. Its address is the advertised one.
func (n *Node) Self() gossip.Node { return n.self }

// Config returns the settings in effect: every default is filled in, and scaled with Members.
func (n *Node) Config() Config { return n.cfg }

// View returns the newest view that this node has adopted, nil before it is admitted.
func (n *Node) View() *gossip.View { return n.view.Load() }

// Lease returns the lease as last granted; it may have expired.
func (n *Node) Lease() view.Lease { return n.lease.loadLease() }

// LeaseValid reports whether this node may run entities now. It costs one clock
// read and one atomic load.
func (n *Node) LeaseValid() bool { return n.lease.validAt(n.clock.Now()) }

// Clock returns the clock that measures leases.
func (n *Node) Clock() clock.Clock { return n.clock }

// Transport returns the node's transport for frames.
func (n *Node) Transport() transport.Transport { return n.transport }

// Subscribe calls fn for every event from now on, in order, from one goroutine
// shared by all subscribers: a slow one delays the other subscribers, and nothing else.
// The current view, leader, lease and end, if any, are delivered first. After cancel no
// further call begins; a running one may still finish. cancel may be called from fn;
// Close may not.
func (n *Node) Subscribe(fn func(Event)) (cancel func()) { return n.events.subscribe(fn) }

// Yield reports to the leader that this node is a coordinator and gets no answer from
// subject. The leader ends the lease of the one of the two with fewer working links. It
// does not block.
func (n *Node) Yield(subject gossip.NodeID) {
	n.inbox.Put(call(func(l *loop) {
		l.stepCore(n.clock.Now(), view.Yield{Subject: subject, Reporter: n.self.ID})
	}))
}

// AnnounceLeave announces that this node will leave. The following views show it as
// gossip.Leaving on every node, within a few round trips while there is a leader, so that
// coordinators place nothing new on it. It keeps its vote and its lease, and continues to
// serve, until Leave or Close. It cannot be withdrawn for this incarnation. It does not
// block; the notice is retransmitted until a view shows it. Idempotent.
//
// To drain: AnnounceLeave, hand over all shards, Leave, Close.
func (n *Node) AnnounceLeave() {
	n.inbox.Put(call(func(l *loop) { l.stepCore(n.clock.Now(), view.AnnounceLeave{}) }))
}

// WaitUp blocks until this node is up in a view and holds a lease. It fails with
// the context's error, ErrRemoved or ErrClosed.
func (n *Node) WaitUp(ctx context.Context) error {
	for {
		n.mu.Lock()
		changed := n.changed
		n.mu.Unlock()
		if m := n.View().Member(n.self.ID); m != nil && m.Status.Votes() && n.LeaseValid() {
			return nil
		}
		select {
		case <-changed:
		case <-n.closed:
			return ErrClosed
		case <-n.over:
			return n.unlessClosed(gossip.ErrRemoved)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wakeWaiters makes WaitUp check again.
func (n *Node) wakeWaiters() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.changed)
	n.changed = make(chan struct{})
}

// endWith records the end of this incarnation.
func (n *Node) endWith(r gossip.Removed) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended == nil {
		n.ended = &r
		close(n.over)
	}
}

// Ended returns how this incarnation has ended, and false while it has not.
func (n *Node) Ended() (gossip.Removed, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended == nil {
		return gossip.Removed{}, false
	}
	return *n.ended, true
}

// Leave takes the node out of its view in order and returns when it is out; its lease has
// then ended. That takes a few round trips while a quorum answers, for the leader as for
// any other member. The transport stays open until Close. Leave fails with the context's
// error, while leaving continues, or with ErrClosed. Drain the node first, after
// AnnounceLeave: Leave drops the lease immediately.
func (n *Node) Leave(ctx context.Context) error {
	n.inbox.Put(call(func(l *loop) { l.stepCore(n.clock.Now(), view.Leave{}) }))
	if n.discovery != nil {
		n.discovery.AnnounceLeave()
	}
	select {
	case <-n.over:
	case <-n.closed:
	case <-ctx.Done():
		return ctx.Err()
	}
	// A Close right after the node is out does not turn success into an error.
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended == nil || n.ended.Reason == reasonClosed {
		return ErrClosed
	}
	return nil
}

// unlessClosed returns err, but ErrClosed after Close, which ends the incarnation
// as well.
func (n *Node) unlessClosed(err error) error {
	select {
	case <-n.closed:
		return ErrClosed
	default:
		return err
	}
}

// Close ends the incarnation immediately: the lease is withdrawn, the process signs off
// from its peers (for at most 200 ms), connections and goroutines end. Idempotent; every
// call returns when all is done.
func (n *Node) Close() error {
	n.closing.Do(n.shutdown)
	<-n.closed
	return nil
}

func (n *Node) shutdown() {
	left := n.signOff()
	close(n.stop)
	<-n.loopEnded
	n.cancel()
	if n.discovery != nil {
		n.discovery.Close(left)
	}
	_ = n.transport.Close() // it ends whatever the error
	n.wg.Wait()
	n.events.closeQueue()
	close(n.closed)
}

// Lapse ends the incarnation without notice to the peers, for a node that runs code which
// it cannot end: until its lease has expired no other node may act in its place. It holds
// no lease from now on and answers no peer. Its connections stay open until Close, so
// that no peer treats it as dead before, and Close then sends no goodbye. It returns for
// how long the lease is still granted, 0 if the incarnation had already ended.
func (n *Node) Lapse() (left time.Duration) {
	done := make(chan struct{})
	n.inbox.Put(call(func(l *loop) {
		defer close(done)
		now := n.clock.Now()
		if lease := n.lease.loadLease(); !l.ended && lease.Valid(now) {
			left = lease.Until.Sub(now)
		}
		n.lapsed.Store(!l.ended)
		l.endIncarnation(now, gossip.Removed{Reason: reasonClosed})
	}))
	select {
	case <-done:
		return left
	case <-n.closed:
		return 0
	}
}

// signOff withdraws the lease and sends a goodbye to all peers. It reports whether the
// node had left its cluster before.
func (n *Node) signOff() (left bool) {
	done := make(chan struct{})
	n.inbox.Put(call(func(l *loop) {
		defer close(done)
		left = l.ended && !n.lapsed.Load()
		l.endIncarnation(n.clock.Now(), gossip.Removed{Reason: reasonClosed})
		if !n.lapsed.Load() {
			l.signOff()
		}
	}))
	<-done
	ctx, cancel := context.WithTimeout(context.Background(), signOffMax)
	defer cancel()
	// Peers that do not receive the goodbye in time detect the end by themselves.
	_ = n.transport.Flush(ctx)
	return left
}

// signOff sends a goodbye to every connected peer. From now on this incarnation holds no
// lease and does nothing, so peers may treat it as dead: a planned stop is no crash, and
// needs no time to be proven.
func (l *loop) signOff() {
	l.buf = appendMessage(l.buf[:0], &goodbye{})
	for id, p := range l.evidence.peers {
		if p.out[transport.Control] {
			_ = l.n.transport.Send(id, transport.Control, transport.KindEvidence, l.buf)
		}
	}
}
