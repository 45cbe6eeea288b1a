package activation

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/reliable"
	"github.com/peerage-go/peerage/internal/failure"
)

// What the entity does at its end is contained as its handler is: the rest of the end
// takes place, the shard goes on, and of a state it is known whether it travels.
func TestTheEndIsContained(t *testing.T) {
	use := func(ctx *Context) { _, cancel := context.WithTimeout(ctx, time.Second); cancel() }
	for name, c := range map[string]struct {
		prepare func(*frail)
		log     []string
		states  int
		lost    uint64
		panics  uint64
	}{
		"Snapshot fails": {func(f *frail) {
			f.snap = func(*Context) ([]byte, error) { return nil, errors.New("no") }
		}, []string{"a:1", "a:stop"}, 0, 1, 0},
		"Snapshot panics": {func(f *frail) {
			f.snap = func(ctx *Context) ([]byte, error) { use(ctx); panic("no") }
		}, []string{"a:1", "a:stop"}, 0, 1, 1},
		"Snapshot ends its goroutine": {func(f *frail) {
			f.snap = func(ctx *Context) ([]byte, error) { use(ctx); runtime.Goexit(); return nil, nil }
		}, []string{"a:1"}, 0, 1, 1},
		"Snapshot's error panics": {func(f *frail) {
			f.snap = func(*Context) ([]byte, error) { var bad *nilErr; return nil, bad }
		}, []string{"a:1", "a:stop"}, 0, 1, 1},
		"OnStop panics": {func(f *frail) {
			f.stop = func(ctx *Context) { use(ctx); panic("no") }
		}, []string{"a:1", "a:stop"}, 1, 0, 1},
		"OnStop ends its goroutine": {func(f *frail) {
			f.stop = func(ctx *Context) { use(ctx); runtime.Goexit() }
		}, []string{"a:1", "a:stop"}, 1, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := frails(t, c.prepare, nil)
				deliver(t, r.start(t, 0), "a", ask(1, 1))
				synctest.Wait()
				st := r.stopShard(t, true)
				if st.Forced || len(st.States) != c.states || r.counters.StatesLost.Load() != c.lost || r.counters.Panicked.Load() != c.panics {
					t.Errorf("%+v; %d lost, %d panics", st, r.counters.StatesLost.Load(), r.counters.Panicked.Load())
				}
				r.expectLog(t, c.log...)
			})
		})
	}
}

// A stop that is forced moves the shard without the states of those that did not end,
// which is counted; the others' travel.
func TestStatesThatAForcedStopLeavesBehindAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := frails(t, func(f *frail) {
			f.handle = func(_ *Context, req int) (int, error) {
				if req == -2 {
					<-f.r.gate
				}
				return req, nil
			}
		}, nil)
		for keep, want := range map[bool]uint64{true: 1, false: 0} {
			before := r.counters.StatesLost.Load()
			s := r.start(t, 0)
			deliver(t, s, "stuck", Message[int]{Req: -2})
			deliver(t, s, "idle", Message[int]{Req: 1})
			synctest.Wait()
			st := r.stopShard(t, keep)
			if n := r.counters.StatesLost.Load() - before; !st.Forced || len(st.States) != int(want) || n != want {
				t.Errorf("%+v; %d lost, want that of stuck if it was to travel (%v)", st, n, keep)
			}
		}
		close(r.gate)
	})
	// One whose OnStop does not end has said what its state is.
	synctest.Test(t, func(t *testing.T) {
		r := frails(t, func(f *frail) { f.stop = func(*Context) { <-f.r.gate } }, nil)
		deliver(t, r.start(t, 0), "a", ask(1, 1))
		synctest.Wait()
		if st := r.stopShard(t, true); !st.Forced || len(st.States) != 1 || r.counters.StatesLost.Load() != 0 {
			t.Errorf("%+v; %d lost", st, r.counters.StatesLost.Load())
		}
		close(r.gate)
	})
}

// A state that came with the shard is for the first instance that takes it, and for no
// later one; until one has, it stays, and goes on with the shard.
func TestAStateIsTakenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back []string
		refuse := true
		r := frails(t, func(f *frail) {
			f.handle = func(ctx *Context, req int) (int, error) {
				if req == -3 {
					ctx.Passivate()
				}
				return req, nil
			}
			f.back = func(_ *Context, state []byte) error {
				if back = append(back, f.id+string(state)); refuse {
					return errors.New("not yet")
				}
				return nil
			}
			f.snap = func(*Context) ([]byte, error) { return nil, nil }
		}, nil)
		s, err := r.StartShard(0, Token{Term: 1}, map[string][]byte{"a": []byte("1"), "b": []byte("2"), "c": []byte("3")})
		if err != nil {
			t.Fatal(err)
		}
		deliver(t, s, "a", ask(1, 1))
		r.expectReply(t, 1, failure.Restore)
		deliver(t, s, "b", ask(1, 2))
		r.expectReply(t, 2, failure.Restore)
		refuse = false
		deliver(t, s, "a", ask(-3, 3), ask(1, 4))
		r.expectReply(t, 4, nil)
		if !slices.Equal(back, []string{"a1", "b2", "a1"}) {
			t.Errorf("taken back: %q", back)
		}
		if st := r.stopShard(t, true); len(st.States) != 2 || string(st.States["b"]) != "2" || string(st.States["c"]) != "3" {
			t.Errorf("%v go on, want those of b and c", st.States)
		}
	})
}

// What waits in mailboxes when a shard stops is handled, with the states that came with
// the shard, whether it moves or ends; what was taken does not go on as it came.
func TestMailOfAStopMeetsItsState(t *testing.T) {
	for keep, lost := range map[bool]uint64{true: 0, false: 3} {
		t.Run(fmt.Sprintf("keep=%v", keep), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := frails(t, func(f *frail) {
					f.back = func(_ *Context, state []byte) error { f.r.note(f.id + ":back " + string(state)); return nil }
					f.snap = func(*Context) ([]byte, error) {
						if f.id == "b" {
							return nil, nil
						}
						return []byte("new"), nil
					}
				}, nil)
				s, err := r.StartShard(0, Token{Term: 1}, map[string][]byte{"a": []byte("1"), "b": []byte("2"), "c": []byte("3")})
				if err != nil {
					t.Fatal(err)
				}
				r.alive.Store(false)
				deliver(t, s, "a", ask(1, 1))
				synctest.Wait()
				deliver(t, s, "b", ask(1, 2))
				synctest.Wait()
				done := make(chan Stopped, 1)
				r.StopShard(0, s.Token(), time.Minute, keep, func(st Stopped) { done <- st })
				r.alive.Store(true)
				st := <-done
				slices.Sort(r.log)
				r.expectLog(t, "a:1", "a:back 1", "a:stop", "b:1", "b:back 2", "b:stop")
				if keep && (len(st.States) != 2 || string(st.States["a"]) != "new" || string(st.States["c"]) != "3") {
					t.Errorf("%q go on, want those of a, anew, and c", st.States)
				}
				if n := r.counters.StatesLost.Load(); n != lost {
					t.Errorf("%d lost, want %d", n, lost)
				}
			})
		})
	}
}

// Whoever asked to be passivated is, also if its shard begins to stop meanwhile: its
// state does not travel.
func TestThePassivatedTakeNoStateAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := frails(t, func(f *frail) {
			f.handle = func(ctx *Context, req int) (int, error) {
				if req == -3 {
					<-f.r.gate
					ctx.Passivate()
				}
				return req, nil
			}
		}, nil)
		s := r.start(t, 0)
		deliver(t, s, "a", ask(-3, 1))
		deliver(t, s, "b", ask(1, 2))
		synctest.Wait()
		done := make(chan Stopped, 1)
		r.StopShard(0, s.Token(), time.Minute, true, func(st Stopped) { done <- st })
		synctest.Wait()
		close(r.gate)
		if st := <-done; len(st.States) != 1 || st.States["b"] == nil || r.counters.StatesLost.Load() != 0 {
			t.Errorf("%+v, %d lost", st, r.counters.StatesLost.Load())
		}
	})
}

// A reliable message is over when its handler ran. One that met no instance, since none
// could be made, is to come again: if New or OnStart panicked as much as if it failed.
func TestAReliableMessageWithoutAnInstanceIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		start func(*Context) error
		want  []Outcome
	}{
		"panic":           {func(*Context) error { panic("no") }, []Outcome{ReliableRefused, ReliableHandled}},
		"error":           {func(*Context) error { return errors.New("no") }, []Outcome{ReliableRefused, ReliableHandled}},
		"another's":       {func(*Context) error { return &PanicError{Value: "there"} }, []Outcome{ReliableRefused, ReliableHandled}},
		"another's state": {func(*Context) error { return failure.State }, []Outcome{ReliableRefused, ReliableHandled}},
		"handler's panic": {nil, []Outcome{ReliableHandled, ReliableRepeated}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got []Outcome
				first := true
				r := frails(t, func(f *frail) {
					if first {
						f.start = c.start
						f.handle = func(*Context, int) (int, error) { panic("no") }
					}
					first = false
				}, func(cfg *Config[*Context, int, int]) {
					cfg.Confirm = func(_ gossip.NodeID, _ ShardID, _ *ReliableMark, o Outcome, _ bool, _ error) { got = append(got, o) }
				})
				s := r.start(t, 0)
				for range 2 {
					deliver(t, s, "a", Message[int]{Req: 1, Reply: ReplyTo{Node: 7}, rare: &rareFields{reliable: &ReliableMark{Stamp: reliable.Stamp{Producer: 1, Seq: 1, Floor: 1}}}})
					synctest.Wait()
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("outcomes %v, want %v", got, c.want)
				}
			})
		})
	}
}

// That one before it ran says nothing of a message which finds no instance.
func TestEachReliableMessageIsJudgedByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []Outcome
		made := 0
		r := frails(t, func(f *frail) {
			if made++; made == 2 {
				f.start = func(*Context) error { return errors.New("no") }
			}
			f.handle = func(ctx *Context, req int) (int, error) {
				<-f.r.gate
				ctx.Passivate()
				return req, nil
			}
		}, func(cfg *Config[*Context, int, int]) {
			cfg.Confirm = func(_ gossip.NodeID, _ ShardID, _ *ReliableMark, o Outcome, _ bool, _ error) { got = append(got, o) }
		})
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1))
		synctest.Wait()
		deliver(t, s, "a", Message[int]{Req: 2, Reply: ReplyTo{Node: 7}, rare: &rareFields{reliable: &ReliableMark{Stamp: reliable.Stamp{Producer: 1, Seq: 1, Floor: 1}}}})
		close(r.gate)
		synctest.Wait()
		if !slices.Equal(got, []Outcome{ReliableRefused}) {
			t.Errorf("outcomes %v", got)
		}
	})
}

// Whoever remembers entities is told of those that a panic has ended, or that could not
// begin, when nothing more waits for them; not of those that end otherwise.
func TestFallenEntitiesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fell []string
		var fails atomic.Bool
		var r *rig
		r = frails(t, func(f *frail) {
			if fails.Load() {
				f.start = func(*Context) error { return errors.New("no") }
			}
			f.handle = func(ctx *Context, req int) (int, error) {
				if req == -1 {
					panic("minus one")
				}
				return req, nil
			}
		}, func(c *Config[*Context, int, int]) {
			c.Fell = func(_ ShardID, id string) {
				r.mu.Lock()
				defer r.mu.Unlock()
				fell = append(fell, id)
			}
			c.Supervision = Supervision{BackoffMin: time.Second, BackoffMax: time.Second}
		})
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			r.mu.Lock()
			defer r.mu.Unlock()
			if !slices.Equal(fell, want) {
				t.Errorf("%q fell, want %q", fell, want)
			}
		}
		s := r.start(t, 0)
		deliver(t, s, "a", ask(-1, 1), ask(1, 2))
		deliver(t, s, "b", ask(-1, 3))
		pass(500 * time.Millisecond)
		expect() // they pause
		pass(time.Second)
		expect("b") // a has another instance
		fails.Store(true)
		if !s.Ensure("c") || s.Ensure("a") {
			t.Error("Ensure starts who lives, or does not start who does not")
		}
		expect("b", "c")
		r.stopShard(t, false)
		expect("b", "c")
	})
}
