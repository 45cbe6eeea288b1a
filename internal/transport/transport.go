// Package transport carries frames between peers: one authenticated, framed
// stream per peer and class, and the raw packets and streams that memberlist needs, all
// on one port. TCP is the real one; Memory is for tests and behaves the same, with faults
// on request.
//
// Both are the same engine (engine.go) over different sockets: machines with state of their
// own. Read in this order: hello.go, dial.go and accept.go (the first messages), link.go (the
// life of a connection), lanes.go and writer.go (the send queue), inbound.go and reader.go
// (accepted connections), datagrams.go (the UDP port), memory.go (the network for tests).
//
// Errors:
//
//	error                 meaning                              what to do
//	ErrQueueFull          the peer reads too slowly            WaitRoom, or drop; retryable
//	ErrUnknownPeer        never learnt, unlearnt or forgotten  learn it, if it lives; else give up
//	ErrFrameTooLarge      above the class's limit              split; never retryable
//	ErrClosed             Close was called                     give up
//	*RefusedError         the far end refused, with a reason   fix the setting it names
//	syscall.ECONNREFUSED  nothing listens there                evidence of a crash, or too early
package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/wire"
)

// Class separates the traffic between two nodes onto connections of its own, so that a large
// transfer delays no heartbeat. Frames of one class and flow to one peer arrive in the order
// in which they were sent, or not at all. There is no order between classes.
type Class uint8

const (
	// Control is for views, leases and the small messages of the protocols. It carries no
	// application traffic.
	Control Class = iota
	// Message is for entity messages and markers.
	Message
	// Bulk is for transfers.
	Bulk
	// Data is for the distributed data of applications.
	Data
	classes
)

// String returns "control", "message", "bulk" or "data", as in metrics.
func (c Class) String() string {
	if names := [...]string{"control", "message", "bulk", "data"}; int(c) < len(names) {
		return names[c]
	}
	return "class(" + strconv.Itoa(int(c)) + ")"
}

// Kind is the part of Peerage to which a frame belongs.
type Kind uint8

const (
	KindView Kind = iota + 1
	KindReplicator
	KindCoordinator
	KindEntity
	KindEvidence
	// KindRecords is for the replicators of coordinators' records; KindReplicator for
	// those of applications.
	KindRecords
)

// Peer is the far end of a connection, as described in its handshake.
type Peer struct {
	ID   gossip.NodeID
	Name string
	Addr string
	// Versions are the wire versions that it speaks, zero until a handshake with it.
	Versions wire.Versions
}

// Errors of Send. Each means that the frame was not queued.
var (
	// ErrQueueFull: the peer's queue is at its limit; try again later.
	ErrQueueFull = errors.New("transport: send queue full")
	// ErrUnknownPeer: no address of the node was learnt, or it was forgotten.
	ErrUnknownPeer = errors.New("transport: unknown peer")
	// ErrClosed: the transport is closed.
	ErrClosed = errors.New("transport: closed")
	// ErrFrameTooLarge: the payload is above the class's frame limit.
	ErrFrameTooLarge = errors.New("transport: frame too large")
)

// Handler handles one frame. The connection's reader calls it, one frame at a time per
// peer and class. It must not block for long, it must not call Close, and payload is only
// valid during the call.
type Handler func(from gossip.NodeID, payload []byte)

// BlockHandler is a Handler for a kind of which many frames arrive at a time. It is
// called once for consecutive frames, must take them all by Next, and may use them until
// it returns.
type BlockHandler func(from gossip.NodeID, frames *Frames)

// PeerEvent reports a change of the connections with a peer. Events are delivered one at
// a time, in order; the first frame of an accepted connection is handed out after its
// Accepted event.
type PeerEvent struct {
	Peer  Peer
	Class Class
	Type  PeerEventType
	// Err is the cause of Lost, DialFailed.
	Err error
	// Former may be set on OtherNode.
	Former gossip.NodeID
	// RoundTrip is set on Connected: the round-trip time as the system measured it in the
	// handshake, 0 if it does not.
	RoundTrip time.Duration
}

// PeerEventType is the kind of a PeerEvent.
type PeerEventType uint8

const (
	// Connected: an outgoing connection was established, the handshake is done.
	Connected PeerEventType = iota + 1
	// Accepted: the peer has opened a connection to us. An older one of the same class
	// has ended without an event of its own, and no frame of it is handed out afterwards.
	Accepted
	// Lost: an outgoing connection broke. Frames that were queued or in flight may
	// or may not have arrived; the queue was emptied. The next attempt to connect starts
	// immediately, and its outcome is the next event of this peer and class.
	Lost
	// AcceptedLost: the peer's connection to us broke or ended.
	AcceptedLost
	// Refused: a dial was answered with connection refused. The queue was emptied.
	Refused
	// DialFailed: a dial or its handshake failed in another way (see Err; it is a
	// *RefusedError when the peer gave a reason). The queue was emptied.
	DialFailed
	// OtherNode: another incarnation, Peer, answered at the address of the dialled node.
	// Former is the dialled node, which has certainly ended, if a connection to it at
	// this address was once established. Otherwise Former is zero, and a DialFailed of
	// the node came just before: it may never have been there. The queue was emptied.
	OtherNode
	// ListenerLost: this transport can no longer accept connections, though it was not
	// closed (see Err): to other nodes its port indicates that the process has ended.
	// Peer is zero.
	ListenerLost
)

// String returns the type in lower case, as in logs.
func (t PeerEventType) String() string {
	names := [...]string{"", "connected", "accepted", "lost", "accepted lost", "refused", "dial failed", "other node", "listener lost"}
	if t == 0 || int(t) >= len(names) {
		return "event(" + strconv.Itoa(int(t)) + ")"
	}
	return names[t]
}

// Packet is a datagram for memberlist.
type Packet struct {
	Data []byte
	From net.Addr
	Time time.Time
}

// Transport sends and receives a node's frames, datagrams and raw streams. All methods
// are safe for concurrent use.
type Transport interface {
	// Self returns this node's description of itself in handshakes.
	Self() Peer

	// Counters returns the transport's counters; they are live.
	Counters() *Counters

	// Handle sets the handler of a kind. Frames of a kind without a handler are
	// counted and dropped. Call it before Start.
	Handle(Kind, Handler)
	// HandleBlocks sets the handler of a kind for as many frames at a time as have
	// arrived together, instead of one set by Handle. Call it before Start.
	HandleBlocks(Kind, BlockHandler)
	// HandleFlows sets the function that returns the flow of an outgoing frame of this
	// kind. Large frames are sent in pieces, so that small frames of other flows overtake
	// them, and urgent small frames overtake a long queue of other flows. Only frames of one
	// flow keep their order, and one of flow 0 overtakes no frame sent before it. Without
	// the function all frames of a kind have flow 0, and none is urgent. It is
	// called only when the flow matters, with locks held: it must be quick, must not
	// block, and must depend only on the payload. Call it before Start.
	HandleFlows(Kind, func(payload []byte) (f Flow, urgent bool))
	// Observe sets the listener of peer events. It must not block nor call Close;
	// it may call every other method. Call it before Start.
	Observe(func(PeerEvent))
	// Start begins to accept and to open connections.
	Start() error

	// Learn adds addresses of nodes, and starts to maintain a control connection to each
	// of them; connections of the other classes are opened by the first Send. A node
	// never changes its address, so one at which it was reached is kept. An unconfirmed
	// address is replaced by one learnt later, and the frames queued for it are dropped
	// (DropForgotten). This node itself and forgotten nodes are ignored. Frames can be
	// sent to a node that connects to us, but no control connection to it is maintained:
	// the observer must call Learn for that.
	Learn(...Peer)
	// Unlearn closes the connections to nodes and stops dialling them. Their own
	// connections to us stay, unless the view has dropped them. They may be learnt again,
	// and a new connection of theirs adds them again.
	Unlearn(...gossip.NodeID)
	// SetMembers sets the members of the newest view. The connections of Message and Bulk
	// from nodes that it has dropped end and are refused from now on: no frame of theirs
	// is handed out afterwards, apart from a handler that is already running. Control is
	// exempt, so that nodes whose views have dropped each other can detect that. A node
	// that was no member yet is not affected. The newest Config.ForgottenMax dropped
	// nodes are recorded.
	SetMembers(...gossip.NodeID)
	// Forget closes the connections of nodes and refuses them from now on: their
	// incarnation has ended. No frame of theirs is handed out afterwards, apart from a
	// handler that is already running. The newest Config.ForgottenMax are recorded.
	Forget(...gossip.NodeID)

	// Send queues a frame for a peer and never blocks. The payload is copied. It
	// dials when needed; nil means queued, not delivered.
	Send(to gossip.NodeID, c Class, k Kind, payload []byte) error
	// WaitRoom blocks until at most half of the queue to the peer is in use (a frame
	// of any allowed size then fits), the context ends, or the peer is forgotten
	// (ErrUnknownPeer).
	WaitRoom(ctx context.Context, to gossip.NodeID, c Class) error
	// Open reports whether frames of a class may be in flight to a peer: there is a
	// connection, or frames wait for one. It neither dials nor blocks.
	Open(to gossip.NodeID, c Class) bool
	// Flush blocks until every queue has been handed to the operating system, or
	// emptied by a loss. Call it between the end of sending and Close.
	Flush(ctx context.Context) error
	// Probe dials addr, runs the handshake, closes the connection and returns the node
	// that answered. It serves to find nodes at contact points, and to gather evidence of
	// death. An error is a *RefusedError, or wraps syscall.ECONNREFUSED when nothing
	// listens there.
	Probe(ctx context.Context, addr string) (Peer, error)

	// WritePacket sends a datagram; loss is silent.
	WritePacket(b []byte, addr string) error
	// Packets delivers datagrams; full means dropped and counted. It is never
	// closed.
	Packets() <-chan Packet
	// DialStream opens a raw stream for memberlist.
	DialStream(addr string, timeout time.Duration) (net.Conn, error)
	// Streams delivers the accepted raw streams; full means closed and counted. It is
	// never closed.
	Streams() <-chan net.Conn

	// Close ends all connections immediately, raw streams included, and waits until every
	// goroutine of the transport has ended; no handler or observer is called afterwards.
	// Idempotent.
	Close() error
}

// Flow names frames of one peer and class that must be handled in the order in which
// they were sent. Zero is the flow of frames that name none: such a frame is handled
// after all frames sent before it.
type Flow uint64

// Limits of a node's description of itself, which keep a hello small.
const (
	nameBytesMax     = 128
	addrBytesMax     = 256
	settingsMax      = 64
	settingNameMax   = 64
	settingValueMax  = 256
	reasonBytesMax   = 1024
	helloBytesMax    = 32 << 10
	packetBytesMax   = 65507
	frameHeaderBytes = 12
)

// Config configures both transports. Its zero value is not valid: ID, Name and Cluster
// are required; every other field's zero value stands for its default.
type Config struct {
	// ID is this incarnation: random, new at every start.
	ID gossip.NodeID
	// Name is the stable label of the node, at most 128 bytes.
	Name string
	// Process and Incarnation order the frames of one process's successive incarnations:
	// peers that have accepted incarnation k of a process accept no frame of an earlier
	// one, however late the network delivers it. A process draws Process at random when
	// it starts and counts its incarnations; the transport of one must be closed before
	// that of the next is built. Defaults: the ID, and 1, for processes that have one
	// incarnation.
	Process     uint64
	Incarnation uint64
	// Cluster is the name of the cluster, at most 128 bytes. Nodes of another
	// cluster are refused, in both directions.
	Cluster string
	// Settings are the values that must be equal on every node, by name (at most 64 of
	// them, names of 64 and values of 256 bytes). A node that differs is refused with a
	// reason that names the setting and both values.
	Settings map[string]string
	// Versions are the wire versions that this node speaks. Default: those of this build.
	Versions wire.Versions

	// Control, Message, Bulk and Data bound the classes. Defaults: frames of 1, 4, 8
	// and 1 MiB; queues of 4, 16, 32 and 4 MiB per peer.
	Control, Message, Bulk, Data classLimits

	// DialTimeout bounds the opening of a connection, without TLS and handshake. Default
	// 1 s: a lost SYN is tried again by the kernel after 1 s, by us a little later.
	DialTimeout time.Duration
	// HandshakeTimeout bounds the handshake, TLS included, on both sides. Default 2 s. A
	// shorter one frees the slots of silent strangers sooner, but fails correct peers on
	// an overloaded machine.
	HandshakeTimeout time.Duration
	// BackoffMin and BackoffMax bound the wait between attempts to connect: the first is
	// made immediately, the n-th after min(BackoffMin * 2^(n-2), BackoffMax), of which up
	// to a quarter is taken off to spread the peers. Defaults 10 ms and 1 s: refusals
	// come after 0, 10, 30, 70, 150 ms, also after a hang-up or another failure, so tens
	// of milliseconds show several; and a returned peer is found within 1 s.
	BackoffMin, BackoffMax time.Duration

	// StrangersMax bounds the accepted connections whose handshake is not done yet,
	// StrangersPerSourceMax those from one address (IPv6: one /64 network). A newcomer
	// always gets a slot; when the source has none left, its oldest connection is closed
	// for it; when no slots are left at all, the oldest of the source with most; and from
	// half of StrangersMax on, with a rising probability, a random one. Those closed are
	// counted as busy; nodes among them dial again. Defaults 256 and 64.
	StrangersMax, StrangersPerSourceMax int
	// HalfFrameBytesMax bounds the memory of all partially received frames together. If
	// it does not suffice, the connection of the oldest of them is closed and counted. At
	// least the largest frame; default 256 MiB.
	HalfFrameBytesMax int
	// AcceptedMax bounds the accepted connections and raw streams. Default 8192.
	AcceptedMax int
	// PeersMax bounds the learnt nodes. Default 4096.
	PeersMax int
	// ForgottenMax bounds the list of forgotten nodes. Default 4096.
	ForgottenMax int
	// PacketsMax and StreamsMax bound the channels to memberlist. Defaults 1024
	// and 128.
	PacketsMax, StreamsMax int

	// Logger receives messages for operators; nil discards.
	Logger *slog.Logger
}

// classLimits bounds one class of traffic. The zero value stands for the class's
// defaults.
type classLimits struct {
	// FrameBytesMax bounds a frame's payload. It must be equal on all nodes: a
	// receiver closes a connection on which a larger frame is announced.
	FrameBytesMax int
	// QueueBytesMax bounds the queue for one peer, the bytes being written included: at
	// least twice the largest frame. Each connected peer may cost this much memory while
	// it reads too slowly, and up to twice as much if frames of a size between 1 and 64
	// KiB leave blocks half empty.
	QueueBytesMax int
}

func (c *Config) class(cl Class) *classLimits {
	switch cl {
	case Control:
		return &c.Control
	case Message:
		return &c.Message
	case Data:
		return &c.Data
	default:
		return &c.Bulk
	}
}

func orDefault[T int | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// withDefaults returns c with its zero fields filled in.
func (c Config) withDefaults() Config {
	for cl, frame := range [classes]int{1 << 20, 4 << 20, 8 << 20, 1 << 20} {
		l := c.class(Class(cl))
		orDefault(&l.FrameBytesMax, frame)
		orDefault(&l.QueueBytesMax, 4*l.FrameBytesMax)
	}
	if c.Process == 0 {
		c.Process = uint64(c.ID)
	}
	if c.Incarnation == 0 {
		c.Incarnation = 1
	}
	if c.Versions == (wire.Versions{}) {
		c.Versions = wire.OwnVersions()
	}
	orDefault(&c.DialTimeout, time.Second)
	orDefault(&c.HandshakeTimeout, 2*time.Second)
	orDefault(&c.BackoffMin, 10*time.Millisecond)
	orDefault(&c.BackoffMax, time.Second)
	orDefault(&c.StrangersMax, 256)
	orDefault(&c.StrangersPerSourceMax, 64)
	orDefault(&c.HalfFrameBytesMax, 256<<20)
	orDefault(&c.AcceptedMax, 8192)
	orDefault(&c.PeersMax, 4096)
	orDefault(&c.ForgottenMax, 4096)
	orDefault(&c.PacketsMax, 1024)
	orDefault(&c.StreamsMax, 128)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate returns all problems of c, with zero fields replaced by their defaults.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("transport: "+format, args...))
		}
	}
	check(c.ID != 0, "ID is zero")
	check(c.Name != "" && len(c.Name) <= nameBytesMax, "Name %q: 1 to %d bytes are allowed", c.Name, nameBytesMax)
	check(c.Cluster != "" && len(c.Cluster) <= nameBytesMax, "Cluster %q: 1 to %d bytes are allowed", c.Cluster, nameBytesMax)
	check(len(c.Settings) <= settingsMax, "Settings has %d entries, at most %d are allowed", len(c.Settings), settingsMax)
	for _, name := range slices.Sorted(maps.Keys(c.Settings)) {
		value := c.Settings[name]
		check(name != "" && len(name) <= settingNameMax && len(value) <= settingValueMax,
			"Settings[%q] = %q: name of 1 to %d bytes, value of at most %d", name, value, settingNameMax, settingValueMax)
	}
	for cl := range classes {
		l := c.class(cl)
		check(l.FrameBytesMax > 0 && l.FrameBytesMax <= 1<<30, "%v: FrameBytesMax %d is not within 1 and 2^30", cl, l.FrameBytesMax)
		check(l.QueueBytesMax >= 2*(l.FrameBytesMax+frameBytesAround),
			"%v: QueueBytesMax %d is less than twice the largest frame (%d)", cl, l.QueueBytesMax, l.FrameBytesMax)
		check(c.HalfFrameBytesMax >= l.FrameBytesMax, "HalfFrameBytesMax %d is less than the largest frame of %v (%d)", c.HalfFrameBytesMax, cl, l.FrameBytesMax)
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"DialTimeout", c.DialTimeout}, {"HandshakeTimeout", c.HandshakeTimeout}, {"BackoffMin", c.BackoffMin}} {
		check(d.d > 0, "%s %v is negative", d.name, d.d)
	}
	check(c.BackoffMax >= c.BackoffMin, "BackoffMax %v is below BackoffMin %v", c.BackoffMax, c.BackoffMin)
	for _, n := range []struct {
		name string
		n    int
	}{{"StrangersMax", c.StrangersMax}, {"StrangersPerSourceMax", c.StrangersPerSourceMax}, {"AcceptedMax", c.AcceptedMax}, {"PeersMax", c.PeersMax},
		{"ForgottenMax", c.ForgottenMax}, {"PacketsMax", c.PacketsMax}, {"StreamsMax", c.StreamsMax}} {
		check(n.n > 0, "%s %d is negative", n.name, n.n)
	}
	return errors.Join(errs...)
}

// magic are the first bytes that both sides of a connection send.
const magic = "PEER"
