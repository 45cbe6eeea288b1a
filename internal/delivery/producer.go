package delivery

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/reliable"
	"github.com/peerage-go/peerage/internal/driver"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/internal/signal"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Producer is the shell of one reliable producer. Send steps the core, under mu, and performs
// its effects. All other events come from goroutines that hold locks or read connections, so
// these only note the events, and the goroutine of the Producer steps the core.
type Producer struct {
	r     *Router
	id    reliable.Producer
	clock clock.Clock
	// confirmed is called for each finished message, by the Producer's goroutine; it may be
	// nil.
	confirmed func(reliable.Done)
	room      signal.Signal
	// notes are the events that other goroutines noted. A dropped one is repeated, since its
	// message is sent again.
	notes *driver.Driver[reliable.Event]
	end   chan struct{}
	ended chan struct{}

	mu     sync.Mutex
	closed bool
	core   *reliable.Sender
	out    reliable.Effects
	// done holds the messages that wait for the call of confirmed. finished counts finished
	// messages, reported those calls.
	done               []reliable.Done
	reported, finished uint64
	resends            atomic.Uint64
}

// NewProducer starts a producer of messages to the type of r. confirmed may be nil.
func NewProducer(r *Router, cfg reliable.Config, confirmed func(reliable.Done)) *Producer {
	p := &Producer{
		r: r, id: cfg.Producer, clock: clock.Runtime(), confirmed: confirmed,
		core: reliable.NewSender(cfg), end: make(chan struct{}), ended: make(chan struct{}),
	}
	p.notes = driver.New(driver.Config[reliable.Event]{Clock: p.clock, Frames: 4*cfg.Messages + int(r.shardCount)})
	r.producers.addOne(p)
	go p.runLoop()
	return p
}

// Send takes a message into the window, waiting for room until ctx ends.
func (p *Producer) Send(ctx context.Context, shard strategy.ShardID, id string, frame []byte) error {
	var woken <-chan struct{}
	for {
		if ok, err := p.tryOffer(shard, id, frame); ok || err != nil {
			return err
		}
		if woken == nil {
			// Room that came since the attempt has woken no caller: try again first.
			woken = p.room.Wait()
			continue
		}
		select {
		case <-woken:
			woken = nil
		case <-ctx.Done():
			return giveUpWaiting(failure.WindowFull, ctx)
		}
	}
}

func (p *Producer) tryOffer(shard strategy.ShardID, id string, frame []byte) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.closedError(); err != nil {
		return false, err
	}
	before, now := p.core.Deadline(), p.clock.Now()
	p.stepCore(now, reliable.Offer{Shard: shard, ID: id, Data: frame})
	if !p.out.Taken {
		return false, nil
	}
	p.sendDue(now)
	if len(p.done) > 0 || p.core.Deadline().Before(before) {
		p.notes.Wake()
	}
	return true, nil
}

// closedError returns the reason why no message is accepted, or nil; called with the mutex.
func (p *Producer) closedError() error {
	switch {
	case p.closed:
		return failure.ReliableClosed
	case p.r.closed.Load():
		return failure.NodeStopping
	}
	return nil
}

// stepCore is called with the mutex. All steps and attempts to send for which the mutex is held
// once share one reading of the clock: a reading each costs a twentieth of a message.
func (p *Producer) stepCore(now clock.Instant, ev reliable.Event) {
	p.out.Reset()
	p.core.Step(now, ev, &p.out)
	p.done = append(p.done, p.out.Done...)
	p.finished += uint64(len(p.out.Done))
}

// sendDue sends the messages that are due; called with the mutex.
func (p *Producer) sendDue(now clock.Instant) {
	for {
		t, ok := p.core.Next(now)
		if !ok {
			return
		}
		at, err := p.r.sendReliable(&t)
		switch {
		case errors.Is(err, transport.ErrFrameTooLarge):
			p.stepCore(now, reliable.Sent{Shard: t.Shard, Seq: t.Stamp.Seq})
			p.stepCore(now, reliable.Confirmed{Shard: t.Shard, Seq: t.Stamp.Seq, Result: failure.TooLarge})
		case err == errStopped:
			p.stepCore(now, reliable.Blocked{Shard: t.Shard, ID: t.ID})
		case err != nil:
			p.stepCore(now, reliable.Blocked{Shard: t.Shard})
		default:
			if t.Stamp.Try > 1 {
				p.resends.Add(1)
			}
			p.stepCore(now, reliable.Sent{Shard: t.Shard, Seq: t.Stamp.Seq, At: at})
		}
	}
}

// noteEvent notes an event for the goroutine of the Producer. It does not block.
func (p *Producer) noteEvent(ev reliable.Event) { p.notes.PutFrame(ev) }

func (p *Producer) runLoop() {
	defer close(p.ended)
	p.notes.Run(p.end, p.workNotes)
}

// workNotes steps the core with the notes and the time, reports finished messages, and returns
// the time at which it must run again.
func (p *Producer) workNotes(notes []reliable.Event) clock.Instant {
	p.mu.Lock()
	now := p.clock.Now()
	// Most notes finish a message.
	p.done = slices.Grow(p.done, len(notes))
	for _, ev := range notes {
		p.stepCore(now, ev)
	}
	if !now.Before(p.core.Deadline()) {
		p.stepCore(now, reliable.Tick{})
	}
	p.sendDue(now)
	done := p.done
	p.done = nil
	p.mu.Unlock()

	p.reportDone(done)

	p.mu.Lock()
	defer p.mu.Unlock()
	if len(done) > 0 {
		p.room.Broadcast()
	}
	if len(p.done) > 0 {
		p.notes.Wake()
	}
	return p.core.Deadline()
}

// reportDone reports finished messages. With confirmed, a message counts as held until that
// returns.
func (p *Producer) reportDone(done []reliable.Done) {
	for _, d := range done {
		select {
		case <-p.end:
			return
		default:
		}
		p.r.counters.countDone(d.Result)
		if p.confirmed != nil {
			p.confirmed(d)
		}
		p.mu.Lock()
		if p.confirmed != nil {
			p.stepCore(p.clock.Now(), reliable.Released{Messages: 1, Bytes: len(d.Data)})
		}
		p.reported++
		p.mu.Unlock()
	}
}

// Flush waits until all earlier messages are finished and reported.
func (p *Producer) Flush(ctx context.Context) error {
	p.mu.Lock()
	marks := p.core.Marks()
	p.mu.Unlock()
	asked, past := uint64(0), false
	for {
		woken := p.room.Wait()
		p.mu.Lock()
		if !past && p.core.Past(marks) {
			asked, past = p.finished, true
		}
		over, ready := p.closedError(), past && p.reported >= asked
		p.mu.Unlock()
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

// Close ends the producer and returns the number of unconfirmed messages.
func (p *Producer) Close() (left int) {
	p.mu.Lock()
	first := !p.closed
	p.closed = true
	left, _ = p.core.Held()
	p.mu.Unlock()
	if first {
		p.r.producers.removeOne(p)
		close(p.end)
	}
	<-p.ended
	p.room.Broadcast()
	return left
}

// Unconfirmed returns the number of messages that are not finished.
func (p *Producer) Unconfirmed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, _ := p.core.Held()
	return n
}

// ReliableFigures are the figures of the producers of a type on this node.
type ReliableFigures struct {
	// Producers is the number of open producers.
	Producers                   int
	Unconfirmed                 int
	Confirmed, GivenUp, Resends uint64
}

// ReliableFigures returns the figures of the producers.
func (r *Router) ReliableFigures() (f ReliableFigures) {
	f.Confirmed, f.GivenUp = r.counters.reliableDone.Load(), r.counters.reliableGivenUp.Load()
	f.Resends = r.producers.closedResends.Load()
	r.producers.forEach(func(p *Producer) {
		f.Producers++
		f.Unconfirmed += p.Unconfirmed()
		f.Resends += p.resends.Load()
	})
	return f
}
