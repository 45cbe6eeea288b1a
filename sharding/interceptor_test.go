package sharding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// record is a list of lines that interceptors write.
type record struct {
	mu    sync.Mutex
	lines []string
}

func (r *record) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// take returns the lines since the last call.
func (r *record) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.lines
	r.lines = nil
	return all
}

// recorder returns an interceptor that writes a line at the beginning and at the end of a call.
func (r *record) recorder(name string) Interceptor {
	return Interceptor{
		Send: func(ctx context.Context, c *Call, next func(context.Context) error) error {
			r.add("%s sends %s %s %q %v", name, c.Op, c.Type, c.ID, c.Request())
			err := next(ctx)
			r.add("%s sent %v %v", name, c.Response(), err)
			return err
		},
		Handle: func(ctx *Context, c *Call, next func(context.Context) error) error {
			r.add("%s handles %s %s %q %v in %d", name, c.Op, ctx.Type(), ctx.ID(), c.Request(), c.Shard)
			err := next(ctx)
			r.add("%s handled %v %v", name, c.Response(), err)
			return err
		},
	}
}

// withInterceptors starts one node with a type that adds one, and the interceptors of the node and of the
// type.
func withInterceptors(t *testing.T, node, typ []Interceptor, handle func(*Context, int) (int, error)) *Region[int, int] {
	c := newCluster(t)
	n := c.add("n")
	n.reg.intercept(node)
	r, err := Register(n.reg, Type[int, int]{
		Name: "one", Shards: 4, Interceptors: typ, New: func(string) Entity[int, int] { return Func(handle) },
	})
	if err != nil {
		t.Fatal(err)
	}
	n.start()
	c.install(n)
	return r
}

func addOne(_ *Context, n int) (int, error) { return n + 1, nil }

func TestInterceptorsWrapEveryCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log record
		r := withInterceptors(t, []Interceptor{log.recorder("node")}, []Interceptor{{}, log.recorder("type")}, addOne)
		ctx := within(t, time.Minute)
		expect := func(op string, response int, handled bool) {
			t.Helper()
			synctest.Wait()
			var want []string
			at := fmt.Sprintf("%s one \"e\" ", op)
			request := "7"
			if op == OpStart {
				request = "<nil>"
			}
			want = append(want, "node sends "+at+request, "type sends "+at+request)
			sent := fmt.Sprintf("sent %d <nil>", response)
			got := log.take()
			if handled {
				in := fmt.Sprintf("7 in %d", r.ShardOf("e"))
				want = append(want, "node handles "+at+in, "type handles "+at+in, "type handled 8 <nil>", "node handled 8 <nil>")
			}
			want = append(want, "type "+sent, "node "+sent)
			if op == OpTell || op == OpSend { // they are handled at any time
				slices.Sort(got)
				slices.Sort(want)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s:\n%s\nwant\n%s", op, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		if err := r.Start(ctx, "e"); err != nil {
			t.Fatal(err)
		}
		expect(OpStart, 0, false)
		if got, err := r.Ask(ctx, "e", 7); got != 8 || err != nil {
			t.Fatal(got, err)
		}
		expect(OpAsk, 8, true)
		if err := r.Tell(ctx, "e", 7); err != nil {
			t.Fatal(err)
		}
		expect(OpTell, 0, true)
		s, err := r.Reliable(ReliableConfig[int]{})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Send(ctx, "e", 7), s.Flush(ctx), s.Close()); err != nil {
			t.Fatal(err)
		}
		expect(OpSend, 0, true)
	})
}

// sendsOnly returns an interceptor of calls that send, handlesOnly one of handlers.
func sendsOnly(f sendFunc) []Interceptor     { return []Interceptor{{Send: f}} }
func handlesOnly(f handleFunc) []Interceptor { return []Interceptor{{Handle: f}} }

var errRefused = errors.New("refused")

func TestAnInterceptorDecidesTheCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := within(t, time.Minute)
		var handled atomic.Int32
		count := func(_ *Context, n int) (int, error) {
			handled.Add(1)
			if n < 0 {
				return 5, errors.New("negative")
			}
			return n + 1, nil
		}
		for name, c := range map[string]struct {
			node, typ []Interceptor
			request   int
			resp      int
			err       string
			handled   int32
		}{
			"a call is not sent":                   {node: sendsOnly(func(context.Context, *Call, func(context.Context) error) error { return errRefused }), err: "refused"},
			"a call is not sent, without an error": {node: sendsOnly(func(context.Context, *Call, func(context.Context) error) error { return nil })},
			"a call is sent twice": {node: sendsOnly(func(ctx context.Context, _ *Call, next func(context.Context) error) error {
				return errors.Join(next(ctx), next(ctx))
			}), resp: 1, handled: 2},
			"an error is replaced on the way back": {typ: sendsOnly(func(ctx context.Context, _ *Call, next func(context.Context) error) error {
				if err := next(ctx); !errors.Is(err, ErrHandler) {
					return fmt.Errorf("not the handler's: %w", err)
				}
				return nil
			}), request: -1, handled: 1},
			"a message is not handled":                   {node: handlesOnly(func(*Context, *Call, func(context.Context) error) error { return errRefused }), err: "refused"},
			"a message is not handled, without an error": {node: handlesOnly(func(*Context, *Call, func(context.Context) error) error { return nil })},
			"a handler's response is discarded": {node: handlesOnly(func(ctx *Context, _ *Call, next func(context.Context) error) error {
				_ = next(ctx)
				return errRefused
			}), err: "refused", handled: 1},
			"a handler's error is discarded": {node: handlesOnly(func(ctx *Context, _ *Call, next func(context.Context) error) error {
				_ = next(ctx)
				return nil
			}), request: -1, handled: 1},
			"a panic": {node: handlesOnly(func(*Context, *Call, func(context.Context) error) error { panic("oh") }), err: "sharding: handler panicked: oh"},
		} {
			handled.Store(0)
			got, err := withInterceptors(t, c.node, c.typ, count).Ask(ctx, "e", c.request)
			said := ""
			if err != nil {
				said = err.Error()
			}
			if got != c.resp || said != c.err || handled.Load() != c.handled {
				t.Errorf("%s: response %d, error %q, %d times handled; want %d, %q, %d", name, got, said, handled.Load(), c.resp, c.err, c.handled)
			}
		}
	})
}

type tenantKey struct{}

// carryTenant is an interceptor that carries a context value from callers to handlers, and from
// handlers to the entities that they ask.
var carryTenant = Interceptor{
	Send: func(ctx context.Context, _ *Call, next func(context.Context) error) error {
		if tenant, ok := ctx.Value(tenantKey{}).(string); ok {
			ctx = WithHeaders(ctx, map[string]string{"tenant": tenant})
		}
		return next(ctx)
	},
	Handle: func(ctx *Context, _ *Call, next func(context.Context) error) error {
		if tenant := ctx.Header("tenant"); tenant != "" {
			return next(context.WithValue(ctx, tenantKey{}, tenant))
		}
		return next(ctx)
	},
}

// TestContextValuesTravelByChoice asks an entity that asks another one on the way, with an
// interceptor that carries a value, and without.
func TestContextValuesTravelByChoice(t *testing.T) {
	for name, all := range map[string][]Interceptor{"carried": {carryTenant}, "not carried": nil} {
		bubble(t, func(t *testing.T) {
			c := newCluster(t)
			var regions []*Region[[]string, string]
			for i := range 3 {
				n := c.add(fmt.Sprint("n", i+1))
				n.reg.intercept(all)
				var r *Region[[]string, string]
				r, err := Register(n.reg, Type[[]string, string]{
					Name: "hop", Shards: 16,
					New: func(id string) Entity[[]string, string] {
						return Func(func(ctx *Context, rest []string) (string, error) {
							tenant, _ := ctx.Value(tenantKey{}).(string)
							seen := fmt.Sprintf("%s:%s(%d)", id, tenant, len(ctx.Headers()))
							if len(rest) == 0 {
								return seen, nil
							}
							later, err := r.Ask(ctx, rest[0], rest[1:])
							return seen + " " + later, err
						})
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				regions = append(regions, r)
				n.start()
			}
			c.install(c.nodes...)
			want := "a:7(1) b:7(1) c:7(1) d:7(1)"
			if all == nil {
				want = "a:(0) b:(0) c:(0) d:(0)"
			}
			ctx := context.WithValue(within(t, time.Minute), tenantKey{}, "7")
			for _, r := range regions {
				if got, err := r.Ask(ctx, "a", []string{"b", "c", "d"}); got != want || err != nil {
					t.Errorf("%s: %q, %v; want %q", name, got, err, want)
				}
			}
			// An ask that would wait for itself is still found.
			if _, err := regions[0].Ask(ctx, "a", []string{"b", "a"}); err == nil || !strings.Contains(err.Error(), ErrSelfAsk.Error()) {
				t.Errorf("%s: an ask in a cycle returns %v", name, err)
			}
		})
	}
}

// TestAHandlerIsGivenTheContextOfItsInterceptors checks values, deadline, sender, orders and the end
// of a Context whose interceptors have each derived another one.
func TestAHandlerIsGivenTheContextOfItsInterceptors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		type key int
		derive := func(i int) handleFunc {
			return func(ctx *Context, c *Call, next func(context.Context) error) error {
				inner, cancel := context.WithTimeout(context.WithValue(ctx, key(i), i), time.Duration(10-i)*time.Second)
				defer cancel()
				err := next(inner)
				if ctx.ID() != c.ID || ctx.Err() != nil {
					t.Errorf("after the handler, the Context of interceptor %d is that of %q, and has ended: %v", i, ctx.ID(), ctx.Err())
				}
				return err
			}
		}
		var late *Context
		var starts, handled int
		c := newCluster(t)
		n := c.add("n")
		n.reg.intercept([]Interceptor{{Handle: derive(1)}, {Handle: derive(2)}})
		var r *Region[int, string]
		r, err := Register(n.reg, Type[int, string]{Name: "e", Shards: 4, New: func(id string) Entity[int, string] {
			if id == "e" {
				starts++
			}
			return Func(func(ctx *Context, what int) (string, error) {
				if id == "other" {
					return fmt.Sprintf("%s asks", ctx.Sender().ID), nil
				}
				handled++
				if ctx.Value(key(1)) != 1 || ctx.Value(key(2)) != 2 || ctx.Value(key(3)) != nil {
					t.Errorf("values %v, %v, %v", ctx.Value(key(1)), ctx.Value(key(2)), ctx.Value(key(3)))
				}
				if by, ok := ctx.Deadline(); !ok || time.Until(by) != 8*time.Second {
					t.Errorf("the deadline is in %v", time.Until(by))
				}
				late = ctx
				switch what {
				case 1:
					if handled == 1 {
						return "", ctx.Stash()
					}
					return "stashed before", nil
				case 2:
					ctx.Unstash()
				case 3:
					ctx.Passivate()
				case 4:
					derived, cancel := context.WithTimeout(ctx, time.Minute)
					defer cancel()
					return r.Ask(derived, "other", 0)
				case 5:
					<-ctx.Done()
					return fmt.Sprint(ctx.Err()), nil
				}
				return "done", nil
			})
		}})
		if err != nil {
			t.Fatal(err)
		}
		n.start()
		c.install(n)
		ctx := within(t, time.Minute)
		first := make(chan string, 1)
		go func() {
			got, _ := r.Ask(ctx, "e", 1)
			first <- got
		}()
		synctest.Wait()
		for _, step := range []struct {
			what int
			want string
		}{{2, "done"}, {4, "e asks"}, {3, "done"}, {5, "context deadline exceeded"}} {
			if got, err := r.Ask(ctx, "e", step.what); got != step.want || err != nil {
				t.Errorf("request %d: %q, %v; want %q", step.what, got, err, step.want)
			}
			if step.what == 2 {
				if got := <-first; got != "stashed before" {
					t.Errorf("the stashed message was answered with %q", got)
				}
			}
		}
		if starts != 2 {
			t.Errorf("%d instances began, want 2: the first has passivated itself", starts)
		}
		<-late.Done()
		if err := late.Stash(); !errors.Is(err, ErrContextEnded) || late.Err() == nil {
			t.Errorf("after the call: %v, %v", err, late.Err())
		}
	})
}

// TestAHandlerLeftBehindIsWaitedFor lets an interceptor return while the handler runs, and call
// next again after it has returned.
func TestAHandlerLeftBehindIsWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var running atomic.Int32
		began, late := make(chan struct{}, 2), make(chan error, 2)
		r := withInterceptors(t, nil, handlesOnly(func(ctx *Context, _ *Call, next func(context.Context) error) error {
			go func() {
				_ = next(ctx)
				pass(time.Second) // the interceptor has returned
				late <- next(ctx)
			}()
			<-began
			return nil
		}), func(_ *Context, n int) (int, error) {
			if running.Add(1) != 1 {
				t.Error("two messages of one entity are handled at the same time")
			}
			began <- struct{}{}
			pass(100 * time.Millisecond)
			running.Add(-1)
			return n + 1, nil
		})
		ctx := within(t, time.Minute)
		for i := range 2 {
			if got, err := r.Ask(ctx, "e", i); got != i+1 || err != nil {
				t.Errorf("%d, %v", got, err)
			}
		}
		for range 2 {
			if err := <-late; !errors.Is(err, ErrContextEnded) {
				t.Errorf("next after the call: %v", err)
			}
		}
	})
}

// TestRememberedStartsAreNotIntercepted checks that an interceptor sees calls of the application
// only.
func TestRememberedStartsAreNotIntercepted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		n := c.add("n")
		var log record
		n.reg.intercept([]Interceptor{log.recorder("node")})
		lived := make(chan string, 1)
		if _, err := RegisterSingleton(n.reg, Singleton[int, int]{Name: "s", New: func() Entity[int, int] {
			lived <- "s"
			return Func(addOne)
		}}); err != nil {
			t.Fatal(err)
		}
		n.start()
		c.install(n)
		<-lived
		synctest.Wait()
		if got := log.take(); len(got) != 0 {
			t.Errorf("interceptors were called: %q", got)
		}
	})
}

// A Call that a test makes has no messages.
func TestACallWithoutMessages(t *testing.T) {
	c := Call{Op: OpAsk, Type: "t"}
	if c.Request() != nil || c.Response() != nil {
		t.Errorf("%v, %v", c.Request(), c.Response())
	}
}
