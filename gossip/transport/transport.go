// Package transport carries frames between peers: one authenticated, framed
// stream per peer and class, and the raw packets and streams that memberlist
// needs, all on one port (DESIGN 4.8). TCP is the real one; Memory is for tests
// and behaves the same, with faults on request.
package transport

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/peerage-go/peerage/gossip/view"
)

// Class separates traffic onto connections of its own, so that a large transfer
// delays no heartbeat. Frames of one class to one peer arrive in the order in
// which they were sent, or not at all; there is no order between classes.
type Class uint8

const (
	// Control is for views, leases and the small messages of the protocols.
	Control Class = iota
	// Message is for entity messages and markers.
	Message
	// Bulk is for transfers.
	Bulk
	classes
)

// Kind says which part of Peerage a frame is for.
type Kind uint8

const (
	KindView Kind = iota + 1
	KindReplicator
	KindCoordinator
	KindEntity
	KindEvidence
	kinds
)

// Peer is the far end of a connection, as it said in the handshake.
type Peer struct {
	ID   view.NodeID
	Name string
	Addr string
}

// Errors of Send. All three mean that the frame was not queued.
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

// RefusedError says why the far end refused a handshake, in its own words.
type RefusedError struct {
	Addr   string
	Reason string
}

func (e *RefusedError) Error() string { return "transport: " + e.Addr + " refused us: " + e.Reason }

// Handler takes one frame. It is called by the connection's reader, one frame at
// a time per peer and class; it must not block for long, and payload is only
// valid during the call.
type Handler func(from view.NodeID, payload []byte)

// PeerEvent tells what happened to the connections with a peer.
type PeerEvent struct {
	Peer  Peer
	Class Class
	Type  PeerEventType
	// Err is the cause of Lost, DialFailed.
	Err error
	// Former is set on OtherNode.
	Former view.NodeID
}

// PeerEventType is the kind of a PeerEvent.
type PeerEventType uint8

const (
	// Connected: an outgoing connection stands, the handshake is done.
	Connected PeerEventType = iota + 1
	// Accepted: the peer has opened a connection to us; an older one of the same
	// class has ended, and nothing read from it counts afterwards.
	Accepted
	// Lost: an outgoing connection broke. Frames that were queued or in flight may
	// or may not have arrived; the queue was emptied.
	Lost
	// AcceptedLost: the peer's connection to us broke or ended.
	AcceptedLost
	// Refused: a dial was answered with connection refused.
	Refused
	// DialFailed: a dial failed in another way.
	DialFailed
	// OtherNode: another incarnation, Peer, answered at the address of the node we
	// looked for. Former holds the one that is gone for certain.
	OtherNode
)

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

	// Handle sets the handler of a kind. Frames of a kind without a handler are
	// counted and dropped. Call it before Start.
	Handle(Kind, Handler)
	// Observe sets the listener of peer events; it must not block. Call it before
	// Start.
	Observe(func(PeerEvent))
	// Start begins to accept connections.
	Start() error

	// Learn tells addresses of nodes. A node keeps its address for life.
	Learn(...Peer)
	// Forget closes the connections of nodes and refuses them from now on: their
	// incarnation is over.
	Forget(...view.NodeID)

	// Send queues a frame for a peer and never blocks. The payload is copied. It
	// dials when needed; nil means queued, not delivered.
	Send(to view.NodeID, c Class, k Kind, payload []byte) error
	// WaitRoom blocks until the queue to the peer has room, the context ends, or
	// the peer is forgotten.
	WaitRoom(ctx context.Context, to view.NodeID, c Class) error
	// Probe dials addr, shakes hands, hangs up and returns who answered: how nodes
	// are found at contact points, and how evidence of death is gathered. An error
	// is a *RefusedError, or wraps syscall.ECONNREFUSED when nothing listens there.
	Probe(ctx context.Context, addr string) (Peer, error)

	// WritePacket sends a datagram; loss is silent.
	WritePacket(b []byte, addr string) error
	// Packets delivers datagrams; full means dropped and counted.
	Packets() <-chan Packet
	// DialStream opens a raw stream for memberlist.
	DialStream(addr string, timeout time.Duration) (net.Conn, error)
	// Streams delivers the raw streams that others opened.
	Streams() <-chan net.Conn

	// Close ends all connections at once and waits until every goroutine of the
	// transport has ended. Idempotent.
	Close() error
}
