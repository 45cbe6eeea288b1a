package coordinator

import (
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// phase is the state of a shard:
//
//	free --choose--> writing --WriteDone--> starting --ShardsHosted--> hosted
//	hosted --move--> closing --all BeginAcks--> stopping --Stopped--> free
//	closing --time out--> hosted          stopping --time out--> asking
//	asking --ShardsHosted--> hosted       asking --Stopped--> free
//	claim of a shard that is being started --census--> starting
//	any --home leaves the view, Stopped at its token or above--> free
//
// recorded and claimed exist while the census runs only: the read has found a home,
// and it is not served before that home has itself reported the shard.
type phase uint8

const (
	free phase = iota
	recorded
	claimed
	writing
	starting
	hosted
	closing
	stopping
	asking
)

var phaseNames = [...]string{"free", "recorded", "claimed", "writing", "starting", "hosted", "closing", "stopping", "asking"}

func (p phase) String() string { return phaseNames[p] }

// waits reports whether a shard in this phase waits for answers to orders.
func (p phase) waits() bool { return p == starting || p >= closing }

// moves reports whether a shard in this phase is on its way out of its home.
func (p phase) moves() bool { return p >= closing }

// shard is the coordinator's state of one shard. The zero shard was, as far as the
// records show, never allocated.
//
// A type may have many shards, and few of them move or wait at a time.
type shard struct {
	phase phase
	// known: it was allocated before, so it is placed again without a request,
	// and all regions and proxies receive its new home.
	known bool
	// moves counts the moves between which there was no time of calm. since is the
	// view's epoch at the first of them. movedAt is the time of the last move, or of
	// taking office if later. They survive coordinators in the record: moved.go.
	moves   uint8
	since   gossip.Epoch
	movedAt clock.Instant
	// home and token are those of the newest allocation.
	// Invariant: home is zero exactly if phase is free.
	home  gossip.NodeID
	token protocol.Token
	// sent is when the phase's order last left.
	sent clock.Instant
	// move is how the shard moves. Invariant: not nil while the phase moves.
	move *shardMove
	// wait is what a shard needs until it is served, nil if nothing.
	wait *shardWait
}

// shardWait is the state of a shard that is not served.
type shardWait struct {
	// from is the home that handed the shard off for the present allocation, and ended the
	// token under which it had the shard. The state of that allocation is the newest.
	// Invariant: ended is zero exactly if from is.
	from  gossip.NodeID
	ended protocol.Token
	// were are the nodes at which the shard was, or was to be, since it was last served.
	were []gossip.NodeID
	// prefer is the home chosen when the move began, to which state was sent.
	// Invariant: zero unless phase is free.
	prefer gossip.NodeID
	// failed counts the allocations in a row whose home has not started the shard. The shard is
	// not placed before retryAt, zero if it may be placed immediately.
	failed  int
	retryAt clock.Instant
	// waiters asked for the home and have not been answered.
	waiters []gossip.NodeID
}

// shardMove is a move of a shard, in phases closing, stopping, asking.
type shardMove struct {
	stamp protocol.Token
	// target is where the move is to lead.
	target gossip.NodeID
	// closers have not acknowledged Begin. Invariant: not empty exactly in closing.
	closers []gossip.NodeID
	// deadline ends phases closing and stopping.
	deadline clock.Instant
	// turned is the lowest Seq of an order to stop that counts as obeyed in
	// phase stopping: earlier orders sent the state to a home that has left. Zero
	// while the home is the first that was named.
	turned uint64
	// asked is the lowest Seq of an answer that counts in phase asking.
	asked uint64
}

// waitOf returns what the shard needs until it is served, zero values if nothing.
func (s *shard) waitOf() shardWait {
	if s.wait == nil {
		return shardWait{}
	}
	return *s.wait
}

// needWait returns the same for writing.
func (s *shard) needWait() *shardWait {
	if s.wait == nil {
		s.wait = &shardWait{}
	}
	return s.wait
}

// cameFrom notes a node at which the shard was, or was to be; zero is none.
func (s *shard) cameFrom(n gossip.NodeID) {
	if n != 0 {
		w := s.needWait()
		w.were = addOnce(w.were, n)
	}
}

// moveOf returns the move of the shard, zero values if there is none.
func (s *shard) moveOf() shardMove {
	if s.move == nil {
		return shardMove{}
	}
	return *s.move
}

// served reports whether requests for the home may be answered.
func (s *shard) served() bool { return s.phase == hosted || s.phase == claimed }

// countedAt returns where the shard counts for the strategy.
func (s *shard) countedAt() gossip.NodeID {
	if s.move != nil && s.move.target != 0 {
		return s.move.target
	}
	return s.home
}

// allocationRecord returns the record of the present allocation.
func (s *shard) allocationRecord(id protocol.ShardID) protocol.Record {
	w := s.waitOf()
	return protocol.Record{Shard: id, Home: s.home, Token: s.token, State: protocol.Allocated, From: w.from, Ended: w.ended, Moves: s.moves, Since: s.since}
}

// moveFrom notes at which home the shard ended in order, and under which token. Zero values
// stand for a shard that begins without a state.
func (s *shard) moveFrom(from gossip.NodeID, ended protocol.Token) {
	if s.wait != nil || from != 0 {
		w := s.needWait()
		w.from, w.ended = from, ended
	}
}

func (s *shard) addWaiter(n gossip.NodeID) {
	if w := s.needWait(); !slices.Contains(w.waiters, n) {
		w.waiters = append(w.waiters, n)
	}
}

func without(nodes []gossip.NodeID, n gossip.NodeID) []gossip.NodeID {
	return slices.DeleteFunc(nodes, func(m gossip.NodeID) bool { return m == n })
}
