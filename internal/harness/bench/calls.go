package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/sharding"
)

type rate struct {
	n   float64
	err error
}

// perSecond lets callers do something again and again for a while, each at least one time, and
// returns how often they did together.
func perSecond(callers int, d time.Duration, caller func(i int) func() error) rate {
	var done atomic.Uint64
	var failed atomic.Pointer[error]
	var stop atomic.Bool
	var wg sync.WaitGroup
	began := time.Now()
	for i := range callers {
		do := caller(i)
		wg.Go(func() {
			n := uint64(0)
			for ; n == 0 || !stop.Load(); n++ {
				if err := do(); err != nil {
					failed.Store(&err)
					return
				}
			}
			done.Add(n)
		})
	}
	<-time.After(d)
	stop.Store(true)
	wg.Wait()
	r := rate{n: float64(done.Load()) / time.Since(began).Seconds()}
	if err := failed.Load(); err != nil {
		r.err = *err
	}
	return r
}

// remote is a node of this process that sends to entities of the other one.
type remote struct {
	host *host
	node *peerage.Node
	raw  *sharding.Region[[]byte, []byte]
	refs []sharding.Ref[[]byte, []byte]
}

const remoteIDs = 1000

func startRemote(ctx context.Context) (*remote, error) {
	h, err := startHost()
	if err != nil {
		return nil, err
	}
	r := &remote{host: h}
	cfg := peerage.LocalConfig()
	cfg.Listen, cfg.Join, cfg.BootstrapExpect = "127.0.0.1:0", []string{h.Listen}, 1
	if r.node, err = peerage.New(cfg); err != nil {
		h.stopProcess()
		return nil, err
	}
	if r.raw, err = sharding.Register(r.node.Registry(), rawType(nil)); err == nil {
		if err = r.node.Start(ctx); err == nil {
			err = r.warm(ctx)
		}
	}
	if err != nil {
		r.stop()
		return nil, err
	}
	return r, nil
}

// firstAskPatience bounds how long an entity's shard may take to find its first home.
const firstAskPatience = 30 * time.Second

// firstAsk asks an entity until it answers, so that the caller has cached its home.
func firstAsk[Req, Resp any](ctx context.Context, ref sharding.Ref[Req, Resp], req Req) error {
	ctx, cancel := context.WithTimeout(ctx, firstAskPatience)
	defer cancel()
	_, err := ref.Ask(ctx, req, sharding.Retry())
	return err
}

func (r *remote) warm(ctx context.Context) error {
	if err := r.node.WaitReady(ctx); err != nil {
		return err
	}
	for i := range remoteIDs {
		id := fmt.Sprintf("entity-%d", i)
		r.refs = append(r.refs, r.raw.Ref(id))
		if err := firstAsk(ctx, r.raw.Ref(id), make([]byte, rawBody)); err != nil {
			return err
		}
	}
	return nil
}

func (r *remote) stop() {
	r.node.Close()
	r.host.stopProcess()
}

// pids returns the other process.
func (r *remote) pids() []int { return []int{r.host.cmd.Process.Pid} }

// metered is what the other process has handled, and what both have dropped.
type metered struct{ handled, dropped uint64 }

// meter asks the other process.
func (r *remote) meter(ctx context.Context) (m metered, err error) {
	b, err := r.raw.Ask(ctx, meterID, []byte{0})
	if err != nil {
		return m, err
	}
	_, err = fmt.Sscan(string(b), &m.handled, &m.dropped)
	m.dropped += allDropped(r.raw.Stats())
	return m, err
}

// allDropped returns the number of dropped messages, whatever the reason.
func allDropped(s sharding.Stats) (n uint64) {
	for _, d := range s.Dropped {
		n += d
	}
	return n
}

// tells returns the messages per second that arrived at their entities.
func (r *remote) tells(ctx context.Context, senders, messages int) (float64, error) {
	before, err := r.meter(ctx)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	errs := make([]error, senders)
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			body := make([]byte, rawBody)
			for i := range messages / senders {
				if err := r.refs[(s*31+i)%len(r.refs)].Tell(ctx, body); err != nil {
					errs[s] = err
					return
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	want := uint64(messages / senders * senders)
	for {
		m, err := r.meter(ctx)
		if err != nil {
			return 0, err
		}
		if n := m.handled - before.handled; n+m.dropped-before.dropped >= want {
			return float64(n) / time.Since(began).Seconds(), nil
		}
		if err := harness.Pause(ctx, time.Millisecond); err != nil {
			return 0, err
		}
	}
}

func (r *remote) askRate(ctx context.Context, callers int, d time.Duration, opts ...sharding.AskOption) (float64, error) {
	got := perSecond(callers, d, func(i int) func() error {
		body := make([]byte, rawBody)
		k := i * 31
		return func() error {
			k++
			_, err := r.refs[k%len(r.refs)].Ask(ctx, body, opts...)
			return err
		}
	})
	return got.n, got.err
}

func (r *remote) askTimes(ctx context.Context, d time.Duration) ([]time.Duration, error) {
	var times []time.Duration
	body := make([]byte, rawBody)
	for end, i := time.Now().Add(d), 0; time.Now().Before(end); i++ {
		began := time.Now()
		if _, err := r.refs[i%len(r.refs)].Ask(ctx, body); err != nil {
			return nil, err
		}
		times = append(times, time.Since(began))
	}
	return times, nil
}

// local is a cluster of one with entities that do nothing.
type local struct {
	node *peerage.Node
	ints *sharding.Region[int, int]
	// sent counts the messages that entities have accepted.
	sent uint64
}

func startLocal(ctx context.Context) (*local, error) {
	node, err := peerage.New(peerage.Config{Bootstrap: true})
	if err != nil {
		return nil, err
	}
	l := &local{node: node}
	l.ints, err = sharding.Register(node.Registry(), sharding.Type[int, int]{
		Name: "ints",
		New: func(string) sharding.Entity[int, int] {
			return sharding.Func(func(_ *sharding.Context, i int) (int, error) { return i, nil })
		},
	})
	if err == nil {
		err = node.Start(ctx)
	}
	if err == nil {
		err = node.WaitReady(ctx)
	}
	if err != nil {
		node.Close()
		return nil, err
	}
	return l, nil
}

// tells returns the messages per second that one sender gets handled.
func (l *local) tells(ctx context.Context, entities, messages int) (float64, error) {
	refs := make([]sharding.Ref[int, int], entities)
	for i := range refs {
		refs[i] = l.ints.Ref(fmt.Sprintf("entity-%d", i))
		if err := l.firstAsk(ctx, refs[i]); err != nil {
			return 0, err
		}
	}
	if err := l.awaitHandled(ctx); err != nil {
		return 0, err
	}
	began := time.Now()
	for i := range messages {
		err := refs[i%entities].Tell(ctx, i)
		for errors.Is(err, sharding.ErrMailboxFull) {
			runtime.Gosched()
			err = refs[i%entities].Tell(ctx, i)
		}
		if err != nil {
			return 0, err
		}
		l.sent++
	}
	if err := l.awaitHandled(ctx); err != nil {
		return 0, err
	}
	return float64(messages) / time.Since(began).Seconds(), nil
}

func (l *local) firstAsk(ctx context.Context, ref sharding.Ref[int, int]) error {
	err := firstAsk(ctx, ref, 0)
	if err == nil {
		l.sent++
	}
	return err
}

// awaitHandled waits until all messages that were sent count as handled: an ask may be
// answered a moment before it counts.
func (l *local) awaitHandled(ctx context.Context) error {
	for l.ints.Stats().Handled < l.sent {
		if err := ctx.Err(); err != nil {
			return err
		}
		runtime.Gosched()
	}
	return nil
}

func (l *local) askTimes(ctx context.Context, n int) ([]time.Duration, error) {
	ref := l.ints.Ref("entity-0")
	if err := l.firstAsk(ctx, ref); err != nil {
		return nil, err
	}
	times := make([]time.Duration, n)
	for i := range times {
		began := time.Now()
		if _, err := ref.Ask(ctx, i); err != nil {
			return nil, err
		}
		times[i] = time.Since(began)
		l.sent++
	}
	return times, nil
}

// idle makes n entities, lets them rest, and returns the heap and stack bytes of each.
func (l *local) idle(ctx context.Context, n int) (float64, error) {
	if err := l.firstAsk(ctx, l.ints.Ref("first")); err != nil {
		return 0, err
	}
	if err := l.awaitHandled(ctx); err != nil {
		return 0, err
	}
	before := memory()
	for i := range n {
		if err := l.ints.Tell(ctx, fmt.Sprintf("idle-%09d", i), i); err != nil {
			return 0, err
		}
		l.sent++
	}
	if err := l.awaitHandled(ctx); err != nil {
		return 0, err
	}
	return (float64(memory()) - float64(before)) / float64(n), nil
}

// memory returns the bytes of heap in use after a collection, and of stacks.
func memory() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// rawQueue returns the messages per second from one goroutine to another through a
// slice under a mutex that the receiver takes whole: the limit of local Tell.
func rawQueue(messages int) float64 {
	var mu sync.Mutex
	var queue []int
	done := make(chan struct{})
	began := time.Now()
	go func() {
		defer close(done)
		var batch []int
		for got := 0; got < messages; got += len(batch) {
			mu.Lock()
			batch, queue = queue, batch[:0]
			mu.Unlock()
			if len(batch) == 0 {
				runtime.Gosched()
			}
		}
	}()
	for i := range messages {
		mu.Lock()
		queue = append(queue, i)
		mu.Unlock()
	}
	<-done
	return float64(messages) / time.Since(began).Seconds()
}

// rawSwitch returns the times of round trips between two goroutines.
func rawSwitch(n int) []time.Duration {
	to, back := make(chan int), make(chan int)
	go func() {
		for i := range to {
			back <- i
		}
	}()
	defer close(to)
	times := make([]time.Duration, n)
	for i := range times {
		began := time.Now()
		to <- i
		<-back
		times[i] = time.Since(began)
	}
	return times
}
