package activation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/reliable"
	"github.com/peerage-go/peerage/internal/failure"
)

// shelf is a Keeper whose outcomes a test decides.
type shelf struct {
	mu     sync.Mutex
	states map[string]string
	until  []time.Time
	done   []func(error)
	refuse func() error // nil: stored
}

func (k *shelf) Load(_ ShardID, _ Token, id string) ([]byte, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	state, ok := k.states[id]
	return []byte(state), ok
}

func (k *shelf) Keep(_ ShardID, _ Token, id string, state []byte, until time.Time, done func(error)) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refuse != nil {
		if err := k.refuse(); err != nil {
			return err
		}
	}
	if k.states == nil {
		k.states = map[string]string{}
	}
	k.states[id] = string(state)
	k.until = append(k.until, until)
	if done != nil {
		k.done = append(k.done, done)
	}
	return nil
}

// confirmOne passes an outcome to the oldest state that waits for one.
func (k *shelf) confirmOne(t *testing.T, err error) {
	t.Helper()
	synctest.Wait()
	k.mu.Lock()
	if len(k.done) == 0 {
		t.Fatal("no state waits to be confirmed")
	}
	done := k.done[0]
	k.done = k.done[1:]
	k.mu.Unlock()
	done(err)
}

// outcomes collects the outcomes of reliable messages.
type outcomes struct {
	mu  sync.Mutex
	all []Outcome
}

func (o *outcomes) confirm(_ gossip.NodeID, _ ShardID, _ *ReliableMark, outcome Outcome, _ bool, _ error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, outcome)
}

func (o *outcomes) expect(t *testing.T, want ...Outcome) {
	t.Helper()
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Equal(o.all, want) {
		t.Errorf("outcomes %v, want %v", o.all, want)
	}
}

// reliably returns a message of a reliable producer.
func reliably(req int, seq uint64) Message[int] {
	m := Message[int]{Req: req, Reply: ReplyTo{Node: 7}}
	m.SetReliable(&ReliableMark{Stamp: reliable.Stamp{Producer: 1, Seq: seq, Prev: seq - 1, Floor: 1}})
	return m
}

// kept is a rig of entities whose states a shelf keeps. The state is the sum of the requests. -1
// panics, -2 waits for the gate, -3 passivates, -8 is stashed, once, -9 unstashes.
func kept(t *testing.T, change func(*Config[*Context, int, int])) (*rig, *shelf, *outcomes) {
	k, o, aside := &shelf{}, &outcomes{}, map[string]bool{}
	r := frails(t, func(f *frail) {
		sum := 0
		f.handle = func(ctx *Context, req int) (int, error) {
			switch {
			case req == -1:
				panic("minus one")
			case req == -2:
				<-f.r.gate
			case req == -3:
				ctx.Passivate()
			case req == -8 && !aside[f.id]:
				aside[f.id] = true
				return 0, ctx.Stash()
			case req == -9:
				ctx.Unstash()
			}
			sum += max(req, 0)
			return sum, nil
		}
		f.snap = func(*Context) ([]byte, error) {
			if sum == 13 {
				return nil, errors.New("no snapshot of 13")
			}
			return []byte(strings.Repeat("x", sum)), nil
		}
		f.back = func(_ *Context, state []byte) error { sum = len(state); return nil }
	}, func(c *Config[*Context, int, int]) {
		c.Keeper, c.Confirm = k, o.confirm
		if change != nil {
			change(c)
		}
	})
	return r, k, o
}

// expectUnanswered fails the test if an ask was answered.
func (r *rig) expectUnanswered(t *testing.T, calls ...uint64) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, call := range calls {
		if err, ok := r.replies[call]; ok {
			t.Errorf("ask %d was answered with %v", call, err)
		}
	}
}

// TestAnAnswerWaitsForItsState checks that an ask is answered once its state is kept, with the
// outcome of that, and that the next instance begins with the kept state.
func TestAnAnswerWaitsForItsState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, k, _ := kept(t, nil)
		s := r.start(t, 0)
		expires := Message[int]{Req: 2, Reply: ReplyTo{Node: 7, Call: 2}, Expires: time.Minute}
		deliver(t, s, "a", ask(1, 1), expires, Message[int]{Req: 3}, ask(0, 4))
		r.expectUnanswered(t, 1, 2, 4)
		if k.states["a"] != "xxxxxx" || len(k.until) != 4 || !k.until[0].IsZero() || k.until[1].IsZero() || len(k.done) != 3 {
			t.Errorf("kept %q, until %v, %d to confirm", k.states["a"], k.until, len(k.done))
		}
		k.confirmOne(t, nil)
		k.confirmOne(t, failure.NotReady)
		r.expectReply(t, 1, nil)
		r.expectReply(t, 2, failure.NotReady)
		r.expectUnanswered(t, 4)
		if r.values[1] != 1 || r.values[2] != 0 {
			t.Errorf("answers %d and %d, want 1, and none with an error", r.values[1], r.values[2])
		}
		deliver(t, s, "a", ask(-3, 5), ask(1, 6))
		for range 3 {
			k.confirmOne(t, nil)
		}
		r.expectReply(t, 6, nil)
		if r.values[6] != 7 {
			t.Errorf("the next instance began with %d, want the kept state 6", r.values[6]-1)
		}
	})
}

// TestAStateThatIsNotKeptIsUndone checks that a message whose state cannot be kept fails, and that
// the next message meets an instance with the last kept state, before all that waited.
func TestAStateThatIsNotKeptIsUndone(t *testing.T) {
	for name, tell := range map[string]bool{"ask": false, "tell": true} {
		synctest.Test(t, func(t *testing.T) {
			r, k, _ := kept(t, nil)
			s := r.start(t, 0)
			deliver(t, s, "a", ask(1, 1), ask(-8, 2))
			synctest.Wait()
			k.refuse = func() error { k.refuse = nil; return errors.New("too large") }
			undone := ask(5, 3)
			if tell {
				undone.Reply.Call = 0
			}
			deliver(t, s, "a", undone, ask(2, 4))
			synctest.Wait()
			for range 3 {
				k.confirmOne(t, nil)
			}
			if !tell {
				r.expectReply(t, 3, failure.State)
			} else if n := r.counters.HandlerErrors.Load(); n != 1 {
				t.Errorf("%s: %d tells have failed, want 1", name, n)
			}
			r.expectReply(t, 4, nil)
			r.expectLog(t, "a:1", "a:-8", "a:5", "a:-8", "a:2")
			if r.values[4] != 3 || r.values[3] != 0 || r.counters.StatesLost.Load() != 1 {
				t.Errorf("%s: answers %d and %d, want 3 and 0; %d states are lost", name, r.values[4], r.values[3], r.counters.StatesLost.Load())
			}
		})
	}
}

// TestSnapshotsOfAKeeperFail checks that an instance without a snapshot is undone, and one that
// panics too.
func TestSnapshotsOfAKeeperFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, k, _ := kept(t, nil)
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1), ask(12, 2), ask(1, 3))
		k.confirmOne(t, nil)
		k.confirmOne(t, nil)
		r.expectReply(t, 2, failure.State)
		r.expectReply(t, 3, nil)
		if r.values[3] != 2 {
			t.Errorf("the answer is %d, want 2: that of 13 was undone", r.values[3])
		}
		deliver(t, s, "a", ask(-1, 4))
		r.expectReply(t, 4, failure.Panicked)
		if len(k.done) != 0 {
			t.Error("a state is kept after a panic, which left no instance")
		}
	})
}

// TestAReliableMessageWithoutASnapshotFails checks that a reliable message whose state cannot be had is
// confirmed as handled with an error, that nothing is kept for it, and that the next one meets the state of
// before.
func TestAReliableMessageWithoutASnapshotFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, k, o := kept(t, nil)
		s := r.start(t, 0)
		deliver(t, s, "a", reliably(13, 1))
		o.expect(t, ReliableHandled)
		if len(k.states) != 0 || len(k.done) != 0 {
			t.Fatalf("keeps %q", k.states)
		}
		deliver(t, s, "a", ask(2, 5))
		k.confirmOne(t, nil)
		r.expectReply(t, 5, nil)
		if r.values[5] != 2 || k.states["a"] != "xx" {
			t.Errorf("the answer is %d, and %q is kept", r.values[5], k.states["a"])
		}
	})
}

// TestAReliableMessageWaitsForItsState checks that a reliable message is confirmed once its state is
// kept, that keeping is repeated until then, and that its instance handles nothing meanwhile.
func TestAReliableMessageWaitsForItsState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, k, o := kept(t, nil)
		s := r.start(t, 0)
		deliver(t, s, "a", reliably(1, 1), ask(0, 1))
		k.confirmOne(t, errors.New("not yet"))
		o.expect(t)
		r.expectUnanswered(t, 1)
		k.confirmOne(t, nil)
		o.expect(t, ReliableHandled)
		k.confirmOne(t, nil)
		r.expectReply(t, 1, nil)
		k.refuse = func() error { k.refuse = nil; return errors.New("too large") }
		deliver(t, s, "a", reliably(5, 2))
		o.expect(t, ReliableHandled, ReliableHandled)
		deliver(t, s, "a", reliably(2, 3))
		k.confirmOne(t, failure.Abandoned)
		o.expect(t, ReliableHandled, ReliableHandled, ReliableRefused)
		if want := strings.Repeat("x", 3); k.states["a"] != want { // one for each handled message
			t.Errorf("kept %q, want %q", k.states["a"], want)
		}
	})
}

// TestAStashedReliableMessageIsConfirmedLater checks that a reliable message that is stashed is
// confirmed after its handler ran, with a Keeper and without, and that its shard then confirms
// copies.
func TestAStashedReliableMessageIsConfirmedLater(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r, k, o := kept(t, func(c *Config[*Context, int, int]) {
				if !keeps {
					c.Keeper = nil
				}
			})
			s := r.start(t, 0)
			deliver(t, s, "a", reliably(-8, 1))
			o.expect(t)
			deliver(t, s, "a", reliably(-8, 1))
			o.expect(t) // the copy waits
			deliver(t, s, "a", Message[int]{Req: -9})
			if keeps {
				k.confirmOne(t, nil)
			}
			o.expect(t, ReliableHandled)
			deliver(t, s, "a", reliably(-8, 1), reliably(1, 3))
			o.expect(t, ReliableHandled, ReliableRepeated, ReliableGap)
			if n := r.counters.Repeated.Load(); n != 2 {
				t.Errorf("%d copies are counted, want 2", n)
			}
		})
	}
}

// TestReliableMessagesOfAnEndedShardAreRefused checks that no copy is confirmed as handled once its
// shard has ended: neither one that waits, nor one whose handler still runs.
func TestReliableMessagesOfAnEndedShardAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, o := kept(t, func(c *Config[*Context, int, int]) { c.Keeper = nil })
		s := r.start(t, 0)
		deliver(t, s, "a", reliably(-2, 1))
		synctest.Wait()
		deliver(t, s, "a", reliably(1, 2), Message[int]{Req: 1})
		r.Abandon()
		o.expect(t, ReliableRefused)
		close(r.gate)
		o.expect(t, ReliableRefused, ReliableRefused)
		if n := r.counters.AbandonedTells.Load(); n != 1 {
			t.Errorf("%d tells are counted as abandoned, want 1", n)
		}
	})
}

// TestAnEndedShardAnswersNothing checks that an ask whose handler runs while its shard is abandoned
// fails: its state was not kept.
func TestAnEndedShardAnswersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, k, _ := kept(t, nil)
		s := r.start(t, 0)
		deliver(t, s, "a", ask(-2, 1))
		synctest.Wait()
		deliver(t, s, "a", ask(1, 2))
		r.AbandonShard(0)
		close(r.gate)
		r.expectReply(t, 1, failure.Abandoned)
		r.expectReply(t, 2, failure.Abandoned)
		if len(k.states) != 0 {
			t.Errorf("kept %q", k.states)
		}
	})
}

// TestAKeeperNeedsSnapshots checks that an entity without Snapshot does not begin if its type keeps
// states.
func TestAKeeperNeedsSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config[*Context, int, int]) { c.Keeper = &shelf{} })
		deliver(t, r.start(t, 0), "a", ask(1, 1))
		r.expectReply(t, 1, failure.State)
		r.expectLog(t)
	})
}

// TestStatesWithAKeeperDoNotTravel checks that the end of a shard calls no Snapshot if copies are
// kept anyway, and that the stop is not slower for it.
func TestStatesWithAKeeperDoNotTravel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, k, _ := kept(t, nil)
		deliver(t, r.start(t, 0), "a", ask(1, 1))
		k.confirmOne(t, nil)
		if st := r.stopShard(t, true); len(st.States) != 0 || st.Forced || r.counters.StatesLost.Load() != 0 {
			t.Errorf("%+v, %d lost", st, r.counters.StatesLost.Load())
		}
	})
}

// TestAMemoryThatDoesNotDecodeIsCounted checks that a shard begins although the memory of its
// producers does not decode, and that the loss is counted; the memory is no entity's state.
func TestAMemoryThatDoesNotDecodeIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		states := map[string][]byte{memoryKey: {0xff}, "a": {1}}
		if n := Travelling(states); n != 1 {
			t.Errorf("%d states of entities travel, want 1", n)
		}
		if _, err := r.StartShard(1, Token{Term: 1, Seq: 1}, states); err != nil || r.counters.StatesLost.Load() != 1 {
			t.Errorf("%v, %d lost", err, r.counters.StatesLost.Load())
		}
		if n := Travelling(states); n != 1 || len(states) != 1 {
			t.Errorf("%d states of entities are left in %v", n, states)
		}
	})
}

// TestOnlyUserCodeKeepsAnInstance checks which entities must be called at their end.
func TestOnlyUserCodeKeepsAnInstance(t *testing.T) {
	snapshotter := &luggage{}
	for _, c := range []struct {
		ent     any
		travels bool
		want    bool
	}{{&frail{}, false, true}, {snapshotter, true, true}, {snapshotter, false, false}, {nothing{}, true, false}} {
		if got := needsEnd[*Context](c.ent, c.travels); got != c.want {
			t.Errorf("%T, travels %v: needs its end: %v", c.ent, c.travels, got)
		}
	}
}

// parkingLot is a Ledger with a number of places.
type parkingLot struct{ places, parked, bytes int }

func (p *parkingLot) Park(_ string, _ flow.Class, bytes int) (pooled, may bool) {
	if p.places == 0 {
		return false, false
	}
	p.places--
	p.parked, p.bytes = p.parked+1, p.bytes+bytes
	return true, true
}

func (p *parkingLot) Unpark(id string, _ flow.Class, bytes int, pooled bool) {
	if id != "a" || !pooled {
		panic(fmt.Sprintf("%s is unparked, pooled %v", id, pooled))
	}
	p.places++
	p.parked, p.bytes = p.parked-1, p.bytes-bytes
}

// TestMessagesOfOtherNodesAreParked checks that a message without room is parked as far as its
// ledger has places, enters the mailbox in its turn, and counts as delivered when the shard stops.
func TestMessagesOfOtherNodesAreParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := gated(t, 2)
		s := r.start(t, 0)
		r.fill(t, s, 2)
		lot := &parkingLot{places: 2}
		bring := func(req int, ledger Ledger) error {
			return s.DeliverTo(nil, []byte("a"), PlaceOf(Hash([]byte("a"))), &Message[int]{Req: req}, ledger, 10)
		}
		if err := bring(8, nil); err != failure.MailboxFull {
			t.Errorf("without a ledger: %v", err)
		}
		in := s.entities.Find("a")
		if in.hasFlag(flagWaited) {
			t.Error("a refused message leaves a mark that messages wait")
		}
		for req := range 2 {
			if err := bring(req+1, lot); err != nil {
				t.Error(err)
			}
		}
		if err := bring(9, lot); err != failure.MailboxFull || lot.parked != 2 || lot.bytes != 20 || r.counters.Parked.Load() != 2 {
			t.Errorf("%v, %+v, %d parked", err, lot, r.counters.Parked.Load())
		}
		if !in.hasFlag(flagWaited) {
			t.Error("messages wait, and the mark is gone")
		}
		r.gate <- struct{}{}
		synctest.Wait()
		if lot.parked != 1 || r.counters.Parked.Load() != 1 {
			t.Errorf("%+v after one message, %d parked", lot, r.counters.Parked.Load())
		}
		r.StopShard(0, s.Token(), time.Minute, false, func(Stopped) {})
		if lot.parked != 0 || r.counters.Parked.Load() != 0 {
			t.Errorf("%+v after the stop, %d parked", lot, r.counters.Parked.Load())
		}
		close(r.gate)
		r.expectLog(t, "a:0", "a:0", "a:0", "a:1", "a:2")
	})
}

// TestAnInstanceThatEndsInTimeIsNotCutLoose checks that the bound of an end concerns no later
// instance of the id.
func TestAnInstanceThatEndsInTimeIsNotCutLoose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := loosen(t, nil)
		s := r.start(t, 0)
		close(r.gate)
		deliver(t, s, "a", ask(-3, 1), ask(1, 2))
		pass(2 * time.Second)
		r.expectIDs(t, s, "a")
		if n := r.counters.CutLoose.Load(); n != 0 {
			t.Errorf("%d instances were cut loose", n)
		}
	})
}

// TestShardsBeyondTheTypeAreNotHosted checks the bound of the numbers of shards.
func TestShardsBeyondTheTypeAreNotHosted(t *testing.T) {
	r := newRig(t, nil) // of four shards
	if s := r.Shard(4); s != nil {
		t.Errorf("shard 4 of 4 is %+v", s)
	}
	if _, err := r.StartShard(4, Token{Term: 1, Seq: 1}, nil); err == nil {
		t.Error("shard 4 of 4 has started")
	}
	r.AbandonShard(4)
	if _, err := r.StartShard(3, Token{Term: 1, Seq: 1}, nil); err != nil || r.Shard(3) == nil || r.Count() != 1 {
		t.Errorf("shard 3 of 4: %v", err)
	}
	if _, err := r.StartShard(3, Token{Term: 1, Seq: 2}, nil); err == nil {
		t.Error("a shard has started under two tokens")
	}
}

// TestSnapshotsAreTakenForATransferOnly checks that a stop calls Snapshot of the entities that have it, and
// only if their states are to leave with the shard.
func TestSnapshotsAreTakenForATransferOnly(t *testing.T) {
	for _, keep := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			taken := 0
			r := frails(t, func(f *frail) {
				f.snap = func(*Context) ([]byte, error) { taken++; return []byte("x"), nil }
			}, nil)
			deliver(t, r.start(t, 0), "a", ask(1, 1))
			synctest.Wait()
			if st := r.stopShard(t, keep); len(st.States) != taken || (taken == 1) != keep {
				t.Errorf("keep %v: %d snapshots, %+v", keep, taken, st)
			}
			plain := newRig(t, nil)
			deliver(t, plain.start(t, 0), "a", ask(1, 1))
			synctest.Wait()
			plain.stopShard(t, keep)
			plain.expectLog(t, "a:1", "a:stop")
			if plain.counters.Panicked.Load() != 0 || plain.counters.StatesLost.Load() != 0 {
				t.Errorf("keep %v: %d panics of an entity without Snapshot, %d states are lost", keep, plain.counters.Panicked.Load(), plain.counters.StatesLost.Load())
			}
		})
	}
}

// TestAnEndedShardKeepsNothingAgain checks that a state which was not kept is not tried again once the
// shard has ended: its reliable message is refused.
func TestAnEndedShardKeepsNothingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, k, o := kept(t, nil)
		deliver(t, r.start(t, 0), "a", reliably(1, 1))
		synctest.Wait()
		r.AbandonShard(0)
		k.confirmOne(t, errors.New("not yet"))
		o.expect(t, ReliableRefused)
		if len(k.done) != 0 {
			t.Error("the state is kept again")
		}
	})
}
