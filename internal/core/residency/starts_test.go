package residency

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// The shards of a type take turns, and a crashed entity does not wait for all of them.
func TestShardsAndCrashedEntitiesTakeTurns(t *testing.T) {
	r := newRig(t, Config{ShardOf: func(id string) (strategy.ShardID, bool) { return strategy.ShardID(id[0] - '0'), true }})
	r.host(0, 1)
	r.host(1, 1)
	for range 2 {
		switch read := r.one(Read); read.Shard {
		case 0:
			r.finishRead(read, "0a", "0b", "0c", "0d")
		default:
			r.finishRead(read, "1a", "1b", "1c")
		}
	}
	r.NoteCrash(1, "1c")
	r.pass(Every)
	if got := r.drain(); !slices.Equal(got, []string{"0a", "1a", "1c", "0b", "1b", "0c", "1c", "0d"}) {
		t.Errorf("starts %q", got)
	}
}

// A start that finds its entity running returns its turn; one that starts it uses it.
func TestRunningEntitiesTakeNoTurn(t *testing.T) {
	r := newRig(t, Config{ShardOf: allInShard3})
	r.host(3, 1)
	r.read(3, "a", "b", "c", "d")
	begin := r.now
	for _, started := range []bool{true, false, false, true} {
		if at := r.Deadline(); len(r.all()) == 0 && at > r.now {
			r.now = r.Deadline()
		}
		r.Done(&Action{Kind: Recall, Shard: 3}, &Outcome{OK: started}, r.now)
	}
	if took := r.now.Sub(begin); took > 20*time.Millisecond {
		t.Errorf("two starts at 100 a second took %v", took)
	}
}

// TestStartsFollowWhatTheNodeBears: so many entities are being started, and the next one starts when
// one of them has begun, has failed, runs already, takes too long, or has lost its shard.
func TestStartsFollowWhatTheNodeBears(t *testing.T) {
	const more = 10
	for name, c := range map[string]struct {
		end  func(*rig, *Action)
		next int
	}{
		"none ends":           {func(*rig, *Action) {}, 0},
		"one begins":          {func(r *rig, a *Action) { r.NoteLife(3, a.ID, true) }, 1},
		"one fails":           {func(r *rig, a *Action) { r.NoteCrash(3, a.ID) }, 1},
		"one runs already":    {func(r *rig, a *Action) { r.Done(a, &Outcome{}, r.now) }, 1},
		"another one lives":   {func(r *rig, _ *Action) { r.NoteLife(3, "other", true) }, 0},
		"all are nearly late": {func(r *rig, _ *Action) { r.pass(StartLate - 1) }, 0},
		"all are late":        {func(r *rig, _ *Action) { r.pass(StartLate) }, more},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{ShardOf: allInShard3})
			r.pace = NewPace(0)
			r.host(3, 1)
			r.read(3, someIDs(StartsMax+more)...)
			first := r.recalls()
			if len(first) != StartsMax {
				t.Fatalf("%d are being started, want %d", len(first), StartsMax)
			}
			for i := range first[1:] {
				r.Done(&first[1+i], &Outcome{OK: true}, r.now)
			}
			c.end(r, &first[0])
			if next := r.recalls(); len(next) != c.next {
				t.Errorf("then %d start, want %d", len(next), c.next)
			}
		})
	}
}

// Starts in a shard that has left do not count.
func TestStartsOfAShardThatLeft(t *testing.T) {
	r := newRig(t, Config{ShardOf: func(id string) (strategy.ShardID, bool) { return strategy.ShardID(len(id)), true }})
	r.pace = NewPace(0)
	r.host(2, 1)
	var ids []string
	for i := range StartsMax {
		ids = append(ids, string([]byte{byte('a' + i/26), byte('a' + i%26)}))
	}
	r.read(2, ids...)
	if n := len(r.recalls()); n != StartsMax {
		t.Fatalf("%d are being started", n)
	}
	r.host(1, 1)
	r.read(1, "a")
	if n := len(r.recalls()); n != 0 {
		t.Fatalf("%d more start", n)
	}
	r.host(2, 0)
	if next := r.recalls(); len(next) != 1 || next[0].ID != "a" {
		t.Errorf("%+v start", next)
	}
}

// recalls returns the starts that are due, and drops all other actions.
func (r *rig) recalls() []Action {
	return slices.DeleteFunc(r.all(), func(a Action) bool { return a.Kind != Recall })
}

// Entities that belong to another shard come last, one after another. Once they live there, they
// are forgotten here.
func TestMovedEntitiesAreForgotten(t *testing.T) {
	r := newRig(t, Config{ShardOf: func(id string) (strategy.ShardID, bool) {
		return map[bool]strategy.ShardID{true: 2, false: 0}[id[0] == 'm'], id != "no shard"
	}})
	r.host(0, 1)
	r.read(0, "a", "b", "moved", "mute", "no shard")
	var got []string
	for range 100 {
		for _, a := range r.all() {
			if a.ID != "" {
				got = append(got, a.ID)
			}
			if a.Kind == RecallElsewhere {
				r.quiet("while an entity moves")
			}
			r.Done(&a, &Outcome{OK: a.ID != "mute"}, r.now)
		}
		r.now = r.now.Add(time.Millisecond)
	}
	if !slices.Equal(got, []string{"a", "b", "moved", "mute"}) {
		t.Errorf("starts %q", got)
	}
	ids := r.shards[0].ids
	if _, in := ids["moved"]; in || ids["mute"]&wanted != 0 || ids["a"]&wanted == 0 {
		t.Errorf("the set has %v", ids)
	}
	if r.shards[0].rereadAt == clock.Never {
		t.Error("the entity that could not be started is not read again")
	}
}

// An entity that passivates itself, or whose shard leaves, while it waits for its turn is not
// started.
func TestEntitiesThatEndBeforeTheirTurnDoNotStart(t *testing.T) {
	r := newRig(t, Config{ShardOf: allInShard3})
	r.host(3, 1)
	r.read(3, "a", "b", "c")
	r.NoteLife(3, "a", false)
	r.writeAll()
	if a := r.one(Recall); a.ID != "b" {
		t.Errorf("starts %q", a.ID)
	}
	r.tokens[3] = noToken
	r.now = r.now.Add(time.Second)
	r.quiet("after the shard has left")
}

// An entity that must run as long as its shard is tried once a round, and again under another
// token.
func TestStartsAreTriedOnceARound(t *testing.T) {
	r := newRig(t, Config{AlwaysOn: func(i strategy.ShardID) string { return map[strategy.ShardID]string{1: "a", 2: "a"}[i] }})
	if a, ok := r.Next(r.now); !ok || a.Kind != WantHomes || !slices.Equal(a.Shards, []strategy.ShardID{1, 2}) {
		t.Errorf("%+v, want the homes of shards 1 and 2", a)
	}
	for _, seq := range []uint64{1, 2} {
		r.host(1, seq)
		r.host(3, seq)
		if all := r.all(); len(all) != 1 || all[0].Kind != Start || all[0].Shard != 1 || all[0].ID != "a" {
			t.Errorf("token %d: %+v, want the start of a in shard 1", seq, all)
		}
		r.Inspect()
		r.quiet("in the same round")
	}
	r.pass(Every)
	r.one(Start)
}

// Turns come evenly, without bursts after a rest.
func TestTurnsComeEvenly(t *testing.T) {
	p := NewPace(100)
	at := clock.Instant(0).Add(time.Hour)
	for i := range 5 {
		if got := p.Turn(at).Sub(at); got != time.Duration(i)*10*time.Millisecond {
			t.Errorf("turn %d is after %v", i, got)
		}
	}
}
