package activation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/loglimit"
)

// Config is what a Host needs. Fields without a named default must be set.
type Config[C, Req, Resp any] struct {
	Type string
	// Node is this incarnation of the node.
	Node gossip.NodeID
	// Shards is the number of shards of the type.
	Shards uint32
	New    func(id string) Entity[C, Req, Resp]
	// Make is New for a type that may refuse the start of an instance; nil: New is used.
	Make func(id string) (Entity[C, Req, Resp], error)
	// Alive reports whether the node may run entities now: asked before every
	// dispatch.
	Alive   func() bool
	Replies Replies[Resp]
	// Confirm takes the outcomes of reliable messages; it may be nil where none come.
	Confirm Confirm
	// Control tells control messages, which are handled before all others; nil: none
	// are. It is called by senders and must be quick.
	Control func(Req) bool
	// Decode decodes the payload of Message.SetLate. If it fails, Undecoded is called in place of the
	// handler, counts the message, and answers its asker. Both run in handlers' goroutines.
	// Both may be nil if no message has a Late.
	Decode    func([]byte) (Req, error)
	Undecoded func(to ReplyTo, err error)
	// Lived is told when an instance has begun (true), and when one has ended by its own
	// wish; nil: nobody is. It is called by handlers' goroutines and must not block.
	Lived func(shard ShardID, id string, lives bool)
	// Fell is told of an entity that is left without an instance since a panic ended
	// it, or none could be made; perhaps of one that ended by its own wish, too. nil:
	// nobody is told. It is called by handlers' goroutines and must not block.
	Fell func(shard ShardID, id string)
	// Supervision says what a panic does.
	Supervision Supervision
	// Mailbox is how many messages may wait for one entity.
	Mailbox int
	// IdleTimeout ends instances without mail; 0 never.
	IdleTimeout time.Duration
	// Passivation limits the number of instances. Limit, if set, is where the present
	// limit stands instead: it may change at any time, and must be positive.
	Passivation Passivation
	Limit       *atomic.Int64
	// StopTimeout bounds the end of a passivated instance; 0: it may take for ever.
	StopTimeout time.Duration
	// Keeper replicates the states of the entities; nil: they live here alone.
	Keeper Keeper
	// BlockedAfter is how long a call of an entity's code may take before it is logged
	// and counted as blocked; 0 never.
	BlockedAfter time.Duration
	// Took is told how long a handler ran, for one message of sampleEvery; nil: nobody is.
	// It is called by handlers' goroutines and must not block.
	Took func(time.Duration)
	// Context returns a new Context as the entities see it, and the Context of this package
	// in it.
	Context func() (C, *Context)
	// Strict gives each call a Context of its own, so that late use of one is found.
	Strict bool
	// Epoch is the origin of Message.Expires.
	Epoch    time.Time
	Counters *Counters
	Logger   *slog.Logger
}

// Host runs the entities of one type for one incarnation of a node. All methods
// are safe for concurrent use. None but Close waits for user code.
type Host[C, Req, Resp any] struct {
	cfg    Config[C, Req, Resp]
	shards []atomic.Pointer[Shard[C, Req, Resp]]

	// mu serialises StartShard, StopShard, Abandon and Close; the data path never
	// takes it.
	mu     sync.Mutex
	closed bool
	base   context.Context
	cancel context.CancelFunc

	boxes  sync.Pool
	hands  sync.Pool
	queues [queues]runQueue[C, Req, Resp]
	// wake is set while a look at the parked instances is due.
	wake atomic.Bool
	// work counts goroutines and timers' functions.
	work sync.WaitGroup
	// sweeps counts the looks for idle instances: the clock of instance.used.
	sweeps atomic.Uint32
	stop   chan struct{}
	// hosted counts shards.
	hosted atomic.Int32
	// failedStarts bounds what is logged of starts that nobody asked for.
	failedStarts loglimit.Budget
	// blocked bounds what is logged of calls that block.
	blocked loglimit.Budget
	// keeps is set once an instance was a Snapshotter.
	keeps atomic.Bool
}

// ErrClosed: the Host is closed.
var ErrClosed = errors.New("activation: host closed")

// NewHost returns a Host without shards. Close it.
func NewHost[C, Req, Resp any](cfg Config[C, Req, Resp]) *Host[C, Req, Resp] {
	h := &Host[C, Req, Resp]{
		cfg:    cfg,
		shards: make([]atomic.Pointer[Shard[C, Req, Resp]], cfg.Shards),
		stop:   make(chan struct{}),
	}
	h.base, h.cancel = context.WithCancel(context.Background())
	h.boxes.New = func() any { return new(box[Req]) }
	h.hands.New = func() any { return newHands[C, Req, Resp](cfg.Type, cfg.Context) }
	for i := range h.queues {
		h.queues[i].host = h
	}
	if cfg.Passivation.Limit > 0 {
		h.work.Go(h.shrink)
	}
	if cfg.IdleTimeout > 0 {
		h.work.Go(h.sweep)
	}
	if cfg.BlockedAfter > 0 {
		h.work.Go(h.watch)
	}
	return h
}

// Shard returns the shard if it is hosted here, nil otherwise. The shard may be
// stopping; Deliver tells.
func (h *Host[C, Req, Resp]) Shard(number ShardID) *Shard[C, Req, Resp] {
	if number >= ShardID(len(h.shards)) {
		return nil
	}
	return h.shards[number].Load()
}

// StartShard begins to host a shard under a token and returns it. States, which
// may be nil, came with it from its former home; the Host keeps them. Starting what
// runs under the same token already is no error. A shard that still runs under
// another token must be stopped or abandoned first.
func (h *Host[C, Req, Resp]) StartShard(number ShardID, token Token, states map[string][]byte) (*Shard[C, Req, Resp], error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, ErrClosed
	}
	if number >= ShardID(len(h.shards)) {
		return nil, fmt.Errorf("activation: shard %d of %d", number, len(h.shards))
	}
	if old := h.shards[number].Load(); old != nil {
		if old.info.token == token {
			return old, nil
		}
		return nil, fmt.Errorf("activation: shard %d runs under token %v, not %v", number, old.info.token, token)
	}
	s := newShard(h, number, token)
	s.remember(states)
	s.carry = states
	h.shards[number].Store(s)
	h.hosted.Add(1)
	return s, nil
}

// Abandon drops every instance of every shard without running user code. When it
// returns, no handler will begin; those that run are told through their context,
// and their replies will say ErrAbandoned.
func (h *Host[C, Req, Resp]) Abandon() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.shards {
		if s := h.shards[i].Load(); s != nil {
			s.abandon()
		}
	}
}

// AbandonShard does for one shard what Abandon does for all.
func (h *Host[C, Req, Resp]) AbandonShard(number ShardID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.Shard(number); s != nil {
		s.abandon()
	}
}

// Close abandons everything and waits until the Host's goroutines have ended. A
// handler that ignores its context holds it up until ctx ends: then Close fails with an
// *UnfinishedError. Idempotent.
func (h *Host[C, Req, Resp]) Close(ctx context.Context) error {
	h.mu.Lock()
	first := !h.closed
	h.closed = true
	h.mu.Unlock()
	if first {
		h.calls(time.Now()) // what runs from here on has an age
		h.Abandon()
		h.cancel()
		close(h.stop)
	}
	ended := make(chan struct{})
	go func() {
		h.work.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		left := h.Running(true)
		if len(left) == 0 {
			return nil // what still ends is the Host's own
		}
		slices.SortStableFunc(left, func(a, b Running) int { return cmp.Compare(b.For, a.For) })
		return &UnfinishedError{Handlers: left, Cause: ctx.Err()}
	}
}

// Count returns how many shards are hosted here.
func (h *Host[C, Req, Resp]) Count() int {
	n := 0
	for i := range h.shards {
		if h.shards[i].Load() != nil {
			n++
		}
	}
	return n
}

// callEvery calls f once each interval until f returns false, or the Host is closed.
func (h *Host[C, Req, Resp]) callEvery(interval time.Duration, f func() (again bool)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-h.stop:
			return
		case <-tick.C:
		}
		if !f() {
			return
		}
	}
}

// forget takes a shard that has ended out of the table.
func (h *Host[C, Req, Resp]) forget(s *Shard[C, Req, Resp]) {
	if h.shards[s.info.number].CompareAndSwap(s, nil) {
		h.hosted.Add(-1)
	}
}
