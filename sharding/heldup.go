package sharding

import (
	"context"
	"errors"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/route"
	"github.com/peerage-go/peerage/internal/delivery/frames"
)

// This file delays senders whose messages a home has no room for, or that it stops for an
// entity: callers wait here, package route decides how long. The reader of a connection that
// brings a grant sends the buffer, then the messages of the first callers that wait, as far
// as the grant permits; so a grant needs no goroutine to be woken before it is used.

var (
	// errHeldUp: the home has no room for more.
	errHeldUp = errors.New("sharding: home has no room")
	// errStopped: the entity does not keep up.
	errStopped = errors.New("sharding: entity does not keep up")
	// errTryAgain: the route has changed while a caller was held up.
	errTryAgain = errors.New("sharding: route has changed")
	// errHandlerWait: a handler has waited HandlerWait for room.
	errHandlerWait = errors.New("handler has waited for 5s")
)

// HandlerWait is the maximum time that a full mailbox delays a handler, whatever its
// Context. It ends the deadlock of two entities that send to each other while both
// mailboxes are full.
const HandlerWait = 5 * time.Second

// awaitGrant waits until a message has left, the route has changed (errTryAgain), or ctx
// ends.
func (r *router) awaitGrant(ctx context.Context, rt *shardRoute, it *item) error {
	w, err := r.beginWait(rt, it)
	if err != nil {
		return err
	}
	woken := w.Item.Msg.woken
	var patience <-chan time.Time
	if it.Msg.handler {
		timer := time.NewTimer(HandlerWait)
		defer timer.Stop()
		patience = timer.C
	}
	select {
	case err = <-woken:
		return err
	case <-ctx.Done():
		err = giveUp(ErrMailboxFull, ctx)
	case <-patience:
		err = &gaveUpError{ErrMailboxFull, errHandlerWait}
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if !w.Withdraw() {
		return <-woken
	}
	r.counters.heldUp.Add(-1)
	return err
}

// beginWait queues a caller at its route. It fails if the caller need not, or must not, wait.
func (r *router) beginWait(rt *shardRoute, it *item) (*route.Waiter[message], error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	inc := r.now.Load()
	if inc == nil || r.closed.Load() || rt.core.Offer(it).Kind != route.Wait {
		return nil, errTryAgain
	}
	if it.Msg.toItself {
		return nil, ErrMailboxFull // it would wait for itself
	}
	w := &route.Waiter[message]{Item: *it}
	w.Item.Msg.woken = make(chan error, 1)
	rt.core.Await(w)
	r.counters.heldUp.Add(1)
	r.carryOut(inc, rt)
	return w, nil
}

// granted takes a grant of a home.
func (r *router) granted(inc *incarnation, from gossip.NodeID, g *frames.Grant) {
	rt := &r.routes[g.Shard]
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.core.Grant(from, g.Token, g.Grant)
	r.carryOut(inc, rt)
}

// stopped takes what a home says of an entity.
func (r *router) stopped(inc *incarnation, from gossip.NodeID, s *frames.StopNotice) {
	rt := &r.routes[s.Shard]
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.core.Stop(from, s.Token, string(s.ID), s.Gate)
	r.carryOut(inc, rt)
}

// reconcile takes a report: that of a sender which is blocked. One whose shard does not
// run here may send one request, which is refused: so it learns that it looks for another
// home.
func (s *service) reconcile(p dataPath, inc *incarnation, from gossip.NodeID, m frames.Marker, report flow.Report) {
	if inc == nil || inc.accounts == nil || p.hosted(m.Shard) != m.Token {
		b := frames.AppendGrantHead(nil, string(m.Type))
		s.out.send(from, frames.AppendGrant(b, &frames.Grant{Shard: m.Shard, Token: m.Token, Grant: flow.Grant{Limit: report.Sent + 1, LimitBytes: report.SentBytes + 1, Asked: report.Asked}}))
		return
	}
	sender := inc.accounts.sender(from)
	sender.reconcile(m.Shard, m.Token, report)
	sender.transmit()
}

func (s *service) handleBlocked(from gossip.NodeID, frame []byte) error {
	m, report, err := frames.ParseReport(frame)
	if err != nil {
		return err
	}
	p, inc, err := findShard(s, m.Type, m.Shard)
	if p != nil {
		s.reconcile(p, inc, from, m, report)
	}
	return err
}

func (s *service) handleGrants(from gossip.NodeID, frame []byte) error {
	typ, grants, err := frames.ParseGrants(frame)
	if err != nil {
		return err
	}
	p := s.path(typ)
	if p == nil {
		return nil
	}
	return p.base().takeGrants(from, grants)
}

// takeGrants takes encoded grants.
func (r *router) takeGrants(from gossip.NodeID, grants []byte) error {
	inc := r.now.Load()
	for ; inc != nil && len(grants) > 0; grants = grants[frames.GrantBytes:] {
		g := frames.ReadGrant(grants)
		if uint32(g.Shard) >= r.shards {
			return frames.ErrMalformed
		}
		r.granted(inc, from, &g)
	}
	return nil
}

func (s *service) handleStop(from gossip.NodeID, frame []byte) error {
	m, err := frames.ParseStop(frame)
	if err != nil {
		return err
	}
	p, inc, err := findShard(s, m.Type, m.Shard)
	if inc != nil {
		p.base().stopped(inc, from, &m)
	}
	return err
}

// handleStopped answers a sender that asks whether it still has to stop for an entity.
func (s *service) handleStopped(from gossip.NodeID, frame []byte) error {
	m, err := frames.ParseStopped(frame)
	if err != nil {
		return err
	}
	p, inc, err := findShard(s, m.Type, m.Shard)
	if p == nil {
		return err
	}
	if inc == nil || inc.accounts == nil || p.hosted(m.Shard) != m.Token {
		s.out.send(from, frames.AppendStop(nil, string(m.Type), m.Shard, m.Token, string(m.ID), flow.Open))
		return nil
	}
	inc.accounts.sender(from).answerStopped(m.Shard, m.Token, string(m.ID))
	return nil
}
