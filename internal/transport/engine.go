package transport

import (
	"context"
	"errors"
	"log/slog"
	"net"
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
	// closeListener ends the listening for connections; accept returns net.ErrClosed. The
	// connections are closed by the engine.
	closeListener() error
	// closePackets ends the port of datagrams; readPacket returns net.ErrClosed.
	closePackets() error
}

// engine is the common part of TCP and Memory, which is all but the sockets. It composes the
// machines below, each with state and locks of its own, and starts and closes them:
//
//	lifetime     context, goroutines and connections that Close ends
//	eventSink    events, one at a time
//	credentials  this node's identity, and the keys of other nodes
//	dialler      the dialling side of handshakes
//	peerTable    learnt nodes, with a link per class to each: queue, writer, back-off
//	inbounds     accepted connections, one per peer and class
//	receiver     frames that arrive, and their handlers
//	acceptor     the accepting side of handshakes, with its limits
//	streams      raw streams of memberlist
//	datagrams    datagrams of memberlist, and beacons
//
// Goroutines, all counted in life but for the second: one accepts, one reads datagrams;
// per link one that dials and writes, and one per open connection that waits for its end;
// per accepted connection one that runs the handshake and then reads.
type engine struct {
	cfg      Config
	net      network
	counters Counters

	life        lifetime
	events      eventSink
	credentials credentials
	dialler     dialler
	peers       peerTable
	inbounds    inbounds
	receiver    receiver
	acceptor    acceptor
	streams     streams
	datagrams   datagrams
	// packetsEnded is closed when the reader of datagrams has ended, nil if it never ran.
	packetsEnded chan struct{}
}

// newEngine returns an engine that has not started. cfg must be valid and have its
// defaults; addr is the advertised address of this node.
func newEngine(cfg Config, addr string, n network) *engine {
	e := &engine{cfg: cfg, net: n}
	log := newLimitedLogger(cfg.Logger.With(slog.String("node", cfg.Name)))
	e.life.initLifetime()
	e.events.life = &e.life
	e.credentials.self = identity{
		Peer:     Peer{ID: cfg.ID, Name: cfg.Name, Addr: addr, Versions: cfg.Versions},
		cluster:  cfg.Cluster,
		settings: cfg.Settings,
	}
	e.credentials.keys = newKeyTable(cfg.PeersMax+cfg.ForgottenMax, e.meets)
	e.dialler = dialler{cfg: &e.cfg, net: n, life: &e.life, credentials: &e.credentials, counters: &e.counters, log: log}
	e.peers.initTable(&e.cfg, log)
	e.peers.links = linkShared{cfg: &e.cfg, life: &e.life, events: &e.events, dialler: &e.dialler, counters: &e.counters}
	e.inbounds.initInbounds(&e.cfg, &e.life, &e.peers, &e.events, &e.counters)
	e.receiver.initReceiver(&e.cfg, &e.life, &e.counters, log)
	e.streams = streams{waiting: make(chan net.Conn, cfg.StreamsMax), life: &e.life, counters: &e.counters, log: log}
	e.datagrams = datagrams{waiting: make(chan Packet, cfg.PacketsMax), net: n, life: &e.life, counters: &e.counters, log: log}
	e.acceptor = acceptor{
		cfg: &e.cfg, net: n, life: &e.life, events: &e.events, credentials: &e.credentials, counters: &e.counters, log: log,
		peers: &e.peers, inbounds: &e.inbounds, receiver: &e.receiver, streams: &e.streams,
	}
	e.acceptor.strangers.initStrangers(cfg.StrangersMax, cfg.StrangersPerSourceMax, &e.counters.Strangers)
	e.counters.queue, e.counters.roundTrip = e.peers.queueBytes, e.peers.longestRoundTrip
	return e
}

// meets reports whether id is this node, a learnt node, or a node with an open connection to
// this one.
func (e *engine) meets(id gossip.NodeID) bool {
	return id == e.cfg.ID || e.peers.peerOf(id) != nil || e.inbounds.hasNode(id)
}

// Self returns this node's description of itself in handshakes.
func (e *engine) Self() Peer { return e.credentials.self.Peer }

// Counters returns the transport's counters.
func (e *engine) Counters() *Counters { return &e.counters }

// Handle sets the handler of a kind. Call it before Start.
func (e *engine) Handle(k Kind, h Handler) { e.receiver.handlers[k] = h }

// HandleBlocks sets the handler of blocks of a kind. Call it before Start.
func (e *engine) HandleBlocks(k Kind, h BlockHandler) { e.receiver.blockHandlers[k] = h }

// HandleFlows sets the function that returns the flow of a kind's frames. Call it before
// Start.
func (e *engine) HandleFlows(k Kind, f func(payload []byte) (f Flow, urgent bool)) {
	e.peers.links.flows[k] = f
}

// Observe sets the listener of peer events. Call it before Start.
func (e *engine) Observe(f func(PeerEvent)) { e.events.observer = f }

// Start begins to accept and to open connections.
func (e *engine) Start() error {
	if err := e.life.markStarted(); err != nil {
		return err
	}
	e.life.spawn(e.acceptor.acceptLoop)
	e.packetsEnded = make(chan struct{})
	go func() {
		defer close(e.packetsEnded)
		e.datagrams.readLoop()
	}()
	e.peers.startLinks()
	return nil
}

// Close ends everything and waits for it. The port of datagrams closes last, when no
// handler runs: to other nodes a closed one proves that this incarnation has stopped.
func (e *engine) Close() error {
	conns, first := e.life.markClosed()
	var err error
	if first {
		err = e.net.closeListener()
		for c := range conns {
			_ = c.Close() // it ends whatever the error
		}
		e.peers.stopLinks()
	}
	e.life.wg.Wait()
	if first {
		err = errors.Join(err, e.net.closePackets())
	}
	if e.packetsEnded != nil {
		<-e.packetsEnded
	}
	e.streams.closeWaiting()
	return err
}

// stopCalls makes the engine that of a dead process: handlers and observer are no longer
// called, apart from a call that is already running.
func (e *engine) stopCalls() {
	e.events.muted.Store(true)
	e.inbounds.markEnded()
}

// Learn adds addresses of nodes.
func (e *engine) Learn(peers ...Peer) {
	e.peers.addPeers(peers...)
	for i := range peers {
		if p := e.peers.peerOf(peers[i].ID); p != nil {
			p.links[Control].startLink()
		}
	}
}

// Unlearn closes the connections to nodes and stops dialling them.
func (e *engine) Unlearn(ids ...gossip.NodeID) {
	e.peers.removePeers(ids, false)
	e.inbounds.endDropped(ids)
}

// Forget closes the connections of nodes and refuses them from now on.
func (e *engine) Forget(ids ...gossip.NodeID) {
	e.peers.removePeers(ids, true)
	e.inbounds.endNodes(ids)
}

// SetMembers sets the members of the newest view.
func (e *engine) SetMembers(ids ...gossip.NodeID) { e.inbounds.setMembers(ids) }

// Send queues a frame for a peer and never blocks.
func (e *engine) Send(to gossip.NodeID, c Class, k Kind, payload []byte) error {
	l, err := e.peers.linkTo(to, c)
	if err != nil {
		return e.life.orClosed(err)
	}
	return l.sendFrame(k, payload)
}

// WaitRoom blocks until at most half of the queue to the peer is in use.
func (e *engine) WaitRoom(ctx context.Context, to gossip.NodeID, c Class) error {
	p := e.peers.peerOf(to)
	if p == nil || c >= classes {
		return e.life.orClosed(ErrUnknownPeer)
	}
	return p.links[c].awaitLevel(ctx, p.links[c].limit.QueueBytesMax/2)
}

// Open reports whether frames may be in flight to a peer.
func (e *engine) Open(to gossip.NodeID, c Class) bool {
	p := e.peers.peerOf(to)
	return p != nil && c < classes && p.links[c].mayBeInFlight()
}

// Flush blocks until every queue has been handed to the operating system.
func (e *engine) Flush(ctx context.Context) error { return e.peers.awaitEmpty(ctx) }

// Probe dials addr, runs the handshake and returns the node that answered.
func (e *engine) Probe(ctx context.Context, addr string) (Peer, error) {
	return e.dialler.probeAddr(ctx, addr)
}

// Inquire asks the UDP port of a peer.
func (e *engine) Inquire(ctx context.Context, p Peer) Inquiry { return e.datagrams.askPort(ctx, p) }

// Authenticated reports whether connections prove the identity of the peer.
func (e *engine) Authenticated() bool { return e.credentials.authenticated }

// HoldPackets drops datagrams to an address for a time.
func (e *engine) HoldPackets(addr string, d time.Duration) { e.datagrams.holdAddr(addr, d) }

// WritePacket sends a datagram.
func (e *engine) WritePacket(b []byte, addr string) error { return e.datagrams.writeTo(b, addr) }

// Packets delivers datagrams.
func (e *engine) Packets() <-chan Packet { return e.datagrams.waiting }

// DialStream opens a raw stream for memberlist.
func (e *engine) DialStream(addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(e.life.ctx, timeout)
	defer cancel()
	conn, _, err := e.dialler.connect(ctx, addr, purposeStream, 0)
	if err != nil {
		return nil, e.life.orClosed(err)
	}
	return e.streams.wrapDialled(conn), nil
}

// Streams delivers the accepted raw streams.
func (e *engine) Streams() <-chan net.Conn { return e.streams.waiting }
