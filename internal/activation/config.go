package activation

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation/evict"
)

// Config configures a Host. Fields without a named default must be set.
type Config[C, Req, Resp any] struct {
	Type string
	// Node is this incarnation of the node.
	Node gossip.NodeID
	// Shards is the number of shards of the type.
	Shards uint32
	// New makes an instance. TryNew, if set, is called in its place, and may refuse the start.
	New    func(id string) Entity[C, Req, Resp]
	TryNew func(id string) (Entity[C, Req, Resp], error)
	// Alive reports whether the node may run entities now. It is called before each
	// message.
	Alive   func() bool
	Replies Replies[Resp]
	// Confirm receives the outcomes of reliable messages; it may be nil if there are
	// none.
	Confirm Confirm
	// Control reports whether a message is a control message, which is handled before all
	// ordinary ones; nil: there are none. It is called by senders and must be quick.
	Control func(Req) bool
	// Around, if set, is called in place of Entity.Handle, which it calls; op is the
	// operation that has sent the request.
	Around func(ctx C, op string, req Req, ent Entity[C, Req, Resp]) (Resp, error)
	// Decode decodes the payload of Message.SetLate. If it fails, Undecoded is called in
	// place of the handler, counts the message, and answers its asker. Both run in
	// handlers' goroutines. Both may be nil if SetLate is never used.
	Decode    func([]byte) (Req, error)
	Undecoded func(to ReplyTo, err error)
	// Lived is called when an instance has begun (true), and when one has ended by its
	// own request; nil: no call. It is called by handlers' goroutines and must not block.
	Lived func(shard ShardID, id string, lives bool)
	// Fell is called for an entity that is left without an instance because a panic ended
	// it, or none could be made. It may also be called for one that ended by its own
	// request. nil: no call. It is called by handlers' goroutines and must not block.
	Fell func(shard ShardID, id string)
	// Supervision defines the consequence of a panic.
	Supervision Supervision
	// Mailbox is the maximum number of messages that wait for one entity.
	Mailbox int
	// IdleTimeout ends instances without mail; 0 never.
	IdleTimeout time.Duration
	// Passivation limits the number of instances. Limit, if set, replaces its limit: it
	// may change at any time, and must be positive.
	Passivation Passivation
	Limit       *atomic.Int64
	// StopTimeout bounds the end of a passivated instance; 0 means no bound.
	StopTimeout time.Duration
	// Keeper replicates the states of the entities; nil: there are no copies.
	Keeper Keeper
	// BlockedAfter is the duration after which a call of an entity's code is logged and
	// counted as blocked; 0 never.
	BlockedAfter time.Duration
	// Took receives the duration of a handler, for one message of sampleEvery; nil: no
	// call. It is called by handlers' goroutines and must not block.
	Took func(time.Duration)
	// Context returns a new Context of the entities' type, and the Context of this
	// package in it.
	Context func() (C, *Context)
	// Strict gives each call a Context of its own, so that late use of one is found.
	Strict bool
	// Epoch is the origin of Message.Expires.
	Epoch    time.Time
	Counters *Counters
	Logger   *slog.Logger
}

// Directive is the consequence of a handler's panic for its instance. In any case the
// message that panicked fails with failure.Panicked.
type Directive uint8

const (
	// Restart drops the instance. Waiting messages go to a new one.
	Restart Directive = iota
	// Resume keeps the instance as the panic left it.
	Resume
	// Stop drops the instance, and waiting messages fail with failure.Panicked too. A later
	// message meets a new instance.
	Stop
)

// Supervision is sharding.Supervision, which documents its fields. The zero value restarts
// immediately.
type Supervision struct {
	OnPanic                Directive
	BackoffMin, BackoffMax time.Duration
}

// Validate returns an error if a setting is invalid.
func (v Supervision) Validate() error {
	if v.OnPanic > Stop || v.BackoffMin < 0 || v.BackoffMax < v.BackoffMin {
		return fmt.Errorf("Supervision must have a known OnPanic and 0 <= BackoffMin <= BackoffMax, is %+v", v)
	}
	return nil
}

// Pause returns the pause after this many panics in a row.
func (v Supervision) Pause(panics uint32) time.Duration {
	d := v.BackoffMin
	for ; panics > 1 && d < v.BackoffMax; panics-- {
		d *= 2
	}
	return min(d, v.BackoffMax)
}

// Passivation is sharding.Passivation, which documents it for users.
//
// The limit is divided evenly over the shards of the node, and each shard ends its own
// instances: the shard's mutex, which every message takes anyway, guards the order, so
// senders to different shards do not contend. One order for the whole node was rejected: it
// would use the room better when shards are uneven, but every message would take one lock.
// Hashed ids make shards even, and then the difference is small if the limit is many times
// the number of shards on a node. With few instances per shard, chance makes shards uneven,
// and one shard ends instances while another one has room.
type Passivation struct {
	// Limit is the maximum number of instances on a node; 0 means no limit.
	Limit int
	// Eviction selects the instances that end when the limit is exceeded.
	Eviction evict.Kind
}

// Keeper replicates the states of a type's entities to other nodes. Its methods are safe
// for concurrent use.
type Keeper interface {
	// Load returns the newest state of an entity, and whether there is one. The caller
	// does not change it.
	Load(shard ShardID, token Token, id string) (state []byte, ok bool)
	// Keep stores an entity's state after a message and owns state from then on. Unless
	// done is nil, it is called once: with nil when all states up to this one are safe to
	// show, else with the error for the asker, by until at the latest (zero: the keeper's
	// own limit). done may be called before Keep returns, and from any goroutine. Keep
	// blocks while too many states wait. If Keep returns an error the state was not
	// stored, and done is not called.
	Keep(shard ShardID, token Token, id string, state []byte, until time.Time, done func(error)) error
}

// Confirm receives the outcome of a copy that came from a node. all is set if all earlier
// messages for the same entity ran too. Confirm is called from goroutines that run
// handlers and must not block.
type Confirm func(from gossip.NodeID, shard ShardID, s *ReliableMark, o Outcome, all bool, err error)

// isControl reports whether a request is a control message of the type. Callers check first
// that Control is set: most types have none, and a call costs each message. Reliable
// messages are never control messages: their order is guaranteed. A panic counts as false:
// the reader of a connection may be the caller.
func (c *Config[C, Req, Resp]) isControl(m *Message[Req]) (control bool) {
	if m.timer() != nil || m.reliableMark() != nil {
		return false
	}
	defer func() {
		if v := recover(); v != nil {
			control = false
			c.Counters.Panicked.Add(1)
		}
	}()
	return c.Control(m.Req)
}
