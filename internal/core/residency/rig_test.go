package residency

import (
	"fmt"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/daemon"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// rig is a core with a node that a test moves by hand.
type rig struct {
	*Core
	t       *testing.T
	now     clock.Instant
	tokens  map[strategy.ShardID]protocol.Token
	lease   bool
	members daemon.Members
	term    gossip.Epoch
	pace    Pace
}

// allInShard3 is the ShardOf of most tests.
func allInShard3(string) (strategy.ShardID, bool) { return 3, true }

func newRig(t *testing.T, cfg Config) *rig {
	cfg.Shards = 5
	r := &rig{
		Core: New(cfg), t: t, now: 1, lease: true, pace: NewPace(100),
		tokens: map[strategy.ShardID]protocol.Token{}, members: daemon.Members{Epoch: 1, Nodes: []gossip.NodeID{1}},
	}
	r.Attach(&Node{
		Self: 1, Token: func(i strategy.ShardID) protocol.Token { return r.tokens[i] },
		LeaseValid: func() bool { return r.lease }, Members: func() daemon.Members { return r.members },
		Office: func() gossip.Epoch { return r.term }, Turn: r.pace.Turn, StopWithin: time.Second,
	}, r.now)
	return r
}

// newSetRig returns a rig that remembers entities, with shard 3 under the token 1 and two reads
// behind it: it needs no read later.
func newSetRig(t *testing.T, ids ...string) *rig {
	r := newRig(t, Config{ShardOf: allInShard3})
	r.host(3, 1)
	r.read(3, ids...)
	r.pass(RereadAfter)
	r.read(3, ids...)
	r.drain()
	return r
}

// host makes a shard run here under a token, or not if seq is 0.
func (r *rig) host(i strategy.ShardID, seq uint64) {
	r.tokens[i] = protocol.Token{Seq: seq}
	r.Inspect()
}

// pass lets time pass.
func (r *rig) pass(d time.Duration) { r.now = r.now.Add(d) }

// all returns all actions that are due, except requests for homes.
func (r *rig) all() (list []Action) {
	for {
		a, ok := r.Next(r.now)
		if !ok {
			return list
		}
		if a.Kind != WantHomes {
			list = append(list, a)
		}
	}
}

// one returns the next action of a kind, and drops those before it.
func (r *rig) one(kind Kind) *Action {
	r.t.Helper()
	for {
		a, ok := r.Next(r.now)
		if !ok {
			r.t.Fatalf("no action of kind %d is due", kind)
		}
		if a.Kind == kind {
			return &a
		}
	}
}

// quiet fails the test if an action is due.
func (r *rig) quiet(when string) {
	r.t.Helper()
	if list := r.all(); len(list) > 0 {
		r.t.Errorf("%s: %+v is due", when, list)
	}
}

// read finishes the read of a shard.
func (r *rig) read(i strategy.ShardID, ids ...string) {
	r.t.Helper()
	r.finishRead(r.one(Read), ids...)
}

func (r *rig) finishRead(a *Action, ids ...string) { r.Done(a, &Outcome{OK: true, IDs: ids}, r.now) }

// writeAll does a successful write of all waiting updates.
func (r *rig) writeAll() (list []Action) {
	for {
		a, ok := r.set.nextWrite()
		if !ok {
			return list
		}
		r.Done(&a, &Outcome{OK: true}, r.now)
		list = append(list, a)
	}
}

// drain starts all entities that wait for a turn, and returns them.
func (r *rig) drain() (started []string) {
	for range 100 {
		for _, a := range r.all() {
			if a.Kind != Recall {
				r.t.Fatalf("%+v is due", a)
			}
			started = append(started, a.ID)
			r.Done(&a, &Outcome{OK: true}, r.now)
		}
		if r.starts.turn == clock.Never {
			break
		}
		r.now = r.starts.turn
	}
	return started
}

// wants reports whether an entity of shard 3 must run.
func (r *rig) wants(id string) bool { return r.shards[3].ids[id]&wanted != 0 }

func someIDs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("entity-%d", i)
	}
	return ids
}
