package activation

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/internal/activation/evict"
)

// ids returns those that live in a shard, sorted.
func (s *Shard[C, Req, Resp]) sorted() []string {
	ids := s.IDs()
	slices.Sort(ids)
	return ids
}

func (r *rig) expectIDs(t *testing.T, s *Shard[*Context, int, int], want ...string) {
	t.Helper()
	synctest.Wait()
	if got := s.sorted(); !slices.Equal(got, want) {
		t.Errorf("living: %q, want %q", got, want)
	}
}

func TestTheLimitPassivates(t *testing.T) {
	for _, kind := range []evict.Kind{evict.LRU, evict.TinyLFU} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, func(c *Config[*Context, int, int]) {
				c.Passivation = Passivation{Limit: 2, Eviction: kind}
			})
			s := r.start(t, 0)
			call := uint64(0)
			for _, id := range []string{"a", "b", "b", "d"} {
				call++
				deliver(t, s, id, ask(1, call))
				synctest.Wait()
			}
			r.expectIDs(t, s, "b", "d")
			if n := r.counters.Passivated.Load(); n != 1 || r.counters.Entities.Load() != 2 {
				t.Errorf("strategy %d: %d passivated, %d entities", kind, n, r.counters.Entities.Load())
			}
			if !slices.Contains(r.log, "a:stop") {
				t.Errorf("strategy %d: %q", kind, r.log)
			}
		})
	}
}

func TestTheLimitIsDividedOverShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config[*Context, int, int]) { c.Passivation = Passivation{Limit: 4} })
		s := r.start(t, 0)
		for i := range 6 {
			deliver(t, s, fmt.Sprint("e", i), ask(1, uint64(1+i)))
			synctest.Wait()
		}
		r.expectIDs(t, s, "e2", "e3", "e4", "e5")
		r.start(t, 1)
		pass(2 * shrinkEvery)
		r.expectIDs(t, s, "e4", "e5")
		// Its share grows again when the other goes.
		r.AbandonShard(1)
		deliver(t, s, "e6", ask(1, 20))
		r.expectIDs(t, s, "e4", "e5", "e6")
	})
}

// The limit may change while instances live: they end soon, or there is room for more.
func TestTheLimitChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var limit atomic.Int64
		limit.Store(3)
		r := newRig(t, func(c *Config[*Context, int, int]) { c.Passivation, c.Limit = Passivation{Limit: 1}, &limit })
		s := r.start(t, 0)
		call := uint64(0)
		use := func(ids ...string) {
			for _, id := range ids {
				call++
				deliver(t, s, id, ask(1, call))
				synctest.Wait()
			}
		}
		use("a", "b", "c", "d")
		r.expectIDs(t, s, "b", "c", "d")
		limit.Store(1)
		pass(2 * shrinkEvery)
		r.expectIDs(t, s, "d")
		limit.Store(2)
		use("e", "f")
		r.expectIDs(t, s, "e", "f")
	})
}

// An instance that had to go with mail in its box works it off and ends; one that
// is used again before that stays.
func TestBusyInstancesEndWhenTheirMailIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config[*Context, int, int]) { c.Passivation = Passivation{Limit: 1} })
		s := r.start(t, 0)
		deliver(t, s, "a", ask(-2, 1), ask(1, 2))
		synctest.Wait()
		deliver(t, s, "b", ask(2, 3))
		r.expectIDs(t, s, "a", "b")
		close(r.gate)
		r.expectLog(t, "a:-2", "b:2", "a:1", "a:stop")
		r.expectIDs(t, s, "b")
		r.gate = make(chan struct{})
		deliver(t, s, "b", ask(-2, 4))
		synctest.Wait()
		deliver(t, s, "c", ask(1, 5))
		synctest.Wait()
		deliver(t, s, "b", ask(3, 6))
		close(r.gate)
		r.expectIDs(t, s, "b")
		if r.values[6] != 3 {
			t.Errorf("sum %d: the instance that was used again must be the old one", r.values[6])
		}
	})
}

func TestNothingIsPassivatedWithoutLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := scripted(t, func(*script, *Context, int) (int, error) { return 0, nil }, nil,
			func(c *Config[*Context, int, int]) { c.Passivation = Passivation{Limit: 1} })
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1))
		synctest.Wait()
		r.alive.Store(false)
		deliver(t, s, "b", ask(1, 2))
		pass(2 * shrinkEvery)
		r.expectIDs(t, s, "a", "b")
		r.alive.Store(true)
		pass(2 * shrinkEvery)
		r.expectIDs(t, s, "b")
		r.expectLog(t, "a:1", "b:1")
	})
}

func TestWhoHasMessagesAsideStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := scripted(t, func(p *script, ctx *Context, req int) (int, error) {
			if p.id == "a" {
				return 0, ctx.Stash()
			}
			return req, nil
		}, nil, func(c *Config[*Context, int, int]) { c.Passivation = Passivation{Limit: 1} })
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1))
		synctest.Wait()
		deliver(t, s, "b", ask(1, 2))
		pass(10 * shrinkEvery)
		r.expectLog(t, "a:1", "b:1")
	})
}

// goodbye is an entity that does not end before it is let go.
type goodbye struct{ *probe }

func (g *goodbye) OnStop(ctx *Context) {
	g.r.note(g.id + ":stopping")
	<-ctx.Done()
	g.r.note(g.id + ":" + ctx.Err().Error())
	<-g.r.gate
	g.r.note(g.id + ":stop")
}

// Messages that come while an instance ends wait for the next one, and do not wait
// for ever.
func TestAnInstanceThatDoesNotEndIsCutLoose(t *testing.T) {
	for name, mail := range map[string]bool{"with mail": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var r *rig
				r = newRig(t, func(c *Config[*Context, int, int]) {
					c.StopTimeout = time.Minute
					c.New = func(id string) Entity[*Context, int, int] { return &goodbye{&probe{id: id, r: r}} }
					c.Passivation = Passivation{Limit: 100}
				})
				s := r.start(t, 0)
				deliver(t, s, "a", ask(-3, 1))
				synctest.Wait()
				if mail {
					deliver(t, s, "a", ask(5, 2))
				}
				pass(59 * time.Second)
				r.expectLog(t, "a:-3", "a:stopping")
				pass(2 * time.Second)
				want := []string{"a:-3", "a:stopping", "a:" + context.DeadlineExceeded.Error()}
				if mail {
					r.mu.Lock()
					r.log = slices.DeleteFunc(r.log, func(s string) bool { return s == "a:5" })
					r.mu.Unlock()
					r.expectReply(t, 2, nil)
				}
				r.expectLog(t, want...)
				if n, shards := r.counters.CutLoose.Load(), r.counters.Forced.Load(); n != 1 || shards != 0 {
					t.Errorf("%d cut loose, %d stops of shards forced", n, shards)
				}
				if got, want := s.Entities(), len(s.IDs()); got != want || mail != (got == 1) {
					t.Errorf("%d entities", got)
				}
				deliver(t, s, "a", ask(6, 3))
				r.expectReply(t, 3, nil)
				close(r.gate)
				r.expectLog(t, append(want, "a:6", "a:stop")...)
				// The old one's late end leaves its successor alone.
				r.expectIDs(t, s, "a")
				if n := r.counters.Entities.Load(); n != 1 {
					t.Errorf("%d entities counted", n)
				}
				done := make(chan Stopped, 1)
				r.StopShard(0, s.Token(), 5*time.Minute, false, func(s Stopped) { done <- s })
				pass(6 * time.Minute)
				if got := <-done; !got.Forced {
					t.Error("the second goodbye ended by itself: its context has no end but the shard's")
				}
			})
		})
	}
}

// What an instance that was cut loose still does with its Context reaches no other:
// its timers would be its successor's, who bears its name.
func TestALateGoodbyeLeavesItsSuccessorsTimersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs []error
		r := frails(t, func(f *frail) {
			f.handle = func(ctx *Context, req int) (int, error) {
				if req == -3 {
					ctx.Passivate()
					return 0, nil
				}
				return 0, ctx.After("mine", 2*time.Minute)
			}
			f.stop = func(ctx *Context) {
				<-f.r.gate
				ctx.Cancel("mine")
				errs = append(errs, ctx.After("late", time.Second), ctx.Every("later", time.Second))
			}
		}, func(c *Config[*Context, int, int]) { c.StopTimeout = time.Second })
		s := r.start(t, 0)
		deliver(t, s, "a", ask(-3, 1))
		pass(2 * time.Second)
		deliver(t, s, "a", ask(1, 2))
		synctest.Wait()
		close(r.gate)
		pass(5 * time.Minute)
		r.expectLog(t, "a:-3", "a:stop", "a:1", "a:mine")
		if len(errs) != 2 || errs[0] != nil || errs[1] != nil {
			t.Errorf("timers of a goodbye: %v", errs)
		}
	})
}

// Instances that end with their shard are not passivated: only what ended by itself is
// counted, with an OnStop or without.
func TestAShardsEndIsNoPassivation(t *testing.T) {
	for name, prepare := range map[string]func(*Config[*Context, int, int]){
		"with OnStop": func(*Config[*Context, int, int]) {},
		"without": func(c *Config[*Context, int, int]) {
			c.New = func(string) Entity[*Context, int, int] {
				return Func[*Context, int, int](func(_ *Context, req int) (int, error) { return req, nil })
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, prepare)
				deliver(t, r.start(t, 0), "a", ask(1, 1))
				synctest.Wait()
				r.stopShard(t, false)
				if n, a := r.counters.Passivated.Load(), r.counters.Abandoned.Load(); n != 0 || a != 0 {
					t.Errorf("%d passivated, %d abandoned", n, a)
				}
			})
		})
	}
}

// TinyLFU tells entities apart: who is in demand takes a place from who is less so.
func TestTinyLFUKnowsWhoIsInDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config[*Context, int, int]) {
			c.Passivation = Passivation{Limit: 3, Eviction: evict.TinyLFU}
		})
		s, call := r.start(t, 0), uint64(0)
		for _, id := range []string{"a", "a", "b", "b", "b", "once", "hot", "hot", "hot", "hot", "new"} {
			call++
			deliver(t, s, id, ask(1, call))
			synctest.Wait()
		}
		r.expectIDs(t, s, "b", "hot", "new")
	})
}

// One that has messages aside holds no place but its own, whatever the strategy.
func TestMessagesAsideDoNotSuspendTheLimit(t *testing.T) {
	for _, kind := range []evict.Kind{evict.LRU, evict.TinyLFU} {
		synctest.Test(t, func(t *testing.T) {
			r := scripted(t, func(p *script, ctx *Context, req int) (int, error) {
				if p.id == "aside" {
					return 0, ctx.Stash()
				}
				return req, nil
			}, nil, func(c *Config[*Context, int, int]) {
				c.Passivation = Passivation{Limit: 3, Eviction: kind}
			})
			s := r.start(t, 0)
			deliver(t, s, "aside", ask(1, 1))
			for i := range 30 {
				synctest.Wait()
				deliver(t, s, fmt.Sprint("e", i), ask(1, uint64(2+i)))
			}
			synctest.Wait()
			if n := s.Entities(); n > 4 || !s.Lives("aside") || !s.Lives("e29") {
				t.Errorf("strategy %d: %q live, limit 3", kind, s.sorted())
			}
		})
	}
}

// A limit costs no allocation for a message to an instance that lives.
func BenchmarkTellWithLimit(b *testing.B) {
	for name, kind := range map[string]evict.Kind{"lru": evict.LRU, "tiny": evict.TinyLFU} {
		b.Run(name, func(b *testing.B) {
			h, c, _ := benchHost(b, 1000, func(c *Config[*Context, int, int]) {
				c.Passivation = Passivation{Limit: 10_000, Eviction: kind}
			})
			tellAll(b, h, c, 1000)
		})
	}
}

// TestAnEvictedInstanceThatStashesCountsAgain checks that an instance which was evicted while its handler
// ran, and stays for the message that the handler stashed, counts for the limit again.
func TestAnEvictedInstanceThatStashesCountsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := scripted(t, func(p *script, ctx *Context, req int) (int, error) {
			if req == -2 {
				<-p.r.gate
				return 0, ctx.Stash()
			}
			return req, nil
		}, nil, func(c *Config[*Context, int, int]) { c.Passivation = Passivation{Limit: 1} })
		s := r.start(t, 0)
		deliver(t, s, "a", ask(-2, 1))
		synctest.Wait()
		deliver(t, s, "b", ask(1, 2))
		close(r.gate)
		r.expectReply(t, 2, nil)
		r.expectIDs(t, s, "a", "b")
		pass(2 * shrinkEvery)
		r.expectIDs(t, s, "a")
	})
}

// unhurried is an entity that notes whether its OnStop has a deadline.
type unhurried struct{ *probe }

func (u *unhurried) OnStop(ctx *Context) {
	_, bounded := ctx.Deadline()
	u.r.note(fmt.Sprintf("%s:bounded %v", u.id, bounded))
}

// TestOnlyAStopTimeoutBoundsTheEnd checks that the end of an instance has a deadline if there is a StopTimeout.
func TestOnlyAStopTimeoutBoundsTheEnd(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			var r *rig
			r = newRig(t, func(c *Config[*Context, int, int]) {
				c.StopTimeout = timeout
				c.New = func(id string) Entity[*Context, int, int] { return &unhurried{&probe{id: id, r: r}} }
			})
			deliver(t, r.start(t, 0), "a", ask(-3, 1))
			r.expectLog(t, "a:-3", fmt.Sprintf("a:bounded %v", timeout > 0))
		})
	}
}
