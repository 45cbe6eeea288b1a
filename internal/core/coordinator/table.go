package coordinator

import (
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// table has the state of all shards, and moves them from phase to phase: allocation
// (allocate.go), moves (moves.go), the balance (rebalance.go), new tokens (renew.go), resends
// (resend.go).
type table struct {
	*env
	members *members
	writes  *writes
	outbox  *outbox
	chooser chooser

	shards []shard
	// surveyed is set once the census is through: the table shows all that runs. Nothing is
	// placed or moved before.
	surveyed bool
	// open counts the shards in a phase that waits. Invariant: it is exact.
	open int
	// hosted counts the shards in phase hosted.
	hosted hostedShards
	// strays are claims that lost against a higher token: they are to stop.
	strays strays
	// retryStart is when a shard that its homes do not start may be placed again, zero if no
	// shard waits for that.
	retryStart clock.Instant
	// requested are the free shards for which a request has come since the last placement.
	requested []protocol.ShardID
	// renewed: no shard has a token below the view's TokensFrom.
	renewed bool

	nextResend clock.Instant
}

// makeShards begins a table of n shards that were never allocated.
func (t *table) makeShards(n int) {
	t.shards = make([]shard, n)
	t.chooser.shards = t.shards
	t.hosted = hostedShards{}
}

// setPhase moves s to a phase and keeps count.
func (t *table) setPhase(s *shard, p phase) {
	if s.known || p < writing || p.moves() {
		t.chooser.counts = nil
	}
	if s.phase.waits() {
		t.open--
	}
	t.hosted.countShard(s, -1)
	s.phase = p
	t.hosted.countShard(s, 1)
	if p.waits() {
		if t.open == 0 && !t.ordersOpen() {
			t.nextResend = t.now.Add(t.cfg.Resend)
		}
		t.open++
	}
	if !p.moves() {
		s.move = nil
	}
}

// adoptRecord adopts what a record or a claim shows of a shard, unless a higher token is on record.
func (t *table) adoptRecord(r protocol.Record) {
	s := &t.shards[r.Shard]
	t.chooser.settled = true
	s.known = true
	if s.token.Less(r.Token) {
		s.token = r.Token
		if t.view.Member(r.Home) != nil {
			s.home = r.Home
			t.setPhase(s, recorded)
		}
	}
}

// noteListed notes that the records name a member. A proxy has waited for that.
func (t *table) noteListed(n gossip.NodeID) {
	if t.view.Member(n) == nil {
		return
	}
	waited := !t.members.findable(n)
	p := t.members.peerOf(n)
	if p.listed = true; waited && p.registered {
		t.tellServed(n)
	}
}

// tellServed sends the homes of all served shards to a region or proxy.
func (t *table) tellServed(n gossip.NodeID) {
	for i := range t.shards {
		if t.shards[i].served() {
			t.outbox.homes.addItem(n, protocol.ShardID(i))
		}
	}
}
func (t *table) joinMoves(from gossip.NodeID) {
	for i := range t.shards {
		if s := &t.shards[i]; s.phase == closing && !slices.Contains(s.move.closers, from) {
			s.move.closers = append(s.move.closers, from)
			t.outbox.begins.addItem(from, protocol.ShardID(i))
		}
	}
}

// dropGone frees the shards of members that have left the view. The answers that these
// members owed count as received. Shards that wait after failed starts may be placed.
func (t *table) dropGone() {
	gone := func(n gossip.NodeID) bool { return t.view.Member(n) == nil }
	var snap snapshot
	for i := range t.shards {
		id, s := protocol.ShardID(i), &t.shards[i]
		if w := s.wait; w != nil {
			w.waiters = slices.DeleteFunc(w.waiters, gone)
			if w.retryAt != 0 {
				w.retryAt, t.dirty = 0, true
			}
		}
		if s.home != 0 && gone(s.home) {
			t.traceShard(TraceFreed, id, s.home, s.token, "its home left the view")
			t.orphan(s)
		}
		if s.phase == closing {
			s.move.closers = slices.DeleteFunc(s.move.closers, gone)
			t.closed(&snap, id)
		}
		t.turnLost(&snap, id)
	}
	t.strays.dropGone()
}

// orphan frees a shard whose home has gone. If the shard was stopping there, its state may
// have reached the new home. Then the new home gets the shard and looks for the state.
func (t *table) orphan(s *shard) {
	from, target, mayMove := s.home, s.moveOf().target, s.phase == stopping || s.phase == asking
	if t.releaseHome(s); mayMove && t.view.Member(target) != nil {
		s.moveFrom(from, s.token)
		s.needWait().prefer = target
	}
}

// written handles a completed write: its homes may be sent, except for superseded records.
func (t *table) written(w Write) {
	for _, n := range slices.Concat(w.Regions, w.Proxies) {
		t.noteListed(n)
	}
	for _, r := range w.Records {
		if s := &t.shards[r.Shard]; s.phase == writing && s.token == r.Token {
			t.traceShard(TraceWritten, r.Shard, r.Home, r.Token, "")
			t.orderStart(r.Shard)
		}
	}
}

// isCurrent reports whether a record is that of the shard's present allocation.
func (t *table) isCurrent(r protocol.Record) bool {
	s := &t.shards[r.Shard]
	return s.token == r.Token && s.home == r.Home
}
