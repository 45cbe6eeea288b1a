package load

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/history"
	"github.com/peerage-go/peerage/sharding"
)

// Reliable sends numbered reliable messages to counters of its own, and records which were accepted and
// which were confirmed. Its producer retransmits a message until it is confirmed. Its buffer is
// bounded: a message that finds no room is sent later, with the same number.
type Reliable struct {
	// First is the number of the first counter that gets messages: these counters get no
	// requests.
	First int
	// Every is the time between two messages of this process to one counter.
	Every time.Duration
	// Producer sends the messages. It reports each finished one to OnConfirm.
	Producer ReliableProducer
	// Process numbers this process in the histories.
	Process uint64
	// Turn, Leaving, Node and Tried are those of the load of counters.
	Turn    func() (place, of int)
	Leaving func() bool
	Node    func() uint64
	Tried   func(error)
	Clock   clock.Clock
	History *history.Writer
}

// ReliableProducer is the part of sharding.Reliable that the load uses.
type ReliableProducer interface {
	Send(ctx context.Context, id string, m Add) error
	Flush(ctx context.Context) error
	Close() error
}

const (
	// reliableCounters is how many counters get reliable messages from each process.
	reliableCounters = 4
	// reliableWork is how long a reliable message is handled. A crash within that time leaves
	// a message that ran and was not confirmed.
	reliableWork = 2 * time.Millisecond
	// reliableResend is how long a message waits for its confirmation before it is
	// retransmitted.
	reliableResend = 200 * time.Millisecond
	// flushPatience bounds how long a process that ends waits for confirmations.
	flushPatience = time.Second
)

// Config returns the settings of the producer.
func (l *Reliable) Config() sharding.ReliableConfig[Add] {
	return sharding.ReliableConfig[Add]{Resend: reliableResend, OnConfirm: l.OnConfirm}
}

// Run sends messages until ctx ends or the node drains. Then it waits for confirmations, and
// closes the producer: what is unconfirmed ends with this process.
func (l *Reliable) Run(ctx context.Context) {
	defer l.Producer.Close() // it reports what is unconfirmed, which the histories have
	for _, of := l.Turn(); of == 0; _, of = l.Turn() {
		if harness.Pause(ctx, l.Every) != nil {
			return
		}
	}
	var senders sync.WaitGroup
	for i := range reliableCounters {
		senders.Go(func() { l.sendTo(ctx, l.First+i) })
	}
	senders.Wait()
	patience, done := context.WithTimeout(context.Background(), flushPatience)
	defer done()
	_ = l.Producer.Flush(patience) // a failure leaves messages unconfirmed
}

// sendTo sends messages to one counter.
func (l *Reliable) sendTo(ctx context.Context, i int) {
	r := history.Record{Op: history.Accepted, Entity: uint32(i), Value: 1, Sender: l.Process}
	for harness.Pause(ctx, l.Every) == nil && !l.Leaving() {
		attempt, done := context.WithTimeout(ctx, tellPatience)
		r.Start = l.Clock.Now()
		err := l.Producer.Send(attempt, CounterID(i), Add{Number: r.Value, From: l.Process, Reliable: true, Sent: r.Start})
		done()
		switch {
		case err == nil:
			r.End, r.Node = l.Clock.Now(), l.Node()
			l.History.Write(r)
			r.Value++
		case ctx.Err() == nil && !l.Leaving() && !errors.Is(err, sharding.ErrWindowFull):
			l.Tried(err)
		}
	}
}

// OnConfirm records that a message was handled. One that no instance will ever handle stays
// unconfirmed.
func (l *Reliable) OnConfirm(id string, m Add, err error) {
	entity, ok := EntityNumber(id)
	if !ok || errors.Is(err, sharding.ErrCodec) || errors.Is(err, sharding.ErrTooLarge) {
		l.Tried(err)
		return
	}
	l.History.Write(history.Record{
		Op: history.Confirmed, Entity: entity, Node: l.Node(), Value: m.Number, Sender: m.From, Start: l.Clock.Now(),
	})
}
