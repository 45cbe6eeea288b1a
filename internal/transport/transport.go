// Package transport carries frames between peers: one authenticated, framed
// stream per peer and class, and the raw packets and streams that memberlist needs, all
// on one port. TCP is the real one; Memory is for tests and behaves the same, with faults
// on request.
//
// Both are the same engine over different sockets. Read in this order: hello.go and
// handshake.go (the first messages), link.go (the life of a connection), backlog.go,
// writer.go and direct.go (the send queue), inbound.go and reader.go (accepted
// connections), memory.go (the network for tests).
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
	"net"
	"strconv"
	"time"

	"github.com/peerage-go/peerage/gossip"
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
	// them: only frames of one flow keep their order, and one of flow 0 overtakes no
	// frame sent before it. Without the function all frames of a kind have flow 0. It is
	// called only when the flow matters, with locks held: it must be quick, must not
	// block, and must depend only on the payload. Call it before Start.
	HandleFlows(Kind, func(payload []byte) Flow)
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
