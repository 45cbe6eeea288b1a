package activation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation/evict"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/reliable"
	"github.com/peerage-go/peerage/internal/failure"
)

// TestAnEntityHasOneIdentity checks that all messages of one call carry the same sender.
func TestAnEntityHasOneIdentity(t *testing.T) {
	c := &Context{shard: &shardInfo{hostInfo: &hostInfo{typ: "t", node: 7}}, id: "a"}
	first, err := SenderOf(c)
	if err != nil || first == nil || *first != (Sender{Node: 7, Type: "t", ID: "a"}) {
		t.Fatalf("sends as %+v: %v", first, err)
	}
	if again, _ := SenderOf(c); again != first {
		t.Error("a second message has an identity of its own")
	}
	if none, err := SenderOf(nil); none != nil || err != nil {
		t.Errorf("outside of handlers: %v, %v", none, err)
	}
	c.unbind()
	c.shard, c.id = &shardInfo{hostInfo: &hostInfo{typ: "t", node: 7}}, "b"
	if next, _ := SenderOf(c); next.ID != "b" {
		t.Errorf("the next call sends as %+v", next)
	}
}

// TestAMailboxIsLentAgain checks that a mailbox returns to its shard once its messages are handled.
func TestAMailboxIsLentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		s := r.start(t, 0)
		deliver(t, s, "a", ask(-2, 1))
		synctest.Wait()
		deliver(t, s, "a", ask(1, 2), ask(2, 3))
		close(r.gate)
		r.expectLog(t, "a:-2", "a:1", "a:2")
		if n := len(s.mailboxes.spare); n != 1 {
			t.Errorf("%d mailboxes are spare, want the one that was lent", n)
		}
	})
}

// TestFewStashesAreSkipped checks that at most skippedMost instances are looked at in vain to find one
// that may end.
func TestFewStashesAreSkipped(t *testing.T) {
	o := newEvictionOrder[*Context, int, int](evict.LRU, 100)
	for i := range skippedMost + 2 {
		in := &instance[*Context, int, int]{id: fmt.Sprint(i)}
		o.recordUse(in)
		if i < skippedMost {
			in.cold.stash = make([]Message[int], 1)
		}
	}
	if evicted := o.evictTo(1, nil); len(evicted) != 0 || o.policy.Len() != skippedMost+2 {
		t.Errorf("%d ended, %d are left", len(evicted), o.policy.Len())
	}
}

// TestARefusedCopyMayComeAgain checks that a message that was stashed, and then refused with its
// stash, is handled when it comes again.
func TestARefusedCopyMayComeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outcomes{}
		var d *deduplicator
		r := newRig(t, func(c *Config[*Context, int, int]) { c.Confirm = o.confirm })
		d = deduplicatorOf(r.start(t, 0))
		mark := func() *ReliableMark {
			return &ReliableMark{Stamp: reliable.Stamp{Producer: 1, Seq: 1, Floor: 1}}
		}
		first := mark()
		if !d.admitCopy(7, "a", first) {
			t.Fatal("the first copy is not admitted")
		}
		d.onHandled(7, first, true, nil)
		if d.admitCopy(7, "a", mark()) {
			t.Error("a copy is admitted while the first is stashed")
		}
		d.refuseCopy(7, first)
		if !d.admitCopy(7, "a", mark()) {
			t.Error("a copy is not admitted, though the stashed one was refused")
		}
		o.expect(t, ReliableRefused)
	})
}

// TestACallThatEndsItsGoroutineIsOver checks that the contexts of a call that ends its goroutine end
// with it, and that its shard stays usable, even one that is abandoned meanwhile.
func TestACallThatEndsItsGoroutineIsOver(t *testing.T) {
	for _, abandoned := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var derived context.Context
			r := scripted(t, func(p *script, ctx *Context, req int) (int, error) {
				if req == -4 {
					d, cancel := context.WithCancel(ctx)
					_ = cancel // the call's end ends it
					derived = d
					<-p.r.gate
					runtime.Goexit()
				}
				return req, nil
			}, nil, nil)
			s := r.start(t, 0)
			deliver(t, s, "a", ask(-4, 1))
			synctest.Wait()
			deliver(t, s, "a", ask(1, 2))
			if abandoned {
				r.AbandonShard(0)
			}
			close(r.gate)
			synctest.Wait()
			if !errors.Is(derived.Err(), context.Canceled) {
				t.Errorf("abandoned %v: the context of the call goes on", abandoned)
			}
			if s.Open() == abandoned {
				t.Errorf("abandoned %v: open %v", abandoned, !abandoned)
			}
			if abandoned {
				r.expectReply(t, 2, failure.Abandoned)
			} else {
				r.expectReply(t, 2, nil)
			}
		})
	}
}

// TestLossesAreLogged checks the lines about states that are undone, and instances that are
// abandoned, which name the shard.
func TestLossesAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &lines{}
		r, k, _ := kept(t, func(c *Config[*Context, int, int]) { c.Logger = slog.New(slog.NewTextHandler(log, nil)) })
		s := r.start(t, 0)
		k.refuse = func() error { return errors.New("too large") }
		deliver(t, s, "a", ask(1, 1))
		r.expectReply(t, 1, failure.State)
		if n := len(log.with("state cannot be replicated")); n != 1 {
			t.Errorf("%d lines about a state that is undone", n)
		}
		deliver(t, s, "a", ask(-2, 2))
		r.StopShard(0, s.Token(), time.Second, true, func(Stopped) {})
		pass(2 * time.Second)
		if found := log.with("did not stop in time"); len(found) != 1 || r.counters.Forced.Load() != 1 || r.counters.StatesLost.Load() != 1 {
			t.Errorf("lines about a forced stop: %q; %d states are lost, want the one that was undone", found, r.counters.StatesLost.Load())
		}
		close(r.gate)
	})
}

// TestConfirmationsSayWhetherAllRan checks that a confirmation covers earlier messages only if all of
// them ran.
func TestConfirmationsSayWhetherAllRan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var alls []bool
		var errs []error
		r := scripted(t, func(_ *script, ctx *Context, req int) (int, error) {
			if req == 1 {
				return 0, ctx.Stash()
			}
			return 0, errors.New("no")
		}, nil, func(c *Config[*Context, int, int]) {
			c.Confirm = func(_ gossip.NodeID, _ ShardID, _ *ReliableMark, _ Outcome, all bool, err error) {
				alls, errs = append(alls, all), append(errs, err)
			}
		})
		s := r.start(t, 0)
		deliver(t, s, "a", reliably(1, 1), reliably(2, 2))
		other := Message[int]{Req: 2, Reply: ReplyTo{Node: 7}}
		other.SetReliable(&ReliableMark{Stamp: reliable.Stamp{Producer: 1, Seq: 3, Floor: 1}})
		synctest.Wait()
		deliver(t, s, "b", other)
		synctest.Wait()
		if len(alls) != 2 || alls[0] || !alls[1] || errs[0] == nil || errs[1] == nil {
			t.Errorf("all ran %v, errors %v", alls, errs)
		}
	})
}

// TestWaitingMessagesAreDescribed checks that an entity's waiting messages are those of its batch that
// have not begun, and those in its mailbox.
func TestWaitingMessagesAreDescribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		s := r.midBatch(t)
		for want := range 3 {
			state, ok := Describe(s, "a")
			messages, most := r.Waiting()
			if !ok || state.Waiting != uint64(want+2) || messages != want+2 || most != want+2 || !state.Running {
				t.Errorf("%+v; %d wait, at most %d for one; want %d", state, messages, most, want+2)
			}
			deliver(t, s, "a", Message[int]{Req: 1})
		}
		close(r.gate)
	})
}

// TestAnAskExpiresAtItsDeadline checks that the handler of an ask runs before its deadline, not at it.
func TestAnAskExpiresAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		s := r.start(t, 0)
		deliver(t, s, "a", ask(-2, 1))
		for call, expires := range map[uint64]time.Duration{2: time.Second, 3: time.Second + 1} {
			deliver(t, s, "a", Message[int]{Req: 1, Reply: ReplyTo{Node: 7, Call: call}, Expires: expires})
		}
		pass(time.Second)
		close(r.gate)
		r.expectReply(t, 2, ErrExpired)
		r.expectReply(t, 3, nil)
	})
}

// TestAForcedStopLosesNoStateWhereThereIsNone checks that only types with Snapshot lose states.
func TestAForcedStopLosesNoStateWhereThereIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		deliver(t, r.start(t, 0), "a", ask(-2, 1))
		synctest.Wait()
		if st := r.stopShard(t, true); !st.Forced || r.counters.StatesLost.Load() != 0 {
			t.Errorf("%+v, %d states are lost", st, r.counters.StatesLost.Load())
		}
		close(r.gate)
	})
}

// TestABatchSortsAsksAndTells checks that entities which asks wake wait apart from all others, in a
// batch of insertions as well.
func TestABatchSortsAsksAndTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config[*Context, int, int]) { c.Mailbox = 100 })
		s, in := r.start(t, 1), r.NewBatchInserter()
		bring(t, in, s, "asked", ask(1, 1))
		bring(t, in, s, "told", Message[int]{Req: 2})
		b := &in.begun[1]
		if len(b.asks) != 1 || b.asks[0].in.id != "asked" || len(b.plain) != 1 || b.plain[0].in.id != "told" {
			t.Errorf("%d asks, %d others", len(b.asks), len(b.plain))
		}
		in.Flush()
		r.expectReply(t, 1, nil)
		if len(r.log) != 2 || len(b.asks) != 0 || len(b.plain) != 0 || in.woken != 0 {
			t.Error("a flush leaves entities behind")
		}
	})
}

// TestTypesWithoutControlMessagesAreNotAsked checks that no message is taken for a control message if
// the type has none.
func TestTypesWithoutControlMessagesAreNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		s, in := r.start(t, 0), r.NewBatchInserter()
		bring(t, in, s, "a", ask(1, 1))
		in.Flush()
		if err := s.Await(t.Context(), "a", &Message[int]{Req: 2}); err != nil {
			t.Error(err)
		}
		deliver(t, s, "a", ask(3, 3))
		if r.expectLog(t, "a:1", "a:2", "a:3"); r.counters.Panicked.Load() != 0 {
			t.Errorf("%d panics of a function that is not set", r.counters.Panicked.Load())
		}
	})
}

// TestWaitingCallersAreCounted checks the gauge of callers that wait for room: until they have room,
// give up, or their shard ends.
func TestWaitingCallersAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := gated(t, 1)
		s := r.start(t, 0)
		r.fill(t, s, 1)
		waiting := func(want int) {
			t.Helper()
			synctest.Wait()
			if n := r.counters.Waiting.Load(); n != want {
				t.Errorf("%d callers wait, want %d", n, want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var ends []<-chan error
		for i, c := range []context.Context{t.Context(), ctx, t.Context()} {
			ends = append(ends, r.await(c, s, i))
			waiting(i + 1)
		}
		cancel()
		waiting(2)
		r.gate <- struct{}{}
		waiting(1)
		r.Abandon()
		waiting(0)
		close(r.gate)
		for i, want := range []error{nil, context.Canceled, ErrNotHosted} {
			if err := <-ends[i]; err != want {
				t.Errorf("caller %d: %v, want %v", i, err, want)
			}
		}
	})
}

// TestMessagesHaveAClass checks which messages use the reserve of a mailbox: those of handlers of other
// entities.
func TestMessagesHaveAClass(t *testing.T) {
	for name, c := range map[string]struct {
		from    *Sender
		control bool
		want    flow.Class
	}{
		"outside of entities":          {nil, false, flow.Ordinary},
		"outside, of another node":     {&Sender{Node: 3}, false, flow.Ordinary},
		"another entity":               {&Sender{Type: "t", ID: "b"}, false, flow.Handler},
		"one of that id, another type": {&Sender{Type: "u", ID: "a"}, false, flow.Handler},
		"itself":                       {&Sender{Type: "t", ID: "a"}, false, flow.Ordinary},
		"a control message":            {&Sender{Type: "t", ID: "b"}, true, flow.Control},
	} {
		if got := classOf(&Message[int]{From: c.from}, "t", "a", c.control); got != c.want {
			t.Errorf("%s: class %v, want %v", name, got, c.want)
		}
	}
}

// TestSupervisionIsChecked checks which settings of supervision are valid, and the pauses that they give.
func TestSupervisionIsChecked(t *testing.T) {
	for _, c := range []struct {
		v    Supervision
		good bool
	}{
		{Supervision{}, true}, {Supervision{OnPanic: Stop}, true}, {Supervision{OnPanic: Stop + 1}, false}, {Supervision{BackoffMin: 1, BackoffMax: 1}, true},
		{Supervision{BackoffMin: -1}, false}, {Supervision{BackoffMin: 2, BackoffMax: 1}, false}, {Supervision{BackoffMax: 1}, true},
	} {
		if err := c.v.Validate(); (err == nil) != c.good {
			t.Errorf("%+v: %v", c.v, err)
		}
	}
	v := Supervision{BackoffMin: 100, BackoffMax: 350}
	for panics, want := range []time.Duration{100, 100, 200, 350, 350} {
		if got := v.Pause(uint32(panics)); got != want {
			t.Errorf("pause of %d after %d panics, want %d", got, panics, want)
		}
	}
}

// TestAnAbandonedHandlerMayUseItsContext checks that a handler which goes on after the end of its shard
// stashes, sets and clears timers without effect, and without a panic.
func TestAnAbandonedHandlerMayUseItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs error
		r := scripted(t, func(p *script, ctx *Context, req int) (int, error) {
			<-p.r.gate
			errs = errors.Join(ctx.Stash(), ctx.After("x", time.Second), ctx.Every("y", time.Second), ctx.ReceiveTimeout(time.Second))
			ctx.Cancel("x")
			ctx.Unstash()
			ctx.Passivate()
			return req, nil
		}, nil, nil)
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1))
		synctest.Wait()
		r.AbandonShard(0)
		close(r.gate)
		r.expectReply(t, 1, failure.Abandoned)
		if errs != nil || r.counters.Panicked.Load() != 0 {
			t.Errorf("%v, %d panics", errs, r.counters.Panicked.Load())
		}
		pass(2 * time.Second)
		r.expectLog(t, "a:1")
	})
}
