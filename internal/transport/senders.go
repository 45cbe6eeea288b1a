package transport

import (
	"context"
	"net"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/fence"
)

// processKey names a sending process. With TLS the key of its certificate is part of the
// name, so that the holder of another certificate cannot supersede it.
type processKey struct {
	process uint64
	key     keyHash
}

// senders decides whose accepted connections are valid; package fence has the rules. The
// engine's acceptedMu guards it.
type senders struct {
	marks *fence.Marks[processKey]
	// open holds, by process, the accepted connections whose readers may still run.
	// Invariant: no empty map in it.
	open    map[processKey]map[*inbound]struct{}
	dropped *fence.Dropped[gossip.NodeID]
}

func (s *senders) init(marksMax, droppedMax int) {
	s.open = make(map[processKey]map[*inbound]struct{})
	s.marks = fence.NewMarks(marksMax, func(p processKey) bool { return len(s.open[p]) > 0 })
	s.dropped = fence.NewDropped[gossip.NodeID](droppedMax)
}

// accept adds a connection and returns those of earlier incarnations, which must end
// before it is welcomed, or why it is refused.
func (s *senders) accept(in *inbound) (earlier []*inbound, r *refusal) {
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

// remove removes a connection whose reader has ended.
func (s *senders) remove(in *inbound) {
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
func (e *engine) fence(in *inbound) {
	if in.fenced.Swap(true) {
		return
	}
	e.counters.Fenced.Add(1)
	e.counters.FencedBytes.Add(uint64(unreadBytes(in.conn)))
	in.end()
}

// unreadBytes returns how many received bytes on conn are unread.
func unreadBytes(conn net.Conn) int {
	switch c := conn.(type) {
	case secureConn:
		return unreadBytes(c.NetConn())
	case *sealedConn:
		return unreadBytes(c.Conn)
	case *memConn:
		return c.unread()
	case *net.TCPConn:
		return unreadOf(c)
	}
	return 0
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

// SetMembers sets the members of the newest view.
func (e *engine) SetMembers(ids ...gossip.NodeID) {
	e.acceptedMu.Lock()
	defer e.acceptedMu.Unlock()
	for _, id := range e.senders.dropped.SetMembers(ids) {
		for _, c := range []Class{Message, Bulk} {
			if in := e.accepted[connKey{id, c}]; in != nil {
				e.fence(in)
			}
		}
	}
}

// endDropped ends the remaining connections of nodes that the view has dropped.
func (e *engine) endDropped(ids []gossip.NodeID) {
	e.acceptedMu.Lock()
	defer e.acceptedMu.Unlock()
	for _, id := range ids {
		if in := e.accepted[connKey{id, Control}]; in != nil && e.senders.dropped.Has(id) {
			e.fence(in)
		}
	}
}
