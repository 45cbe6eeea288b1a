package sharding

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/reliable"
	"github.com/peerage-go/peerage/internal/core/route"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/signal"
	"github.com/peerage-go/peerage/internal/transport"
)

// line is the shell of one reliable producer. Whoever sends steps the core, under
// mu, and sends what it says; all else that happens is noted by those who see it
// and worked off by the line's own goroutine: they hold locks, or read connections.
type line struct {
	r     *router
	id    reliable.Producer
	clock clock.Clock
	// confirmed is told what is over, from the line's goroutine; it may be nil.
	confirmed func(reliable.Done)
	room      signal.Signal
	signal    chan struct{}
	end       chan struct{}
	ended     chan struct{}

	mu     sync.Mutex
	closed bool
	core   *reliable.Sender
	out    reliable.Effects
	// done waits for confirmed to be called; finished counts those calls.
	done           []reliable.Done
	settled, asked uint64
	resends        atomic.Uint64

	noteMu sync.Mutex
	notes  []reliable.Event
	// notesMax bounds notes: what is dropped is sent, and answered, again.
	notesMax int
}

func newLine(r *router, cfg reliable.Config, confirmed func(reliable.Done)) *line {
	l := &line{
		r: r, id: cfg.Producer, clock: clock.Runtime(), confirmed: confirmed,
		core: reliable.NewSender(cfg), notesMax: 4*cfg.Messages + int(r.shards),
		signal: make(chan struct{}, 1), end: make(chan struct{}), ended: make(chan struct{}),
	}
	r.addLine(l)
	go l.run()
	return l
}

// send takes a message into the window, waiting for room until ctx ends.
func (l *line) send(ctx context.Context, shard ShardID, id string, frame []byte) error {
	for {
		if ok, err := l.offer(shard, id, frame); ok || err != nil {
			return err
		}
		woken := l.room.Wait()
		if ok, err := l.offer(shard, id, frame); ok || err != nil {
			return err
		}
		select {
		case <-woken:
		case <-ctx.Done():
			return giveUp(ErrWindowFull, ctx)
		}
	}
}

func (l *line) offer(shard ShardID, id string, frame []byte) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.over(); err != nil {
		return false, err
	}
	before := l.core.Deadline()
	l.step(reliable.Offer{Shard: shard, ID: id, Data: frame})
	if !l.out.Taken {
		return false, nil
	}
	l.pump()
	if len(l.done) > 0 || l.core.Deadline().Before(before) {
		l.wake()
	}
	return true, nil
}

// over says why nothing more is taken; called with the mutex.
func (l *line) over() error {
	switch {
	case l.closed:
		return ErrReliableClosed
	case l.r.closed.Load():
		return ErrNodeStopping
	}
	return nil
}

// step is called with the mutex.
func (l *line) step(ev reliable.Event) {
	l.out.Reset()
	l.core.Step(l.clock.Now(), ev, &l.out)
	l.done = append(l.done, l.out.Done...)
	l.asked += uint64(len(l.out.Done))
}

// pump sends what is to be sent; called with the mutex.
func (l *line) pump() {
	for {
		t, ok := l.core.Next(l.clock.Now())
		if !ok {
			return
		}
		at, err := l.r.sendSure(&t)
		switch {
		case errors.Is(err, transport.ErrFrameTooLarge):
			l.step(reliable.Sent{Shard: t.Shard, Seq: t.Stamp.Seq})
			l.step(reliable.Confirmed{Shard: t.Shard, Seq: t.Stamp.Seq, Result: ErrTooLarge})
		case err == errStopped:
			l.step(reliable.Blocked{Shard: t.Shard, ID: t.ID})
		case err != nil:
			l.step(reliable.Blocked{Shard: t.Shard})
		default:
			if t.Stamp.Try > 1 {
				l.resends.Add(1)
			}
			l.step(reliable.Sent{Shard: t.Shard, Seq: t.Stamp.Seq, At: at})
		}
	}
}

// note is called by whoever sees that something happened; it does not block.
func (l *line) note(ev reliable.Event) {
	l.noteMu.Lock()
	if len(l.notes) < l.notesMax {
		l.notes = append(l.notes, ev)
	}
	l.noteMu.Unlock()
	l.wake()
}

func (l *line) wake() {
	select {
	case l.signal <- struct{}{}:
	default:
	}
}

func (l *line) run() {
	defer close(l.ended)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-l.end:
			return
		case <-l.signal:
		case <-timer.C:
		}
		timer.Reset(l.work())
	}
}

// work takes the notes and what time has brought, hands out what is over, and
// returns how long there is nothing to do.
func (l *line) work() time.Duration {
	l.noteMu.Lock()
	notes := l.notes
	l.notes = nil
	l.noteMu.Unlock()

	l.mu.Lock()
	for _, ev := range notes {
		l.step(ev)
	}
	if !l.clock.Now().Before(l.core.Deadline()) {
		l.step(reliable.Tick{})
	}
	l.pump()
	done := l.done
	l.done = nil
	l.mu.Unlock()

	l.report(done)

	l.mu.Lock()
	defer l.mu.Unlock()
	if len(done) > 0 {
		l.room.Broadcast()
	}
	if len(l.done) > 0 {
		l.wake()
	}
	next := l.core.Deadline()
	if next == clock.Never {
		return time.Hour
	}
	return clock.Ahead(next.Sub(l.clock.Now()))
}

// report tells what is over. What the application is told of counts as held until
// it has been told.
func (l *line) report(done []reliable.Done) {
	for _, d := range done {
		select {
		case <-l.end:
			return
		default:
		}
		l.r.counters.confirmed(d.Result)
		if l.confirmed != nil {
			l.confirmed(d)
		}
		l.mu.Lock()
		if l.confirmed != nil {
			l.step(reliable.Released{Messages: 1, Bytes: len(d.Data)})
		}
		l.settled++
		l.mu.Unlock()
	}
}

// flush waits until all that was sent before is over.
func (l *line) flush(ctx context.Context) error {
	l.mu.Lock()
	marks := l.core.Marks()
	l.mu.Unlock()
	asked, past := uint64(0), false
	for {
		woken := l.room.Wait()
		l.mu.Lock()
		if !past && l.core.Past(marks) {
			asked, past = l.asked, true
		}
		over, ready := l.over(), past && l.settled >= asked
		l.mu.Unlock()
		switch {
		case ready:
			return nil
		case over != nil:
			return over
		}
		select {
		case <-woken:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// close ends the line and returns how many messages were unconfirmed.
func (l *line) close() (left int) {
	l.mu.Lock()
	first := !l.closed
	l.closed = true
	left, _ = l.core.Held()
	l.mu.Unlock()
	if first {
		l.r.dropLine(l)
		close(l.end)
	}
	<-l.ended
	l.room.Broadcast()
	return left
}

// unconfirmed returns how much the line holds.
func (l *line) unconfirmed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, _ := l.core.Held()
	return n
}

// lines are the reliable producers of a type on this node.
type lines struct {
	all atomic.Pointer[[]*line]
	// linesMu orders changes; those who read take the slice as it is.
	linesMu sync.Mutex
	// closedResends are those of lines that are no more.
	closedResends atomic.Uint64
}

func (ls *lines) eachLine(f func(*line)) {
	if all := ls.all.Load(); all != nil {
		for _, l := range *all {
			f(l)
		}
	}
}

func (ls *lines) addLine(l *line) {
	ls.linesMu.Lock()
	defer ls.linesMu.Unlock()
	var all []*line
	ls.eachLine(func(o *line) { all = append(all, o) })
	all = append(all, l)
	ls.all.Store(&all)
}

func (ls *lines) dropLine(l *line) {
	ls.linesMu.Lock()
	defer ls.linesMu.Unlock()
	all := slices.DeleteFunc(slices.Clone(*ls.all.Load()), func(o *line) bool { return o == l })
	ls.all.Store(&all)
	ls.closedResends.Add(l.resends.Load())
}

// announce notes something that concerns all producers.
func (ls *lines) announce(ev reliable.Event) { ls.eachLine(func(l *line) { l.note(ev) }) }

// tellOne notes something that concerns one producer.
func (ls *lines) tellOne(id reliable.Producer, ev reliable.Event) {
	ls.eachLine(func(l *line) {
		if l.id == id {
			l.note(ev)
		}
	})
}

// sendSure makes one attempt to send a copy of a reliable message: only when it can
// leave at once. It never goes into a buffer, where it could outlive what is known
// of it at its home: the window is its buffer.
func (r *router) sendSure(t *reliable.Transmit) (at gossip.NodeID, err error) {
	rt := &r.routes[t.Shard]
	rt.mu.Lock()
	defer rt.mu.Unlock()
	inc := r.now.Load()
	switch {
	case r.closed.Load():
		return 0, ErrNodeStopping
	case inc == nil:
		return 0, ErrNotReady
	}
	it := newItem(message{frame: t.Data, handler: true}, t.ID, false)
	a := rt.core.OfferNow(&it)
	r.carryOut(inc, rt)
	switch a.Kind {
	case route.NoHome:
		return 0, ErrNoHome
	case route.Stopped:
		return 0, errStopped
	case route.Wait:
		return 0, errHeldUp
	}
	q, err := frames.ParseRequest(t.Data)
	if err != nil {
		return 0, err
	}
	t.Stamp.Put(q.Reliable)
	return a.To, r.performOffered(inc, rt, &a)
}

func (c *counters) confirmed(result error) {
	if isOne(result, ErrCodec, ErrTooLarge) {
		c.sureGivenUp.Add(1)
		return
	}
	c.sureDone.Add(1)
}

func (r *router) fillReliable(s *Stats) {
	s.Reliable.Confirmed, s.Reliable.GivenUp = r.counters.sureDone.Load(), r.counters.sureGivenUp.Load()
	s.Reliable.Resends = r.closedResends.Load()
	r.eachLine(func(l *line) {
		s.Reliable.Unconfirmed += l.unconfirmed()
		s.Reliable.Resends += l.resends.Load()
	})
}
