package transport

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// network is the layer below an engine: real sockets in TCP, an in-memory network in
// Memory.
type network interface {
	// dial opens a connection, before any TLS handshake. It returns soon after ctx ends.
	dial(ctx context.Context, addr string) (net.Conn, error)
	// accept returns the next accepted connection, or net.ErrClosed.
	accept() (net.Conn, error)
	// writePacket sends a datagram, blocking at most for its copy.
	writePacket(b []byte, addr string) error
	// readPacket fills b with the next datagram, or returns net.ErrClosed.
	readPacket(b []byte) (int, net.Addr, error)
	// inquire asks the UDP port of a peer with a nonce, until ctx ends.
	inquire(ctx context.Context, p Peer, nonce beaconNonce) Inquiry
	// close ends the listening for connections; accept returns net.ErrClosed. The
	// connections are closed by the engine.
	close() error
	// closePackets ends the port of datagrams; readPacket returns net.ErrClosed.
	closePackets() error
}

// engine is the common part of TCP and Memory, which is all but the sockets: the
// handshake, the links to peers, the accepted connections, the limits.
//
// Goroutines, all counted in wg but for the second: one accepts, one reads datagrams;
// per link one that dials and writes, and one per open connection that waits for its end;
// per accepted connection one that runs the handshake and then reads.
type engine struct {
	cfg      Config
	self     identity
	net      network
	log      *limitedLogger
	counters Counters
	handlers [256]Handler
	// blockHandlers take precedence over handlers.
	blockHandlers [256]BlockHandler
	observer      func(PeerEvent)

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	// packetsEnded is closed when the reader of datagrams has ended, nil if it never ran.
	packetsEnded chan struct{}

	// held are the addresses to which datagrams are held, until when; holding is set while
	// there may be any.
	heldMu  sync.Mutex
	held    map[string]time.Time
	holding atomic.Bool
	// authenticated is set when connections prove the identity of the peer.
	authenticated bool

	// mu guards the life cycle. Invariant: once closed, nothing is added to conns,
	// and wg only goes down.
	mu      sync.Mutex
	started atomic.Bool // written with mu
	closed  bool
	conns   map[io.Closer]struct{}

	// eventMu makes a change of the accepted table and its event one step. The observer
	// is called with it held, so no method of Transport may lock it. Lock order: eventMu,
	// then any other.
	eventMu sync.Mutex
	// muted stops events and handlers: this node's process is dead (Memory).
	muted atomic.Bool

	acceptedMu sync.Mutex
	accepted   map[connKey]*inbound
	senders    senders

	strangers strangers
	halves    halfFrames
	// flows name the flow of a frame, by kind; nil: none has one.
	flows [256]func(payload []byte) Flow

	peers peerTable

	// keys binds nodes to their certificates. certificates are our own, nil if they are
	// not read from files; first is the one in use when this node started.
	keys         *keyTable
	certificates *Certificates
	first        *certificate
	// judgesHost: a certificate must name the host of its node's advertised address.
	judgesHost bool

	// connections counts this node's handshakes, so that the far end can order them.
	connections atomic.Uint64

	// blocks holds the memory for queued frames (backlog).
	blocks sync.Pool

	packets chan Packet
	streams chan net.Conn
}

// connKey names the one accepted connection that a peer may have per class.
type connKey struct {
	id    gossip.NodeID
	class Class
}

// newEngine returns an engine that has not started. cfg must be valid and have its
// defaults; addr is the advertised address of this node.
func newEngine(cfg Config, addr string, n network) *engine {
	e := &engine{
		cfg: cfg,
		self: identity{
			Peer:     Peer{ID: cfg.ID, Name: cfg.Name, Addr: addr},
			cluster:  cfg.Cluster,
			settings: cfg.Settings,
		},
		net:      n,
		log:      newLimitedLogger(cfg.Logger.With(slog.String("node", cfg.Name))),
		conns:    make(map[io.Closer]struct{}),
		accepted: make(map[connKey]*inbound),
		packets:  make(chan Packet, cfg.PacketsMax),
		streams:  make(chan net.Conn, cfg.StreamsMax),
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.peers.initTable(cfg.ForgottenMax)
	e.halves.initHalves(cfg.HalfFrameBytesMax)
	e.strangers.initStrangers(cfg.StrangersMax, cfg.StrangersPerSourceMax)
	e.senders.initSenders(cfg.PeersMax+cfg.ForgottenMax, cfg.ForgottenMax)
	e.keys = newKeyTable(cfg.PeersMax+cfg.ForgottenMax, e.meets)
	e.counters.queue = e.queueBytes
	return e
}

// meets reports whether id is this node, a learnt node, or a node with an open connection to
// this one.
func (e *engine) meets(id gossip.NodeID) bool {
	if id == e.self.ID || e.peers.peerOf(id) != nil {
		return true
	}
	e.acceptedMu.Lock()
	defer e.acceptedMu.Unlock()
	for c := range classes {
		if e.accepted[connKey{id, c}] != nil {
			return true
		}
	}
	return false
}

// Self returns this node's description of itself in handshakes.
func (e *engine) Self() Peer { return e.self.Peer }

// Counters returns the transport's counters.
func (e *engine) Counters() *Counters { return &e.counters }

// Handle sets the handler of a kind. Call it before Start.
func (e *engine) Handle(k Kind, h Handler) { e.handlers[k] = h }

// HandleBlocks sets the handler of blocks of a kind. Call it before Start.
func (e *engine) HandleBlocks(k Kind, h BlockHandler) { e.blockHandlers[k] = h }

// HandleFlows sets the function that returns the flow of a kind's frames. Call it before
// Start.
func (e *engine) HandleFlows(k Kind, f func(payload []byte) Flow) { e.flows[k] = f }

// Observe sets the listener of peer events. Call it before Start.
func (e *engine) Observe(f func(PeerEvent)) { e.observer = f }

// Start begins to accept and to open connections.
func (e *engine) Start() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return ErrClosed
	}
	if e.started.Load() {
		e.mu.Unlock()
		return errors.New("transport: started twice")
	}
	e.started.Store(true)
	e.mu.Unlock()

	e.spawn(e.acceptLoop)
	e.packetsEnded = make(chan struct{})
	go func() {
		defer close(e.packetsEnded)
		e.packetLoop()
	}()
	for _, p := range e.peers.allLinks() {
		for c := range p.links {
			p.links[c].startLink()
		}
	}
	return nil
}

// Close ends everything and waits for it. The port of datagrams closes last, when no
// handler runs: to other nodes a closed one proves that this incarnation has stopped.
func (e *engine) Close() error {
	e.mu.Lock()
	first := !e.closed
	e.closed = true
	conns := e.conns
	if first {
		e.conns = nil
	}
	e.mu.Unlock()
	var err error
	if first {
		e.cancel()
		err = e.net.close()
		for c := range conns {
			_ = c.Close() // it ends whatever the error
		}
		for _, p := range e.peers.allAfterClose() {
			p.stop(DropClosed)
		}
	}
	e.wg.Wait()
	if first {
		err = errors.Join(err, e.net.closePackets())
	}
	if e.packetsEnded != nil {
		<-e.packetsEnded
	}
	e.closeWaitingStreams()
	return err
}

// spawn runs f on a goroutine that Close waits for. It reports false, and runs
// nothing, before Start and after Close.
func (e *engine) spawn(f func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || !e.started.Load() {
		return false
	}
	e.wg.Add(1)
	go func() {
		defer e.wg.Done()
		f()
	}()
	return true
}

// track makes Close close c. It reports false when Close has begun: then the caller must
// close c.
func (e *engine) track(c io.Closer) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.conns[c] = struct{}{}
	return true
}

// closeConn closes and untracks c.
func (e *engine) closeConn(c io.Closer) {
	e.untrack(c)
	_ = c.Close() // nothing more is sent on it
}

func (e *engine) untrack(c io.Closer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.conns, c)
}

// sleep waits for d. It reports false when ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// emit calls the observer, unless the transport is closing or live reports that the
// event's subject no longer exists. The caller holds no lock.
func (e *engine) emit(ev PeerEvent, live func() bool) {
	e.eventMu.Lock()
	defer e.eventMu.Unlock()
	if live == nil || live() {
		e.emitLocked(ev)
	}
}

// emitLocked is emit with eventMu held.
func (e *engine) emitLocked(ev PeerEvent) {
	if e.observer == nil || e.muted.Load() || e.ctx.Err() != nil {
		return
	}
	e.observer(ev)
}

// mute makes the engine that of a dead process: handlers and observer are no longer
// called, apart from a call that is already running.
func (e *engine) mute() {
	e.muted.Store(true)
	e.acceptedMu.Lock()
	defer e.acceptedMu.Unlock()
	for _, in := range e.accepted {
		in.ended.Store(true)
	}
}
