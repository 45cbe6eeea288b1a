package region

import (
	"maps"
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// Floors is the memory of a node about a type, for the life of its incarnation.
// It has a term below which no coordinator is obeyed, and per shard a token at or below
// which the shard is never started. The zero Floors is empty and ready. It belongs to
// one Core at a time and is not safe for concurrent use.
//
// Floors replace all special cases. A HostShards that was delayed,
// duplicated, overtaken by the HandOff that ends its allocation, or sent by a
// coordinator that has been replaced, is refused by one comparison. Floors belong to
// the node and outlive a region; otherwise a region that starts again would have lost
// its own promises. They may end with the incarnation, since no shard is
// ever allocated to that NodeID again.
type Floors struct {
	term gossip.Epoch
	// token: Stopped was promised up to here.
	token map[protocol.ShardID]protocol.Token
	// running: started here and not stopped yet.
	running map[protocol.ShardID]protocol.Token
	// unconfirmed: Stopped was sent, and no coordinator has confirmed it.
	// Invariant: at or below the shard's floor.
	unconfirmed map[protocol.ShardID]protocol.Token
}

// Term returns the lowest term that is obeyed.
func (f *Floors) Term() gossip.Epoch { return f.term }

// Token returns the shard's floor.
func (f *Floors) Token(s protocol.ShardID) protocol.Token { return f.token[s] }

func (f *Floors) raise(s protocol.ShardID, t protocol.Token) {
	if f.token == nil {
		f.token = map[protocol.ShardID]protocol.Token{}
	}
	f.token[s] = f.token[s].Max(t)
}

func (f *Floors) started(s protocol.ShardID, t protocol.Token) {
	if f.running == nil {
		f.running = map[protocol.ShardID]protocol.Token{}
	}
	f.running[s] = t
}

// stopped notes that the shard has stopped, and that a coordinator must confirm it.
func (f *Floors) stopped(s protocol.ShardID, t protocol.Token) {
	delete(f.running, s)
	f.raise(s, t)
	if f.unconfirmed == nil {
		f.unconfirmed = map[protocol.ShardID]protocol.Token{}
	}
	f.unconfirmed[s] = f.token[s]
}

func (f *Floors) confirmed(s protocol.ShardID, t protocol.Token) {
	if !t.Less(f.unconfirmed[s]) {
		delete(f.unconfirmed, s)
	}
}

// inherit turns the shards that an earlier Core hosted, and that have stopped, into floors.
func (f *Floors) inherit() {
	for _, s := range slices.Sorted(maps.Keys(f.running)) {
		f.stopped(s, f.running[s])
	}
}

// owed returns the stops that no coordinator has confirmed, by shard.
func (f *Floors) owed() []protocol.ShardToken {
	out := make([]protocol.ShardToken, 0, len(f.unconfirmed))
	for _, s := range slices.Sorted(maps.Keys(f.unconfirmed)) {
		out = append(out, protocol.ShardToken{Shard: s, Token: f.unconfirmed[s]})
	}
	return out
}
