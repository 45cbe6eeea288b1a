package activation

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/internal/failure"
)

// A Context that outlives its call says what was done wrong: with an error where there is
// one to return, else with a panic in the goroutine that uses it.
func TestAContextAfterItsCall(t *testing.T) {
	for _, strict := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var late *Context
			r := newRig(t, func(c *Config[*Context, int, int]) {
				c.Strict = strict
				c.New = func(string) Entity[*Context, int, int] {
					return Func[*Context, int, int](func(ctx *Context, req int) (int, error) {
						if req == 1 {
							late = ctx
						}
						return req, nil
					})
				}
			})
			s := r.start(t, 0)
			deliver(t, s, "a", ask(1, 1))
			synctest.Wait()
			if strict {
				// The worker has the message of another entity in hand next.
				deliver(t, s, "b", ask(2, 2))
				synctest.Wait()
			}
			for what, err := range map[string]error{
				"After": late.After("t", time.Second), "Every": late.Every("t", time.Second),
				"ReceiveTimeout": late.ReceiveTimeout(0), "Stash": late.Stash(),
			} {
				if !errors.Is(err, failure.ContextEnded) {
					t.Errorf("strict %v: %s after the call: %v", strict, what, err)
				}
			}
			self, _, _ := From(late)
			if from, err := SenderOf(self); from != nil || !errors.Is(err, failure.ContextEnded) {
				t.Errorf("strict %v: sends as %v, %v", strict, from, err)
			}
			<-late.Done()
			if err := late.Err(); err != context.Canceled {
				t.Errorf("strict %v: Err %v", strict, err)
			}
			derived, cancel := context.WithTimeout(late, time.Hour)
			<-derived.Done()
			cancel()
			for what, use := range map[string]func(){
				"ID": func() { late.ID() }, "Type": func() { late.Type() }, "Shard": func() { late.Shard() },
				"Token": func() { late.Token() }, "Sender": func() { late.Sender() }, "Self": func() { late.Self() },
				"Logger": func() { late.Logger() }, "Passivate": late.Passivate, "Unstash": late.Unstash,
				"Cancel": func() { late.Cancel("t") },
			} {
				if said := panicOf(use); !strings.Contains(said, "Context."+what) || !strings.Contains(said, "after its Handle") {
					t.Errorf("strict %v: %s after the call: %q", strict, what, said)
				}
			}
		})
	}
}

// Every exported method of a Context that its call has left says so, or is one of those of a
// context.Context: none of them panics with anything else, whether a context was made during
// the call or not.
func TestEveryMethodOfAnEndedContext(t *testing.T) {
	for _, strict := range []bool{false, true} {
		for _, used := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				late := endedAfterACall(t, strict, used)
				v := reflect.ValueOf(late)
				for i := range v.NumMethod() {
					name := v.Type().Method(i).Name
					var args []reflect.Value
					for j := range v.Method(i).Type().NumIn() {
						args = append(args, reflect.Zero(v.Method(i).Type().In(j)))
					}
					var out []reflect.Value
					said := panicOf(func() { out = v.Method(i).Call(args) })
					fine := strings.Contains(said, "Context."+name) && strings.Contains(said, "after its Handle")
					if len(out) > 0 {
						err, _ := out[len(out)-1].Interface().(error)
						fine = errors.Is(err, failure.ContextEnded) || name == "Err" && err == context.Canceled
					}
					if of := reflect.TypeFor[context.Context](); !fine {
						_, ofContext := of.MethodByName(name)
						fine = ofContext && name != "Err" && said == ""
					}
					if !fine {
						t.Errorf("strict %v, used %v: %s says %q, returns %v", strict, used, name, said, out)
					}
				}
			})
		}
	}
}

// endedAfterACall returns the Context of a call that has returned.
func endedAfterACall(t *testing.T, strict, used bool) (late *Context) {
	r := newRig(t, func(c *Config[*Context, int, int]) {
		c.Strict = strict
		c.New = func(string) Entity[*Context, int, int] {
			return Func[*Context, int, int](func(ctx *Context, req int) (int, error) {
				if late = ctx; used {
					ctx.Done()
				}
				return req, nil
			})
		}
	})
	deliver(t, r.start(t, 0), "a", ask(1, 1))
	synctest.Wait()
	return late
}

// In the strict mode no two calls share a Context, so late use never meets another message.
func TestStrictCallsHaveContextsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := map[*Context]bool{}
		r := newRig(t, func(c *Config[*Context, int, int]) {
			c.Strict = true
			c.New = func(string) Entity[*Context, int, int] {
				return Func[*Context, int, int](func(ctx *Context, req int) (int, error) {
					seen[ctx] = true
					return req, nil
				})
			}
		})
		s := r.start(t, 0)
		for i := range 8 {
			deliver(t, s, "a", ask(i, uint64(i+1)))
		}
		synctest.Wait()
		if len(seen) != 8 {
			t.Errorf("8 calls had %d Contexts", len(seen))
		}
	})
}

// What the runtime logs after a call does not need the call's Context.
func TestAFailedStartThatUsedItsContextIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config[*Context, int, int]) {
			c.New = func(string) Entity[*Context, int, int] { return failsToStart{} }
		})
		r.start(t, 0).Ensure("a")
		synctest.Wait()
		if n := r.counters.HandlerErrors.Load(); n != 1 {
			t.Errorf("%d starts counted as failed", n)
		}
	})
}

type failsToStart struct{}

func (failsToStart) Handle(_ *Context, req int) (int, error) { return req, nil }
func (failsToStart) OnStart(ctx *Context) error {
	return errors.Join(errors.New("no database"), ctx.Err())
}

func panicOf(f func()) (said string) {
	defer func() {
		if v := recover(); v != nil {
			said, _ = v.(string)
			if err, ok := v.(error); ok {
				said = err.Error()
			}
		}
	}()
	f()
	return ""
}

// TestTheContextOfACallThatEndsItsGoroutineHasEnded checks that a Context which was kept from a call that ended
// its goroutine is of no use afterwards, like that of a call that returned.
func TestTheContextOfACallThatEndsItsGoroutineHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late *Context
		r := newRig(t, func(c *Config[*Context, int, int]) {
			c.New = func(string) Entity[*Context, int, int] {
				return Func[*Context, int, int](func(ctx *Context, req int) (int, error) {
					if req == -4 {
						late = ctx
						runtime.Goexit()
					}
					return req, nil
				})
			}
		})
		s := r.start(t, 0)
		deliver(t, s, "a", ask(-4, 1))
		synctest.Wait()
		if late.info() != nil || panicOf(late.Passivate) == "" {
			t.Error("the Context can still be used")
		}
		deliver(t, s, "a", ask(1, 2))
		r.expectReply(t, 2, nil)
	})
}
