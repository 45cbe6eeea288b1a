// Package transport carries frames between peers: one authenticated, framed
// stream per peer and class, and the raw packets and streams that memberlist
// needs, all on one port (DESIGN 4.8). TCP is the real one; Memory is for tests
// and behaves the same, with faults on request.
//
// Both are the same engine over different sockets. Read in this order: hello.go
// and handshake.go (what is said first), link.go (the life of a connection),
// backlog.go, writer.go and direct.go (the send queue), inbound.go and reader.go (what is
// accepted), memory.go (the network for tests).
//
// Errors:
//
//	error                 meaning                              what to do
//	ErrQueueFull          the peer reads too slowly            WaitRoom, or drop; retryable
//	ErrUnknownPeer        never learnt, unlearnt or forgotten  learn it, if it lives; else give up
//	ErrFrameTooLarge      above the class's limit              split; never retryable
//	ErrClosed             Close was called                     give up
//	*RefusedError         the far end said no, and why         mend the setting it names
//	syscall.ECONNREFUSED  nobody listens there                 evidence of a crash, or too early
package transport

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/peerage-go/peerage/gossip/view"
)

// Class separates traffic onto connections of its own, so that a large transfer
// delays no heartbeat. Frames of one class and flow to one peer arrive in the order in
// which they were sent, or not at all; there is no order between classes.
type Class uint8

const (
	// Control is for views, leases and the small messages of the protocols. Nothing that
	// an application does adds to it.
	Control Class = iota
	// Message is for entity messages and markers.
	Message
	// Bulk is for transfers.
	Bulk
	// Data is for the distributed data of applications.
	Data
	classes
)

// String returns the class in lower case, as in metrics.
func (c Class) String() string {
	switch c {
	case Control:
		return "control"
	case Message:
		return "message"
	case Bulk:
		return "bulk"
	case Data:
		return "data"
	}
	return "class(" + strconv.Itoa(int(c)) + ")"
}

// Kind says which part of Peerage a frame is for.
type Kind uint8

const (
	KindView Kind = iota + 1
	KindReplicator
	KindCoordinator
	KindEntity
	KindEvidence
	// KindRecords is for the replicators of what coordinators keep; KindReplicator for
	// those of applications.
	KindRecords
)

// Peer is the far end of a connection, as it said in the handshake.
type Peer struct {
	ID   view.NodeID
	Name string
	Addr string
}

// Errors of Send. Each means that the frame was not queued.
var (
	// ErrQueueFull: the peer's queue is at its limit; try again later.
	ErrQueueFull = errors.New("transport: send queue full")
	// ErrUnknownPeer: no address is known for the node, or it was forgotten.
	ErrUnknownPeer = errors.New("transport: unknown peer")
	// ErrClosed: the transport is closed.
	ErrClosed = errors.New("transport: closed")
	// ErrFrameTooLarge: the payload is above the class's frame limit.
	ErrFrameTooLarge = errors.New("transport: frame too large")
)

// Handler takes one frame. It is called by the connection's reader, one frame at
// a time per peer and class; it must not block for long, it must not call Close,
// and payload is only valid during the call.
type Handler func(from view.NodeID, payload []byte)

// BlockHandler is a Handler for a kind of which many frames come at a time: it is called
// once for frames that arrived one behind the other, must take them all by Next, and
// may keep them until it returns.
type BlockHandler func(from view.NodeID, frames *Frames)

// PeerEvent tells what happened to the connections with a peer. Events are
// delivered one at a time, in the order in which things happened; the first frame
// of an accepted connection is handed out after its Accepted event.
type PeerEvent struct {
	Peer  Peer
	Class Class
	Type  PeerEventType
	// Err is the cause of Lost, DialFailed.
	Err error
	// Former may be set on OtherNode.
	Former view.NodeID
}

// PeerEventType is the kind of a PeerEvent.
type PeerEventType uint8

const (
	// Connected: an outgoing connection stands, the handshake is done.
	Connected PeerEventType = iota + 1
	// Accepted: the peer has opened a connection to us. An older one of the same
	// class has ended without an event of its own, and nothing read from it counts
	// afterwards.
	Accepted
	// Lost: an outgoing connection broke. Frames that were queued or in flight may
	// or may not have arrived; the queue was emptied. The next attempt to connect
	// starts at once, and its outcome is the next event of this peer and class.
	Lost
	// AcceptedLost: the peer's connection to us broke or ended.
	AcceptedLost
	// Refused: a dial was answered with connection refused. The queue was emptied.
	Refused
	// DialFailed: a dial or its handshake failed in another way (Err tells; it is a
	// *RefusedError when the peer gave a reason). The queue was emptied.
	DialFailed
	// OtherNode: another incarnation, Peer, answered at the address of the node we
	// looked for. Former holds that one, which is gone for certain, if a connection to
	// it at this address stood once. Otherwise Former is zero, and a DialFailed of the
	// node has come just before: it may never have been there. The queue was emptied.
	OtherNode
	// ListenerLost: this transport can accept no connection any longer, though it was not
	// closed (Err tells): its port says to others that the process is gone. Peer is zero.
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

// Transport is what a node speaks through. All methods are safe for concurrent
// use.
type Transport interface {
	// Self returns what this node says of itself in handshakes.
	Self() Peer

	// Counters returns the transport's counters; they are live.
	Counters() *Counters

	// Handle sets the handler of a kind. Frames of a kind without a handler are
	// counted and dropped. Call it before Start.
	Handle(Kind, Handler)
	// HandleBlocks sets the handler of a kind for as many frames at a time as have
	// arrived together, instead of one set by Handle. Call it before Start.
	HandleBlocks(Kind, BlockHandler)
	// HandleFlows sets the function that names the flow of a frame of this kind that is
	// to be sent. Large frames go in pieces between others, so that small frames of other
	// flows overtake them: only frames of one flow keep their order, and one of flow 0
	// does not overtake anything that was sent before it. Without the function all frames
	// of a kind have flow 0. It is called where that matters, not for every frame, with
	// locks held: it must be quick, block on nothing and depend on the payload alone.
	// Call it before Start.
	HandleFlows(Kind, func(payload []byte) Flow)
	// Observe sets the listener of peer events. It must not block nor call Close;
	// it may call every other method. Call it before Start.
	Observe(func(PeerEvent))
	// Start begins to accept and to open connections.
	Start() error

	// Learn tells addresses of nodes, and starts to keep a control connection to
	// each of them; connections of the other classes are opened by the first Send.
	// A node keeps its address for life, so one at which it was reached stands; an
	// address at which it never was gives way to what is told later, and what was
	// queued is dropped (DropForgotten). This node itself and forgotten nodes are
	// ignored. A node that connects to us can be sent to from then on, yet no
	// connection to it is kept by that: the observer learns it if it wants one.
	Learn(...Peer)
	// Unlearn closes the connections to nodes and stops looking for them. Their own
	// connections to us stay, unless the view has dropped them; they may be learnt again,
	// and a new connection of theirs makes them known again.
	Unlearn(...view.NodeID)
	// SetMembers tells which nodes the newest view has. Of those that the view before it
	// had and this one has not, the connections of Message and Bulk to this node end and
	// are refused from now on: nothing that they sent on them is handed out afterwards,
	// but for a handler that is already running. Control is spared, so that nodes whose
	// views have dropped each other can find out. A node that was no member yet is not
	// affected. The newest Config.ForgottenMax are remembered.
	SetMembers(...view.NodeID)
	// Forget closes the connections of nodes and refuses them from now on: their
	// incarnation is over. Nothing that they sent is handed out afterwards, but for
	// a handler that is already running. The newest Config.ForgottenMax are
	// remembered.
	Forget(...view.NodeID)

	// Send queues a frame for a peer and never blocks. The payload is copied. It
	// dials when needed; nil means queued, not delivered.
	Send(to view.NodeID, c Class, k Kind, payload []byte) error
	// WaitRoom blocks until at most half of the queue to the peer is in use (a frame
	// of any allowed size then fits), the context ends, or the peer is forgotten
	// (ErrUnknownPeer).
	WaitRoom(ctx context.Context, to view.NodeID, c Class) error
	// Open reports whether frames of a class may be under way to a peer: a connection
	// stands, or frames wait for one. It neither dials nor blocks.
	Open(to view.NodeID, c Class) bool
	// Flush blocks until every queue has been handed to the operating system, or
	// emptied by a loss. Call it between the end of sending and Close.
	Flush(ctx context.Context) error
	// Probe dials addr, shakes hands, hangs up and returns who answered: how nodes
	// are found at contact points, and how evidence of death is gathered. An error
	// is a *RefusedError, or wraps syscall.ECONNREFUSED when nothing listens there.
	Probe(ctx context.Context, addr string) (Peer, error)

	// WritePacket sends a datagram; loss is silent.
	WritePacket(b []byte, addr string) error
	// Packets delivers datagrams; full means dropped and counted. It is never
	// closed.
	Packets() <-chan Packet
	// DialStream opens a raw stream for memberlist.
	DialStream(addr string, timeout time.Duration) (net.Conn, error)
	// Streams delivers the raw streams that others opened; full means closed and
	// counted. It is never closed.
	Streams() <-chan net.Conn

	// Close ends all connections at once, raw streams included, and waits until
	// every goroutine of the transport has ended; no handler or observer is called
	// afterwards. Idempotent.
	Close() error
}
