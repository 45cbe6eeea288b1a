package transport

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/fence"
	"github.com/peerage-go/peerage/internal/socket"
)

var errReplaced = errors.New("transport: replaced by a newer connection of the peer")

// inbound is an accepted connection of one class from one peer.
//
// There is at most one per peer and class, and a newer one ends an older one. The peer
// dials again when it detects that a connection is broken, possibly before we do: bytes
// of the old one may still wait in our kernel. If they were read after the first frames
// of the new one, frames would be handled out of order. So, before the new connection is
// welcomed, which lets the peer send:
//
//	mark the old one as ended       (its reader checks before each frame)
//	wait until its reader is between two frames
//
// and the old one never hands out a frame again. The newer of two is not determined by
// the order in which our goroutines run: the hello carries the dialler's count of its
// attempts, and a lower count than that of the open connection is refused.
//
// Connections of earlier incarnations of the same process, of all classes, are ended in
// the same way: see senders.
type inbound struct {
	peer   Peer
	class  Class
	number uint64
	conn   net.Conn
	// sender and incarnation order the connections of one process.
	sender      processKey
	incarnation uint64

	// ended: frames of this connection are no longer handed out. fenced: because its
	// sender was superseded or dropped.
	ended, fenced atomic.Bool
	// handing holds a token while frames are handed out. It is a channel, since the
	// holder runs user code of any length, and Close must not wait for a lock.
	handing chan struct{}
	// parts are the frames that arrive in pieces, by slot; the reader's. halved: it was
	// closed for the memory of one of them.
	parts  [piecesMax]*part
	halved atomic.Bool
	// bounded: boundReceived has been called; the reader's.
	bounded bool
	// frames are those that a BlockHandler is processing.
	frames Frames
}

// end makes sure that no further frame is handed out, apart from one that is being handed
// out.
func (in *inbound) end() {
	in.ended.Store(true)
	_ = in.conn.Close() // wakes the reader, which cleans up
}

// boundReceived bounds the bytes that wait in the socket of a message connection. The reader calls it
// with the first piece of a large frame: small frames cannot overtake pieces in the socket. Without
// large frames the kernel's buffer stays, since a small one costs a flood of small frames a fifth of
// its rate.
func (in *inbound) boundReceived() {
	if in.bounded || in.class != Message {
		return
	}
	in.bounded = true
	if conn := tcpUnder(in.conn); conn != nil {
		socket.BoundReceived(conn)
	}
}

// refusedByClosing is the refusal of connections during Close.
var refusedByClosing = &refusal{code: FailOther, reason: "closing"}

// connKey names the one accepted connection that a peer may have per class.
type connKey struct {
	id    gossip.NodeID
	class Class
}

// inbounds holds the accepted connections: at most one per peer and class.
type inbounds struct {
	life     *lifetime
	peers    *peerTable
	events   *eventSink
	counters *Counters

	mu      sync.Mutex
	byKey   map[connKey]*inbound
	senders senders
}

func (a *inbounds) initInbounds(cfg *Config, life *lifetime, peers *peerTable, events *eventSink, counters *Counters) {
	a.life, a.peers, a.events, a.counters = life, peers, events, counters
	a.byKey = make(map[connKey]*inbound)
	a.senders.initSenders(cfg.PeersMax+cfg.ForgottenMax, cfg.ForgottenMax)
}

// hasNode reports whether a node has an open connection to this one.
func (a *inbounds) hasNode(id gossip.NodeID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for c := range classes {
		if a.byKey[connKey{id, c}] != nil {
			return true
		}
	}
	return false
}

// registerConn makes in the connection of its peer and class, and ends the former one and
// those of earlier incarnations. These stay ended, and refused from now on, even if the
// dialler does not wait for the welcome.
func (a *inbounds) registerConn(in *inbound) *refusal {
	// A connection that replaces this one waits for our token, and so for the one that we
	// wait for: replacements in a row keep their order.
	in.handing <- struct{}{}
	defer func() { <-in.handing }()
	ended, r := a.insertConn(in)
	if r != nil {
		return r
	}
	for _, former := range ended {
		if !former.awaitHands(a.life.ctx) {
			a.removeConn(in)
			return refusedByClosing
		}
	}
	// Before anything is read from it: a node that asks over this connection may be
	// answered immediately, even before a view contains it.
	a.peers.addPeers(in.peer)
	a.events.emit(PeerEvent{Peer: in.peer, Class: in.class, Type: Accepted}, func() bool { return !in.ended.Load() })
	return nil
}

// insertConn adds in to the tables. It ends the connections that in supersedes and returns
// them; their handlers may still run.
func (a *inbounds) insertConn(in *inbound) (ended []*inbound, r *refusal) {
	key := connKey{in.peer.ID, in.class}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.peers.isForgotten(in.peer.ID) { // since the handshake began
		return nil, &refusal{code: FailForgotten, reason: "node " + in.peer.ID.String() + " was removed; its incarnation is over"}
	}
	if a.senders.refusesClass(in.peer.ID, in.class) {
		return nil, &refusal{code: FailDropped, reason: "node " + in.peer.ID.String() + " is not in the view any longer"}
	}
	former := a.byKey[key]
	if former != nil && in.number <= former.number {
		return nil, &refusal{code: FailSuperseded, reason: "a newer connection of this node stands"}
	}
	if ended, r = a.senders.acceptSender(in); r != nil {
		return nil, r
	}
	for _, earlier := range ended {
		a.fence(earlier)
	}
	if former != nil {
		a.counters.Replaced.Add(1)
		former.end()
		ended = append(ended, former)
	}
	a.byKey[key] = in
	return ended, nil
}

// removeConn takes a connection out of the tables; its reader has ended or never begun.
func (a *inbounds) removeConn(in *inbound) (stood bool) {
	key := connKey{in.peer.ID, in.class}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.senders.removeSender(in)
	if a.byKey[key] != in {
		return false
	}
	delete(a.byKey, key)
	return true
}

// unregisterConn ends in, and reports the end unless a newer one has taken its place or the
// peer was forgotten.
func (a *inbounds) unregisterConn(in *inbound, cause error) {
	a.life.closeConn(in.conn)
	a.counters.Accepted.Add(-1)
	a.events.emit(PeerEvent{Peer: in.peer, Class: in.class, Type: AcceptedLost, Err: cause}, func() bool { return a.removeConn(in) })
}

// processKey names a sending process. With TLS the key of its certificate is part of the
// name, so that the holder of another certificate cannot supersede it.
type processKey struct {
	process uint64
	key     keyHash
}

// senders decides whose accepted connections are valid; package fence has the rules.
// inbounds.mu guards it.
type senders struct {
	marks *fence.Marks[processKey]
	// open holds, by process, the accepted connections whose readers may still run.
	// Invariant: no empty map in it.
	open    map[processKey]map[*inbound]struct{}
	dropped *fence.Dropped[gossip.NodeID]
}

func (s *senders) initSenders(marksMax, droppedMax int) {
	s.open = make(map[processKey]map[*inbound]struct{})
	s.marks = fence.NewMarks(marksMax, func(p processKey) bool { return len(s.open[p]) > 0 })
	s.dropped = fence.NewDropped[gossip.NodeID](droppedMax)
}

// acceptSender adds a connection and returns those of earlier incarnations, which must end
// before it is welcomed, or why it is refused.
func (s *senders) acceptSender(in *inbound) (earlier []*inbound, r *refusal) {
	switch s.marks.Accept(in.sender, in.incarnation) {
	case fence.Superseded:
		return nil, &refusal{code: FailSuperseded, reason: "a later incarnation of this process has connected"}
	case fence.Full:
		return nil, &refusal{code: FailBusy, reason: "too many processes are connected"}
	}
	if s.open[in.sender] == nil {
		s.open[in.sender] = make(map[*inbound]struct{})
	}
	for other := range s.open[in.sender] {
		if other.incarnation < in.incarnation {
			earlier = append(earlier, other)
		}
	}
	s.open[in.sender][in] = struct{}{}
	return earlier, nil
}

// removeSender removes a connection whose reader has ended.
func (s *senders) removeSender(in *inbound) {
	delete(s.open[in.sender], in)
	if len(s.open[in.sender]) == 0 {
		delete(s.open, in.sender)
	}
}

// refusesClass reports whether id was dropped by the view, and connections of the class
// are refused for it. Those of Control are not: nodes of two views that drop each other
// must be able to learn of each other.
func (s *senders) refusesClass(id gossip.NodeID, c Class) bool {
	return c != Control && s.dropped.Has(id)
}

// fence ends a connection whose sender was superseded or dropped.
func (a *inbounds) fence(in *inbound) {
	if in.fenced.Swap(true) {
		return
	}
	a.counters.Fenced.Add(1)
	a.counters.FencedBytes.Add(uint64(unreadBytes(in.conn)))
	in.end()
}

// unreadBytes returns how many received bytes on conn are unread.
func unreadBytes(conn net.Conn) int {
	if c, is := conn.(*memConn); is {
		return c.unread()
	}
	if c := tcpUnder(conn); c != nil {
		return socket.Unread(c)
	}
	return 0
}

// roundTrip returns the round-trip time of a connection, 0 if the system does not report it.
func roundTrip(conn net.Conn) time.Duration {
	if c := tcpUnder(conn); c != nil {
		return socket.RoundTrip(c)
	}
	return 0
}

// tcpUnder returns the TCP connection under conn, nil if there is none.
func tcpUnder(conn net.Conn) *net.TCPConn {
	switch c := conn.(type) {
	case secureConn:
		return tcpUnder(c.NetConn())
	case *sealedConn:
		return tcpUnder(c.Conn)
	case *net.TCPConn:
		return c
	}
	return nil
}

// awaitHands blocks until no frame of the connection is in a handler. The connection
// must have ended: then none will be. It reports false when ctx has ended.
func (in *inbound) awaitHands(ctx context.Context) bool {
	select {
	case in.handing <- struct{}{}:
		<-in.handing
		return true
	case <-ctx.Done():
		return false
	}
}

// setMembers ends the connections of Message and Bulk from nodes that the newest view has
// dropped.
func (a *inbounds) setMembers(ids []gossip.NodeID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range a.senders.dropped.SetMembers(ids) {
		for _, c := range []Class{Message, Bulk} {
			if in := a.byKey[connKey{id, c}]; in != nil {
				a.fence(in)
			}
		}
	}
}

// endDropped ends the remaining connections of nodes that the view has dropped.
func (a *inbounds) endDropped(ids []gossip.NodeID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		if in := a.byKey[connKey{id, Control}]; in != nil && a.senders.dropped.Has(id) {
			a.fence(in)
		}
	}
}

// endNodes ends all connections of nodes that were forgotten.
func (a *inbounds) endNodes(ids []gossip.NodeID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		for c := range classes {
			if in := a.byKey[connKey{id, c}]; in != nil {
				delete(a.byKey, connKey{id, c})
				a.fence(in)
			}
		}
	}
}

// markEnded makes all readers stop handing out frames, without closing a connection.
func (a *inbounds) markEnded() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, in := range a.byKey {
		in.ended.Store(true)
	}
}
