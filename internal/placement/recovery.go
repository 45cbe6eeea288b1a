package placement

import (
	"github.com/peerage-go/peerage/internal/core/protocol"
	"time"

	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/statecopy"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// recoveries are the shards of one type with replicated state that wait for their states
// before they start. Such a shard stops only once its last states are replicated. These states
// need no transfer in a planned move, since the new home also collects them from the former
// one. Other data of a shard moves as it does without replication.
type recoveries struct {
	states  *statecopy.Replicator
	waiting map[strategy.ShardID]recovery
}

// recovery is a shard that waits. states are those that came by a transfer.
type recovery struct {
	token  protocol.Token
	states map[string][]byte
}

func newRecoveries(states *statecopy.Replicator) *recoveries {
	return &recoveries{states: states, waiting: map[strategy.ShardID]recovery{}}
}

// beginShard collects the states of a shard: an event statesRecovered follows.
func (r *recoveries) beginShard(shard strategy.ShardID, token protocol.Token, states map[string][]byte) {
	r.waiting[shard] = recovery{token, states}
	r.states.Begin(shard, token)
}

// takeShard removes a shard, and reports whether it was waiting under token.
func (r *recoveries) takeShard(shard strategy.ShardID, token protocol.Token) (states map[string][]byte, ok bool) {
	w, waits := r.waiting[shard]
	if !waits || w.token != token {
		return nil, false
	}
	delete(r.waiting, shard)
	return w.states, true
}

// stopShard returns the function to call when the shard has stopped: it calls done once the
// last states are replicated.
func (r *recoveries) stopShard(shard strategy.ShardID, within time.Duration, done func(activation.Stopped)) func(activation.Stopped) {
	delete(r.waiting, shard)
	return func(st activation.Stopped) {
		r.states.Finish(st.Shard, st.Token, within, func() { done(st) })
	}
}

// abandonAll removes all shards and fails the replies that wait for their states.
func (r *recoveries) abandonAll() {
	clear(r.waiting)
	r.states.AbandonAll()
}
