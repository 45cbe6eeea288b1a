package residency

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/daemon"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// TestWhichActionsBlock checks which actions wait for other nodes, and for how long: those about the plan are
// repeated in the next round.
func TestWhichActionsBlock(t *testing.T) {
	for kind, want := range map[Kind]time.Duration{
		WantHomes: 0, Start: 0, Recall: 0, StopAll: 0, RecallElsewhere: storeTimeout, Read: storeTimeout, Write: storeTimeout,
		ReadPlan: Every, WritePlan: Every, AckPlan: Every,
	} {
		a := Action{Kind: kind}
		if a.Blocks() != (want != 0) || want != 0 && a.Timeout() != want {
			t.Errorf("kind %d: blocks %v, for %v, want %v", kind, a.Blocks(), a.Timeout(), want)
		}
	}
}

// TestNothingIsDueWithoutAnIncarnation checks that a core has nothing to do before this node's first incarnation begins,
// and after one has ended.
func TestNothingIsDueWithoutAnIncarnation(t *testing.T) {
	cfg := Config{Shards: 1, AlwaysOn: func(strategy.ShardID) string { return "a" }}
	if a, ok := New(cfg).Next(1); ok {
		t.Errorf("%+v is due before the first incarnation", a)
	}
	r := newRig(t, cfg)
	r.host(0, 1)
	r.Detach()
	r.quiet("after the end of the incarnation")
}

// TestOneWriteIsInFlight checks that the updates of several shards are written one shard after another.
func TestOneWriteIsInFlight(t *testing.T) {
	r := newRig(t, Config{ShardOf: allInShard3})
	r.quiet("without a shard")
	r.NoteLife(1, "a", true)
	r.NoteLife(2, "b", true)
	for _, id := range []string{"a", "b"} {
		write := r.one(Write)
		if !slices.Equal(write.Add, []string{id}) {
			t.Errorf("writes %+v, want %s", write, id)
		}
		r.quiet("while a write is in flight")
		r.Done(write, &Outcome{OK: true}, r.now)
	}
	r.quiet("after all was written")
}

// TestAFailedWriteWaitsForTheNextRound checks that a write which has failed is repeated in the next round, with all ids that
// still wait, and that other shards are written meanwhile.
func TestAFailedWriteWaitsForTheNextRound(t *testing.T) {
	r := newRig(t, Config{ShardOf: allInShard3})
	r.quiet("without a shard")
	r.NoteLife(1, "a", true)
	r.Done(r.one(Write), &Outcome{}, r.now)
	r.NoteLife(1, "b", true)
	r.quiet("after a failure, in the same round")
	r.NoteLife(2, "c", true)
	if write := r.one(Write); write.Shard != 2 {
		t.Errorf("writes %+v, want the update of another shard", write)
	} else {
		r.Done(write, &Outcome{OK: true}, r.now)
	}
	r.pass(Every)
	if write := r.one(Write); write.Shard != 1 || !slices.Equal(write.Add, []string{"a", "b"}) {
		t.Errorf("writes %+v in the next round, want a and b", write)
	}
}

// TestRemovalsThatAreLeftToTheHomeDelayNoUpdate checks that an update behind many removals is written immediately, though the
// removals are none of this node's.
func TestRemovalsThatAreLeftToTheHomeDelayNoUpdate(t *testing.T) {
	r := newRig(t, Config{ShardOf: allInShard3})
	r.host(3, 1)
	r.read(3, someIDs(batchMax)...)
	for _, id := range someIDs(batchMax) {
		r.NoteLife(3, id, false)
	}
	r.NoteLife(3, "a", true)
	r.tokens[3] = noToken
	if write := r.one(Write); !slices.Equal(write.Add, []string{"a"}) || len(write.Remove) != 0 {
		t.Errorf("writes %+v, want a", write)
	}
}

// TestIDsOfAFormerAllocationAreForgottenDuringARead checks what an allocation that begins while a read is in flight keeps: the
// ids with an update that is not stored, and those that ended since the read began.
func TestIDsOfAFormerAllocationAreForgottenDuringARead(t *testing.T) {
	for reading, want := range map[bool][]string{false: {"queued", "sending"}, true: {"ended", "queued", "sending"}} {
		s := shard{reading: reading, ids: map[string]mark{"wanted": wanted, "queued": wanted | queued, "sending": sending}}
		if reading {
			s.ids["ended"] = 0
		}
		s.begin(noToken)
		var kept []string
		for id := range s.ids { // order-free: sorted below
			kept = append(kept, id)
		}
		if slices.Sort(kept); !slices.Equal(kept, want) {
			t.Errorf("a read is in flight: %v: keeps %q, want %q", reading, kept, want)
		}
	}
}

// TestCrashedEntitiesStartInOrder checks that entities which have crashed start again in the order of their shards and ids.
func TestCrashedEntitiesStartInOrder(t *testing.T) {
	r := newRig(t, Config{ShardOf: allInShard3})
	var want []entity
	for _, i := range []strategy.ShardID{0, 1, 2} {
		r.host(i, 1)
		for n := range 5 {
			want = append(want, entity{i, fmt.Sprint("e", n)})
		}
	}
	r.beginRound(r.now)
	for _, e := range want {
		r.shards[e.shard].ids[e.id] = wanted
		r.NoteCrash(e.shard, e.id)
	}
	r.starts.retryCrashed()
	var got []entity
	for _, e := range r.starts.again.entries {
		got = append(got, e.entity)
	}
	if !slices.Equal(got, want) {
		t.Errorf("starts %v, want %v", got, want)
	}
	r.NoteCrash(0, "e0")
	if r.starts.retryCrashed(); len(r.starts.again.entries) != len(want) {
		t.Error("an entity is queued while earlier ones wait")
	}
}

// TestAQueueTakesOneTurn checks that a queue is listed once, however often it gets new entries, and not while an entity of it
// is started elsewhere.
func TestAQueueTakesOneTurn(t *testing.T) {
	for name, c := range map[string]struct {
		q    startQueue
		want int
	}{
		"two entries":      {startQueue{entries: make([]start, 2)}, 1},
		"no entry":         {startQueue{}, 0},
		"listed already":   {startQueue{entries: make([]start, 1), listed: true}, 0},
		"one moves":        {startQueue{entries: make([]start, 1), moving: true}, 0},
		"listed and moves": {startQueue{entries: make([]start, 1), listed: true, moving: true}, 0},
	} {
		var ts starts
		ts.listQueue(&c.q)
		ts.listQueue(&c.q)
		if len(ts.queues) != c.want {
			t.Errorf("%s: listed %d times, want %d", name, len(ts.queues), c.want)
		}
	}
}

// TestWhenNextMustBeCalled checks that the deadline is the next round, or an earlier turn or step of the plan.
func TestWhenNextMustBeCalled(t *testing.T) {
	for _, c := range []struct{ round, turn, again, want clock.Instant }{
		{9, clock.Never, clock.Never, 9}, {9, 5, clock.Never, 5}, {9, clock.Never, 6, 6}, {9, 5, 6, 5}, {4, 5, 6, 4},
	} {
		r := newRig(t, Config{})
		r.roundAt, r.starts.turn, r.plan.again = c.round, c.turn, c.again
		if got := r.Deadline(); got != c.want {
			t.Errorf("round %d, turn %d, plan %d: %d, want %d", c.round, c.turn, c.again, got, c.want)
		}
	}
}

// TestANewPlanTriesItsWorkersAgain checks that the workers of a newer plan start without waiting for the next round.
func TestANewPlanTriesItsWorkersAgain(t *testing.T) {
	r := newPlanRig(t)
	r.ready(planOf(2, 3, true))
	for seq := range uint64(2) {
		r.NotePlan(&daemon.State{Plan: planOf(2+seq, 3, true)})
		if all := r.all(); len(all) != 3 {
			t.Errorf("plan %d: %+v, want the starts of three workers", 2+seq, all)
		}
		r.quiet("under the same plan")
	}
}

// TestAWishThatIsMetNeedsNoPlan checks that a coordinator reads no plan while the present one has as many workers as are wished,
// and that a step which has become due during its read follows the read.
func TestAWishThatIsMetNeedsNoPlan(t *testing.T) {
	r := newPlanRig(t)
	r.ready(planOf(2, 3, true))
	r.all()
	r.term = 4
	r.NotePlan(&daemon.State{Plan: planOf(2, 3, true), Wish: 3})
	r.quiet("with a wish that is met")
	r.NotePlan(&daemon.State{Plan: planOf(2, 3, true), Wish: 5})
	read := r.one(ReadPlan)
	r.NotePlan(&daemon.State{Plan: planOf(3, 4, false), Wish: 5})
	r.quiet("while the plan is read")
	r.Done(read, &Outcome{OK: true, State: daemon.State{Plan: planOf(2, 3, true), Wish: 3}}, r.now)
	if stop := r.one(StopAll); stop.Plan != planOf(3, 4, false) {
		t.Errorf("%+v, want a stop for the newest plan", stop)
	}
}

// TestEndedReadsMakeRoom checks that the bound of reads counts those in flight.
func TestEndedReadsMakeRoom(t *testing.T) {
	r := newSetRig(t)
	for range readsMax + 1 {
		r.shards[3].stale = true
		r.pass(Every)
		r.read(3)
	}
}

// TestLostIDsAreWrittenInOrder checks that the ids which the store has lost are written again in their order.
func TestLostIDsAreWrittenInOrder(t *testing.T) {
	ids := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	r := newSetRig(t, ids...)
	r.shards[3].stale = true
	r.pass(Every)
	r.read(3)
	if write := r.one(Write); !slices.Equal(write.Add, ids) {
		t.Errorf("writes %q, want %q", write.Add, ids)
	}
}

// TestNoEntityStartsInAShardThatHasLeft checks that a remembered entity does not start once its shard is not here, neither before
// the next inspection, nor if it has crashed and its update still waits.
func TestNoEntityStartsInAShardThatHasLeft(t *testing.T) {
	for name, begin := range map[string]func(r *rig){
		"it waits for its turn": func(r *rig) {
			r.host(3, 1)
			r.read(3, "a", "b")
			r.one(Recall)
		},
		"it has crashed": func(r *rig) {
			r.host(3, 1)
			r.read(3)
			r.NoteLife(3, "a", true)
			r.set.writes = writesMax // its update is not written
			r.host(3, 0)
			r.all()
			r.NoteCrash(3, "a")
			r.pass(Every)
		},
	} {
		r := newRig(t, Config{ShardOf: allInShard3})
		begin(r)
		r.tokens[3] = noToken
		r.pass(20 * time.Millisecond)
		for _, a := range r.all() {
			if a.Kind == Recall {
				t.Errorf("%s: %+v, and the shard has left", name, a)
			}
		}
	}
}

// TestAnUnusedTurnIsUsedByTheNext checks that a start which finds its entity running lets the next one start immediately, and one
// that starts it does not.
func TestAnUnusedTurnIsUsedByTheNext(t *testing.T) {
	for _, started := range []bool{false, true} {
		r := newRig(t, Config{ShardOf: allInShard3})
		r.host(3, 1)
		r.read(3, "a", "b")
		r.Done(r.one(Recall), &Outcome{OK: started}, r.now)
		if next := len(r.all()); next != map[bool]int{false: 1, true: 0}[started] {
			t.Errorf("the first was started: %v, and %d follow immediately", started, next)
		}
	}
}

// TestAnIncarnationBeginsAnew checks that a new incarnation of this node starts the remembered entities of its shards, and announces
// itself to the daemon, though nothing has changed since the former one.
func TestAnIncarnationBeginsAnew(t *testing.T) {
	r := newSetRig(t, "a")
	node := *r.node
	r.quiet("after two reads")
	r.Detach()
	r.Attach(&node, r.now)
	r.read(3, "a")
	if start := r.drain(); !slices.Equal(start, []string{"a"}) {
		t.Errorf("starts %q, want the entity that ran before", start)
	}
	r = newPlanRig(t)
	r.ready(planOf(2, 3, true))
	r.all()
	node = *r.node
	r.Detach()
	if _, mayStart := r.Plan(); mayStart {
		t.Error("workers may start between two incarnations")
	}
	r.Attach(&node, r.now)
	r.one(AckPlan)
}

// TestATurnThatNoneNeedsIsNotAwaited checks that the core waits for the next round once no entity waits for its turn.
func TestATurnThatNoneNeedsIsNotAwaited(t *testing.T) {
	r := newRig(t, Config{ShardOf: allInShard3})
	r.host(3, 1)
	r.read(3, "a", "b")
	r.Done(r.one(Recall), &Outcome{OK: true}, r.now)
	r.quiet("before the next turn")
	if r.Deadline() == r.roundAt {
		t.Fatal("no turn is awaited")
	}
	r.NoteLife(3, "b", false)
	if r.all(); r.Deadline() != r.roundAt {
		t.Errorf("a turn is awaited %v before the round", r.roundAt.Sub(r.Deadline()))
	}
}
