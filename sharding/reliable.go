package sharding

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/peerage-go/peerage/internal/core/reliable"
	"github.com/peerage-go/peerage/internal/delivery"
	"github.com/peerage-go/peerage/internal/delivery/endpoint"
	"github.com/peerage-go/peerage/internal/failure"
)

// Errors of Reliable; see the table of the package comment.
var (
	ErrWindowFull     error = failure.WindowFull
	ErrReliableClosed error = failure.ReliableClosed
	ErrUnconfirmed    error = failure.Unconfirmed
	ErrResultLost     error = failure.ResultLost
)

// ReliableConfig holds the settings of a Reliable. Zero fields mean defaults.
type ReliableConfig[Req any] struct {
	// Window is the maximum distance between the newest message to a shard and its oldest
	// unconfirmed one. It bounds the messages in flight to a shard that does not respond. It
	// is at most 4,096. A larger window keeps a fast consumer busy over a slow network. A
	// smaller window leaves fewer messages to run again after a crash. Default: 256.
	Window int
	// Messages bounds the unconfirmed messages over all shards. Default: 10,000.
	Messages int
	// Bytes bounds their encoded size. Default: 16 MiB.
	Bytes int
	// Resend is how long the oldest message for an entity may stay unanswered before it is
	// retransmitted. It is at least 1 ms. Each further retransmission waits twice as long,
	// up to eight times. A message that is certainly lost is retransmitted immediately, so
	// Resend is for silence. Default: 1 s.
	Resend time.Duration
	// OnConfirm is called for every finished message, one at a time, from a goroutine of
	// the Reliable. The message counts as unconfirmed until OnConfirm returns, so a slow
	// OnConfirm slows Send down. It must not wait for Send, Flush or Close of the same
	// Reliable. A panic in it is not recovered. Default: no calls.
	//
	// req is a copy. err is nil, or:
	//
	//  - the handler's error (*HandlerError, ErrPanicked);
	//  - ErrState: the change of the message was undone, since it cannot be replicated;
	//  - ErrResultLost: the message was handled, but the reply was lost;
	//  - ErrCodec or ErrTooLarge: the message will never be handled.
	OnConfirm func(id string, req Req, err error)
}

func (c ReliableConfig[Req]) withDefaults() ReliableConfig[Req] {
	for _, f := range []struct {
		field *int
		value int
	}{{&c.Window, 256}, {&c.Messages, 10_000}, {&c.Bytes, 16 << 20}} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	if c.Resend == 0 {
		c.Resend = time.Second
	}
	return c
}

// Validate returns an error that lists every invalid setting.
func (c ReliableConfig[Req]) Validate() error {
	c = c.withDefaults()
	var errs []error
	if c.Window < 0 || c.Window > reliable.WindowMax {
		errs = append(errs, fmt.Errorf("sharding: Window must be 1 to %d, is %d", reliable.WindowMax, c.Window))
	}
	if c.Messages < 0 || c.Bytes < 0 {
		errs = append(errs, errors.New("sharding: Messages and Bytes must not be negative"))
	}
	if c.Resend < time.Millisecond {
		errs = append(errs, fmt.Errorf("sharding: Resend must be at least a millisecond, is %v", c.Resend))
	}
	return errors.Join(errs...)
}

// Reliable delivers at least once, and exactly once as long as homes do not crash. It
// retransmits a message until its home confirms that the handler ran. A home runs no
// message twice.
//
// The shard remembers which messages have run, and this memory moves with it. So a message
// runs once across rebalances, drains, lost connections and passivation. If a home crashes
// or loses its lease, messages that it had run but not confirmed run again at the next
// home. Messages to one entity run in the order of Send. After a crash, retransmission
// begins with the oldest unconfirmed message and leaves none out.
//
// Unconfirmed messages live in the memory of this process and end with it. A handler that
// returns an error or panics has run: the message is confirmed with that error. An instance
// that does not begin, because New, Restore or OnStart fails or panics, has run nothing:
// the message is sent again until an instance begins. There is no order between a Reliable
// and Tell, Ask, or another Reliable. A handler may stash; the message is confirmed once it
// has finally run. Messages of a Reliable are never control messages (Type.Control).
//
// A shard remembers 1,024 producers and 16,384 of their messages. If it has to forget more,
// it forgets those silent longest first, and Stats counts it. Make one Reliable for each
// stream of work, not for each message.
//
// A Reliable outlives incarnations of the node, like its Region. All methods are safe for
// concurrent use.
type Reliable[Req any] struct {
	l *delivery.Producer
	// encode makes a frame of a message.
	encode func(ctx context.Context, in endpoint.Origin, id string, req Req) (ShardID, []byte, error)
	// intercepted sends a message through the interceptors of the type; nil means that there
	// are none.
	intercepted func(ctx context.Context, id string, req Req, send func(context.Context) error) error
}

// Reliable returns a new producer, which the caller must close. It fails if cfg is invalid.
func (r *Region[Req, Resp]) Reliable(cfg ReliableConfig[Req]) (*Reliable[Req], error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	core := reliable.Config{
		Producer: newProducer(), Window: cfg.Window, Messages: cfg.Messages, Bytes: cfg.Bytes,
		Resend: cfg.Resend, KeepDone: cfg.OnConfirm != nil,
	}
	report := cfg.OnConfirm
	if report != nil {
		report = func(id string, req Req, err error) { cfg.OnConfirm(id, req, inGroup(err)) }
	}
	s := &Reliable[Req]{
		l:      delivery.NewProducer(r.typed.Router, core, r.typed.ReliableReporter(report)),
		encode: r.typed.EncodeReliable,
	}
	if r.sends != nil {
		s.intercepted = r.interceptSend
	}
	return s, nil
}

// newProducer returns a number that no other producer has.
func newProducer() reliable.Producer {
	for {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		if n := reliable.Producer(binary.BigEndian.Uint64(b[:])); n != 0 {
			return n
		}
	}
}

// Send adds a message to the window and returns nil. The message will then be delivered as
// long as this process lives and Close is not called. If there is no room, Send waits until
// ctx ends, then fails with ErrWindowFull. The message is encoded before Send returns, and
// may be changed afterwards.
//
// Send also fails with ErrBadID, ErrNoShard, ErrHeaders, ErrCodec, ErrTooLarge, ErrReliableClosed, with
// ErrNodeStopping if the Registry is closed, and with ctx's error if ctx had ended before.
//
// If ctx is the Context of a handler, the sender is that handler's entity.
func (s *Reliable[Req]) Send(ctx context.Context, id string, req Req) error {
	if s.intercepted != nil {
		return s.intercepted(ctx, id, req, func(ctx context.Context) error { return s.sendNow(ctx, id, req) })
	}
	return s.sendNow(ctx, id, req)
}

func (s *Reliable[Req]) sendNow(ctx context.Context, id string, req Req) error {
	o, err := originOf(ctx)
	if err != nil {
		return inGroup(err)
	}
	shard, frame, err := s.encode(ctx, o, id, req)
	if err != nil {
		return inGroup(err)
	}
	return inGroup(s.l.Send(ctx, shard, id, frame))
}

// Flush waits until every message sent before it is confirmed, and OnConfirm has returned
// for it. It fails with ctx's error, ErrReliableClosed and ErrNodeStopping.
func (s *Reliable[Req]) Flush(ctx context.Context) error { return inGroup(s.l.Flush(ctx)) }

// Unconfirmed returns the number of messages that are not confirmed yet.
func (s *Reliable[Req]) Unconfirmed() int { return s.l.Unconfirmed() }

// Close ends the producer. Unconfirmed messages are not sent again, and may have run or
// not; then Close fails with ErrUnconfirmed. Call Flush first. Close waits for a running
// OnConfirm. It is idempotent.
func (s *Reliable[Req]) Close() error {
	if left := s.l.Close(); left > 0 {
		return inGroup(fmt.Errorf("%w: %d", ErrUnconfirmed, left))
	}
	return nil
}
