package residency

import (
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// env is what the machines of a core share.
type env struct {
	cfg Config
	// node is nil between incarnations.
	node   *Node
	shards []shard
	// inspect is set if the shards must be inspected before the next round.
	inspect bool
}

// isHere reports whether a shard runs here under the token of the last inspection.
func (v *env) isHere(i strategy.ShardID) bool {
	t := v.shards[i].token
	return t != noToken && v.node.Token(i) == t
}

// mark is the state of an id in the set.
type mark uint8

const (
	// wanted: the entity must run. An id without it was removed.
	wanted mark = 1 << iota
	// queued: an update waits for the store. sending: an update is in flight.
	queued
	sending
	// delayed: the entity lives here, and its update found no room. It is queued later.
	delayed
)

// shard is one shard of the type.
//
// Invariants: an id that is not wanted is queued or sending, unless a read is in flight. A delayed
// id is wanted and not queued.
type shard struct {
	// token is zero if the shard is not here.
	token protocol.Token
	// tried are the attempts since the round began.
	tried attempts
	ids   map[string]mark
	// updates are the ids that are queued, oldest first. delayed is the number of ids with that
	// mark; listed is set while the shard is in set.toQueue.
	updates []string
	delayed int
	listed  bool
	// read is set once the ids of this allocation were read. stale is set if they must be read
	// again, as at rereadAt.
	read, stale      bool
	rereadAt         clock.Instant
	reading, writing bool
	starts           startQueue
}

// attempts are those that are not repeated before the next round: a start, and a read and a
// write that failed.
type attempts struct{ start, read, write bool }

var noToken protocol.Token

// begin begins an allocation, or ends one. The ids of the former allocation are forgotten,
// except those whose update is not yet stored.
func (s *shard) begin(token protocol.Token) {
	s.token, s.tried, s.read, s.stale, s.rereadAt = token, attempts{}, false, false, clock.Never
	s.starts.entries = nil
	for id, m := range s.ids { // order-free: each is forgotten by itself
		if m&(queued|sending|delayed) == 0 && (m&wanted != 0 || !s.reading) {
			delete(s.ids, id)
		}
	}
}

// needsRead reports whether the ids of the shard must be read.
func (s *shard) needsRead(now clock.Instant) bool {
	return !s.read || s.stale || !now.Before(s.rereadAt)
}

// putMark sets the mark of an id, and forgets an id for which the set has no use.
func (s *shard) putMark(id string, m mark) {
	if m == 0 && !s.reading {
		delete(s.ids, id)
		return
	}
	s.ids[id] = m
}

// entity is one entity under its shard.
type entity struct {
	shard strategy.ShardID
	id    string
}

// start is a remembered entity that waits for its turn.
type start struct {
	entity
	// token is that of the allocation for which it was chosen.
	token protocol.Token
	// elsewhere is set if it belongs to another shard by now.
	elsewhere bool
}

// startQueue holds the starts of one shard, or those of crashed entities.
type startQueue struct {
	entries []start
	// listed: the queue is in starts.queues. moving: a RecallElsewhere of it is in flight, and
	// the queue waits.
	listed, moving bool
}
