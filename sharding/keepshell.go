package sharding

import (
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/core/standby"
)

// A shard with replicated state starts once its keeper has what was acknowledged
// before, and stops once its keeper has passed on what is acknowledged now. Entities'
// states need no transfer in a planned move: the former home is one of those that
// the new one asks. What else moves with a shard goes as ever.

// recovery is a shard that waits for its keeper.
type recovery struct {
	token  Token
	states map[string][]byte
}

// recover lets the keeper collect; recovered goes on.
func (sh *shell) recover(shard ShardID, token Token, states map[string][]byte) {
	sh.recovering[shard] = recovery{token, states}
	sh.keeper.in.Put(standby.Begin{Shard: shard, Token: token})
}

// recovered starts a shard unless it was stopped or abandoned meanwhile.
func (sh *shell) recovered(ev recovered) {
	if r, ok := sh.recovering[ev.shard]; ok && r.token == ev.token {
		delete(sh.recovering, ev.shard)
		sh.startWith(ev.shard, ev.token, r.states)
	}
}

// outrun ends a shard that has a later allocation elsewhere.
func (sh *shell) outrun(ev outrun) {
	if r, ok := sh.recovering[ev.shard]; ok && r.token == ev.token {
		delete(sh.recovering, ev.shard)
	} else if sh.path.hosted(ev.shard) != ev.token {
		return
	}
	sh.path.abandonShard(ev.shard, ev.token)
	sh.inbox.Put(region.ShardStopped{Shards: []protocol.ShardToken{{Shard: ev.shard, Token: ev.token}}})
}

// keptFirst returns what is to be done when a shard has stopped: first its last
// changes are kept.
func (sh *shell) keptFirst(e region.StopShard, done func(activation.Stopped)) func(activation.Stopped) {
	delete(sh.recovering, e.Shard)
	return func(st activation.Stopped) {
		sh.keeper.finish(st.Shard, st.Token, e.Within, func() { done(st) })
	}
}
