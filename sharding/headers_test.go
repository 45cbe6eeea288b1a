package sharding

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// readers are n nodes whose entities return the header "n" of a message, and record each
// message whose header differs from its request.
type readers struct {
	*cluster
	regions []*Region[string, string]
	mu      sync.Mutex
	handled int
	wrong   []string
}

func newReaders(t *testing.T, nodes int, change func(*Type[string, string])) *readers {
	r := &readers{cluster: newCluster(t)}
	for i := range nodes {
		n := r.add(fmt.Sprint("n", i+1))
		typ := Type[string, string]{
			Name: "reader", Shards: 8, RebalanceInterval: 100 * time.Millisecond,
			New: func(string) Entity[string, string] { return Func(r.read) },
		}
		if change != nil {
			change(&typ)
		}
		region, err := Register(n.reg, typ)
		if err != nil {
			t.Fatal(err)
		}
		r.regions = append(r.regions, region)
		n.start()
	}
	return r
}

func (r *readers) read(ctx *Context, req string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handled++
	if got := ctx.Header("n"); got != req {
		r.wrong = append(r.wrong, fmt.Sprintf("%q instead of %q", got, req))
	}
	return ctx.Header("n"), nil
}

// check fails the test unless some messages were handled, all with their own header.
func (r *readers) check(t *testing.T, atLeast int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.handled < atLeast || len(r.wrong) > 0 {
		t.Errorf("%d messages were handled, want at least %d; the headers of %d are wrong: %v", r.handled, atLeast, len(r.wrong), r.wrong[:min(len(r.wrong), 5)])
	}
}

// numberedBy returns ctx with the header "n".
func numberedBy(ctx context.Context, n string) context.Context {
	return WithHeaders(ctx, map[string]string{"n": n})
}

// TestHeadersTravelWithTheMessage sends through buffers, to entities here and on other nodes, by
// Tell, Ask and a Reliable.
func TestHeadersTravelWithTheMessage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newReaders(t, 3, nil)
		ctx := within(t, time.Minute)
		const each = 20
		for i := range each {
			n := strconv.Itoa(i)
			if err := r.regions[i%3].Tell(numberedBy(ctx, n), "e"+n, n); err != nil {
				t.Fatal(err)
			}
		}
		r.install(r.nodes...)
		s, err := r.regions[0].Reliable(ReliableConfig[string]{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range each {
			n := strconv.Itoa(i)
			for _, region := range r.regions {
				if got, err := region.Ask(numberedBy(ctx, n), "e"+n, n); err != nil || got != n {
					t.Errorf("%q, %v for %s", got, err, n)
				}
				if got, err := region.Ask(ctx, "e"+n, ""); err != nil || got != "" {
					t.Errorf("%q, %v without headers", got, err)
				}
			}
			if err := s.Send(numberedBy(ctx, n), "e"+n, n); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(s.Flush(ctx), s.Close()); err != nil {
			t.Fatal(err)
		}
		r.check(t, each+6*each+each)
	})
}

// TestHeadersSurviveMoves sends while shards move to new nodes and back, in order and without.
func TestHeadersSurviveMoves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		t.Cleanup(func() { pass(time.Second) }) // frames in flight arrive before the nodes close
		r := newReaders(t, 3, nil)
		r.delay = 2 * time.Millisecond
		r.install(r.nodes[0])
		ctx := within(t, 10*time.Minute)
		s, err := r.regions[0].Reliable(ReliableConfig[string]{})
		if err != nil {
			t.Fatal(err)
		}
		var sending sync.WaitGroup
		var sent atomic.Int32
		stop := make(chan struct{})
		for k := range 8 {
			sending.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
						sent.Add(1)
					}
					n := fmt.Sprintf("%d-%d", k, i)
					id, ctx := fmt.Sprint("e", i%40), numberedBy(ctx, n)
					err := s.Send(ctx, id, n)
					if i%2 == 0 {
						err = errors.Join(err, r.regions[0].Tell(ctx, id, n))
					} else if got, failed := r.regions[0].Ask(ctx, id, n, Retry()); failed != nil || got != n {
						err = errors.Join(err, failed, fmt.Errorf("%q for %q", got, n))
					}
					if err != nil {
						t.Error(err)
						return
					}
					pass(time.Millisecond)
				}
			})
		}
		pass(50 * time.Millisecond)
		r.install(r.nodes...)
		pass(300 * time.Millisecond)
		if err := r.nodes[1].s.Drain(ctx); err != nil {
			t.Error(err)
		}
		// The other node loses its lease while messages are on their way to it.
		if len(r.regions[2].Local()) == 0 {
			t.Fatal("the last node hosts nothing")
		}
		for i := range 40 {
			id := fmt.Sprint("e", i)
			if err := r.regions[0].Tell(numberedBy(ctx, id), id, id); err != nil {
				t.Error(err)
			}
		}
		r.nodes[2].setLease(false)
		r.nodes[2].s.Abandoned()
		pass(20 * time.Millisecond)
		r.install(r.nodes[0], r.nodes[1])
		pass(100 * time.Millisecond)
		close(stop)
		sending.Wait()
		if err := errors.Join(s.Flush(ctx), s.Close()); err != nil {
			t.Error(err)
		}
		pass(time.Second)
		synctest.Wait()
		r.check(t, int(sent.Load())) // a tell to an abandoned shard may be lost
		if moved := r.regions[0].Stats().Redirected; moved == 0 {
			t.Error("no message was sent again to another home: the test shows nothing about it")
		}
	})
}

func TestHeadersBeyondABoundFailTheCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newReaders(t, 1, nil)
		r.install(r.nodes...)
		ctx := within(t, time.Minute)
		s, err := r.regions[0].Reliable(ReliableConfig[string]{})
		if err != nil {
			t.Fatal(err)
		}
		many := map[string]string{}
		for i := range HeadersMax + 1 {
			many[strconv.Itoa(i)] = ""
		}
		half := strings.Repeat("v", HeaderValueBytesMax)
		for name, with := range map[string]context.Context{
			"count":       WithHeaders(ctx, many),
			"key":         WithHeaders(ctx, map[string]string{strings.Repeat("k", HeaderKeyBytesMax+1): ""}),
			"value":       WithHeaders(ctx, map[string]string{"k": half + "v"}),
			"in all":      WithHeaders(WithHeaders(ctx, map[string]string{"a": half}), map[string]string{"b": half}),
			"still wrong": WithHeaders(WithHeaders(ctx, many), map[string]string{"0": ""}),
		} {
			_, asked := r.regions[0].Ask(with, "e", "")
			for call, err := range map[string]error{
				"Ask": asked, "Tell": r.regions[0].Tell(with, "e", ""), "Start": r.regions[0].Start(with, "e"), "Send": s.Send(with, "e", ""),
			} {
				if !errors.Is(err, ErrHeaders) || !errors.Is(err, ErrInvalid) || OutcomeUnknown(err) || Retryable(err) {
					t.Errorf("%s beyond the bound: %s returns %v", name, call, err)
				}
			}
		}
		if r.handled != 0 {
			t.Errorf("%d messages were handled", r.handled)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// The map that WithHeaders is given may change afterwards, and so may the one of Headers.
func TestHeadersAreCopied(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := withInterceptors(t, nil, nil, func(ctx *Context, _ int) (int, error) {
			clear(ctx.Headers())
			if got := ctx.Headers(); !maps.Equal(got, map[string]string{"a": "1", "b": "2"}) {
				t.Errorf("headers %q", got)
			}
			return len(ctx.Headers()), nil
		})
		all := map[string]string{"a": "1"}
		ctx := WithHeaders(within(t, time.Minute), all)
		all["a"], all["c"] = "3", "4"
		ctx, cancel := context.WithCancel(context.WithValue(ctx, tenantKey{}, "x"))
		defer cancel()
		if got, err := r.Ask(WithHeaders(ctx, map[string]string{"b": "2"}), "e", 0); got != 2 || err != nil {
			t.Errorf("%d headers, %v", got, err)
		}
	})
}
