package transport

import (
	"errors"
	"net"
	"sync/atomic"
	"time"
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
// the same way: senders.go.
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
	// frames are those that a BlockHandler is processing.
	frames Frames
}

// end makes sure that no further frame is handed out, apart from one that is being handed
// out.
func (in *inbound) end() {
	in.ended.Store(true)
	_ = in.conn.Close() // wakes the reader, which cleans up
}

// acceptClass registers the connection and returns its reader, or nil.
func (e *engine) acceptClass(conn net.Conn, h *hello) func() {
	in := &inbound{
		peer: h.Peer, class: Class(h.purpose), number: h.number, conn: conn, handing: make(chan struct{}, 1),
		sender: processKey{process: h.process}, incarnation: h.incarnation,
	}
	key, r := e.keyOf(conn, &h.identity, dialler)
	if r == nil {
		in.sender.key = key
		r = e.register(in)
	}
	if r != nil {
		e.counters.Accepted.Add(-1)
		if r != refusedByClosing {
			e.refuse(conn, r)
		}
		return nil
	}
	if err := e.welcome(conn); err != nil {
		e.turnAway(conn, err)
		e.unregister(in, err)
		return nil
	}
	return func() { e.unregister(in, e.read(in)) }
}

// welcome ends the handshake and clears the deadline, after the answer: the far end may
// not read it.
func (e *engine) welcome(conn net.Conn) error {
	if err := e.reply(conn, verdictWelcome, nil); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

// refusedByClosing is the refusal of connections during Close.
var refusedByClosing = &refusal{code: FailOther, reason: "closing"}

// register makes in the connection of its peer and class, and ends the former one and
// those of earlier incarnations. These stay ended, and refused from now on, even if the
// dialler does not wait for the welcome.
func (e *engine) register(in *inbound) *refusal {
	// A connection that replaces this one waits for our token, and so for the one that we
	// wait for: replacements in a row keep their order.
	in.handing <- struct{}{}
	defer func() { <-in.handing }()
	ended, r := e.insert(in)
	if r != nil {
		return r
	}
	for _, former := range ended {
		if !former.awaitHands(e.ctx) {
			e.remove(in)
			return refusedByClosing
		}
	}
	// Before anything is read from it: a node that asks over this connection may be
	// answered immediately, even before a view contains it.
	e.know(in.peer)
	e.emit(PeerEvent{Peer: in.peer, Class: in.class, Type: Accepted}, func() bool { return !in.ended.Load() })
	return nil
}

// insert adds in to the tables. It ends the connections that in supersedes and returns
// them; their handlers may still run.
func (e *engine) insert(in *inbound) (ended []*inbound, r *refusal) {
	key := connKey{in.peer.ID, in.class}
	e.acceptedMu.Lock()
	defer e.acceptedMu.Unlock()
	if e.peers.isForgotten(in.peer.ID) { // since the handshake began
		return nil, &refusal{code: FailForgotten, reason: "node " + in.peer.ID.String() + " was removed; its incarnation is over"}
	}
	if e.senders.refusesClass(in.peer.ID, in.class) {
		return nil, &refusal{code: FailDropped, reason: "node " + in.peer.ID.String() + " is not in the view any longer"}
	}
	former := e.accepted[key]
	if former != nil && in.number <= former.number {
		return nil, &refusal{code: FailSuperseded, reason: "a newer connection of this node stands"}
	}
	if ended, r = e.senders.accept(in); r != nil {
		return nil, r
	}
	for _, earlier := range ended {
		e.fence(earlier)
	}
	if former != nil {
		e.counters.Replaced.Add(1)
		former.end()
		ended = append(ended, former)
	}
	e.accepted[key] = in
	return ended, nil
}

// remove takes a connection out of the tables; its reader has ended or never begun.
func (e *engine) remove(in *inbound) (stood bool) {
	key := connKey{in.peer.ID, in.class}
	e.acceptedMu.Lock()
	defer e.acceptedMu.Unlock()
	e.senders.remove(in)
	if e.accepted[key] != in {
		return false
	}
	delete(e.accepted, key)
	return true
}

// unregister ends in, and reports the end unless a newer one has taken its place or the
// peer was forgotten.
func (e *engine) unregister(in *inbound, cause error) {
	e.drop(in.conn)
	e.counters.Accepted.Add(-1)
	e.emit(PeerEvent{Peer: in.peer, Class: in.class, Type: AcceptedLost, Err: cause}, func() bool { return e.remove(in) })
}
