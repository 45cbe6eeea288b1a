package sharding

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// touchy panics at "oh".
type touchy struct{ Text[string] }

func (touchy) Append(b []byte, v string) ([]byte, error) {
	if v == "oh" {
		panic("oh")
	}
	return append(b, v...), nil
}

func (touchy) Decode(p []byte) (string, error) {
	if string(p) == "read" {
		panic("oh")
	}
	return string(p), nil
}

// A codec that panics fails its message, wherever it does so: where it is sent, at the
// home that reads it, at the home that answers (in a goroutine that nobody stands
// behind), and at the asker. Nothing is left open.
func TestCodecsThatPanicAreContained(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		var regions []*Region[string, string]
		for i := range 2 {
			n := c.add(fmt.Sprint("n", i))
			r, err := Register(n.reg, Type[string, string]{
				Name: "t", ReqCodec: touchy{}, RespCodec: touchy{},
				New: func(string) Entity[string, string] {
					return Func(func(_ *Context, req string) (string, error) {
						return map[string]string{"answer oh": "oh", "answer read": "read"}[req], nil
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
		far := ""
		for i := 0; far == ""; i++ {
			id := fmt.Sprint("e", i)
			if _, err := regions[0].Ask(within(t, time.Second), id, ""); err != nil {
				t.Fatal(err)
			}
			if l, err := c.nodes[0].reg.Where(within(t, time.Second), "t", id); err == nil && l.Node == 2 {
				far = id
			}
		}
		for _, req := range []string{"oh", "read", "answer oh", "answer read"} {
			if _, err := regions[0].Ask(within(t, time.Second), far, req); !errors.Is(err, ErrCodec) || Retryable(err) {
				t.Errorf("%q: %v", req, err)
			}
		}
		if err := regions[0].Tell(t.Context(), far, "oh"); !errors.Is(err, ErrCodec) {
			t.Errorf("Tell: %v", err)
		}
		if _, err := regions[0].Ask(within(t, time.Second), far, "well"); err != nil {
			t.Error(err)
		}
		if n := regions[0].Stats().Asks; n != 0 {
			t.Errorf("%d asks are left open", n)
		}
	})
}

// What an entity is told by another and hands on is its answer: whoever asked it must
// not take it for news of his own message, which has run.
func TestAnErrorHandedOnIsNoNewsOfTheMessage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		var regions []*Region[string, string]
		for i := range 2 {
			n := c.add(fmt.Sprint("n", i))
			r, err := Register(n.reg, Type[string, string]{Name: "t", New: func(string) Entity[string, string] {
				return Func(func(_ *Context, req string) (string, error) {
					return "", map[string]error{
						"full": ErrMailboxFull, "gone": ErrAbandoned, "panic": &PanicError{Value: "there"},
						"state": ErrState, "kept": ErrNotKept, "worker": ErrNoWorker,
					}[req]
				})
			}})
			if err != nil {
				t.Fatal(err)
			}
			regions = append(regions, r)
			n.start()
		}
		c.install(c.nodes...)
		for i, r := range regions {
			for _, req := range []string{"full", "gone", "panic", "state", "kept", "worker"} {
				_, err := r.Ask(within(t, time.Second), "a", req)
				var said *HandlerError
				if !errors.As(err, &said) || Retryable(err) || OutcomeUnknown(err) || said.Text == "" {
					t.Errorf("node %d, %s: %T %v", i, req, err, err)
				}
			}
		}
	})
}

// An entity whose mailbox is full and that tells itself something is refused at once: it
// would wait for itself, and for ever where no deadline ends its Context.
func TestNobodyWaitsForItself(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newCluster(t).add("n1")
		told := make(chan error, 1)
		gate := make(chan struct{})
		var r *Region[string, string]
		r, err := Register(n.reg, Type[string, string]{Name: "t", Limits: Limits{Mailbox: 2}, New: func(string) Entity[string, string] {
			return Func(func(ctx *Context, req string) (string, error) {
				if req == "again" {
					<-gate
					told <- r.Tell(ctx, ctx.ID(), "more")
				}
				return "", nil
			})
		}})
		if err != nil {
			t.Fatal(err)
		}
		n.start()
		n.c.install(n)
		if _, err := r.Ask(within(t, time.Second), "a", ""); err != nil {
			t.Fatal(err)
		}
		for _, req := range []string{"again", "x", "x"} {
			if err := r.Tell(context.Background(), "a", req); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		close(gate)
		synctest.Wait()
		select {
		case err := <-told:
			if !errors.Is(err, ErrMailboxFull) {
				t.Errorf("told itself: %v", err)
			}
		default:
			t.Fatal("the entity waits for itself")
		}
		if _, err := r.Ask(within(t, time.Second), "a", ""); err != nil {
			t.Error(err)
		}
	})
}

// Others are waited for as long as the Context lasts, also those that share the type or
// the id.
func TestEntitiesWaitForEachOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newCluster(t).add("n1")
		gate := make(chan struct{})
		told := make(chan error, 2)
		var rs [2]*Region[string, string]
		for i, name := range []string{"t", "u"} {
			r, err := Register(n.reg, Type[string, string]{Name: name, Limits: Limits{Mailbox: 1}, New: func(string) Entity[string, string] {
				return Func(func(ctx *Context, req string) (string, error) {
					switch req {
					case "stuck":
						<-gate
					case "t", "u":
						to := map[string]*Region[string, string]{"t": rs[0], "u": rs[1]}[req]
						told <- to.Tell(ctx, map[string]string{"t": "b", "u": ctx.ID()}[req], "more")
					}
					return "", nil
				})
			}})
			if err != nil {
				t.Fatal(err)
			}
			rs[i] = r
		}
		n.start()
		n.c.install(n)
		for _, m := range []struct {
			r   *Region[string, string]
			id  string
			req string
		}{{rs[0], "b", "stuck"}, {rs[0], "b", "x"}, {rs[1], "a", "stuck"}, {rs[1], "a", "x"}, {rs[0], "c", "t"}, {rs[0], "a", "u"}} {
			if err := m.r.Tell(t.Context(), m.id, m.req); err != nil {
				t.Fatal(err)
			}
			pass(time.Second)
		}
		waiting := len(told) == 0
		close(gate)
		if !waiting {
			t.Fatalf("refused: %v", <-told)
		}
		for range 2 {
			if err := <-told; err != nil {
				t.Error(err)
			}
		}
	})
}
