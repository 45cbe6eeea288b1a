package sharding

import (
	"fmt"
	"time"

	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/activation/evict"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/delivery"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/sharding/strategy"
)

type (
	// Strategy decides which node hosts which shard.
	Strategy = strategy.Strategy
	// ShardID is the number of a shard.
	ShardID = strategy.ShardID
)

// RememberedPrefix is the prefix of the keys that hold remembered entities, in the
// distributed data of the type's role. Make it durable if these entities must return after
// all nodes were down at the same time. "remembered/", the type, the shard and one of five
// parts follow.
const RememberedPrefix = placement.RememberedPrefix

// PanicAction selects what happens to an instance whose handler panicked. In every case the
// message that was being handled fails with ErrPanicked.
type PanicAction uint8

const (
	// RestartOnPanic discards the instance. Waiting messages go to a new instance.
	RestartOnPanic = PanicAction(activation.Restart)
	// ResumeOnPanic keeps the instance as the panic left it.
	ResumeOnPanic = PanicAction(activation.Resume)
	// StopOnPanic discards the instance, and waiting messages fail with ErrPanicked too. A
	// later message starts a new instance.
	StopOnPanic = PanicAction(activation.Stop)
)

// Supervision selects the reaction of a type to panics. The zero value restarts immediately.
type Supervision struct {
	// OnPanic selects what happens to the instance. Default: RestartOnPanic.
	OnPanic PanicAction
	// BackoffMin is the pause after a panic before a new instance is made; each further
	// panic doubles the pause, up to BackoffMax. Meanwhile messages wait in the mailbox.
	// The pause starts again at BackoffMin when the entity has not panicked for BackoffMax
	// since the last pause, or had no messages at its end. ResumeOnPanic pauses only if New,
	// Restore or OnStart panicked: no instance is left to resume then. Default: no pause.
	BackoffMin time.Duration
	// BackoffMax is the longest pause. It must be at least BackoffMin.
	BackoffMax time.Duration
}

func (s Supervision) internal() activation.Supervision {
	return activation.Supervision{OnPanic: activation.Directive(s.OnPanic), BackoffMin: s.BackoffMin, BackoffMax: s.BackoffMax}
}

// Eviction selects the instances that end first when a node has more than
// Passivation.Limit. The zero Eviction is EvictLRU.
type Eviction uint8

const (
	// EvictLRU ends the instance that was used longest ago. It suits most loads.
	EvictLRU = Eviction(evict.LRU)
	// EvictTinyLFU (W-TinyLFU) admits a new instance to a small window, and from there to
	// the main area only if it is used more often than the instance that would have to
	// end. It suits mixed loads best and costs most: a sketch of 8 to 16 bytes for each of
	// the first four million places.
	EvictTinyLFU = Eviction(evict.TinyLFU)
)

// Passivation bounds the number of instances of a type on a node, and selects those that
// end first.
//
// The limit is divided evenly over the shards that the node hosts, and each shard evicts its
// own instances: so senders to different shards share no lock. Shards of unequal weight use
// the room less well. With hashed ids the difference is small if the limit is many times the
// number of shards that a node hosts.
type Passivation struct {
	// Limit is the largest number of instances on a node. There is at least one for each
	// shard, so use fewer shards than Limit. Limit may be exceeded for up to a second when
	// shards arrive, and by instances that are handling messages, or ending. Default: no
	// limit.
	Limit int
	// Eviction selects the instances that end when the limit is exceeded. An instance
	// with messages ends when it has handled them, and stays if it is used again before.
	// Default: EvictLRU.
	Eviction Eviction
}

func (p Passivation) internal() activation.Passivation {
	return activation.Passivation{Limit: p.Limit, Eviction: evict.Kind(p.Eviction)}
}

func (p Passivation) checkValues() error {
	if p.Limit < 0 || p.Eviction > EvictTinyLFU {
		return fmt.Errorf("the limit must not be negative and the eviction EvictLRU or EvictTinyLFU, are %d and %d", p.Limit, p.Eviction)
	}
	return nil
}

// ReceiveTimeout is the name with which OnTimer is called when no message was handled for
// the time set by Context.ReceiveTimeout.
const ReceiveTimeout = activation.ReceiveTimeout

// HandlerWait is the maximum time that a full mailbox delays a handler, whatever its
// Context. It ends the deadlock of two entities that send to each other while both
// mailboxes are full.
const HandlerWait = delivery.HandlerWait

// Defaults of Type and Limits.
const (
	DefaultShards      = 1000
	DefaultStopTimeout = 10 * time.Second
	// DefaultBlockedAfter is Type.BlockedAfter's.
	DefaultBlockedAfter = 5 * time.Second
)

// Type describes a type of entity. Name, Role and Shards, and the encoding of messages,
// must be equal on all nodes.
type Type[Req, Resp any] struct {
	// Name is the type's name in the cluster. It is required, and has 1 to 64 bytes.
	Name string
	// Role selects the nodes that host the type. Nodes without the role are proxies: they
	// only send. Default: every node.
	Role string
	// Shards is the number of shards. It must be equal on all nodes, and can be changed only
	// with the whole cluster down. There are at most 32,768. Default: DefaultShards.
	//
	// Use at least ten times the largest planned number of nodes. Fewer shards leave nodes
	// idle; more shards cost memory and traffic when nodes come and go (1,000 serve 100
	// nodes). Nodes have equal numbers of shards, not of entities: with few entities, more
	// shards spread them more evenly. With 600 entities on 3 nodes, 256 shards leave a node
	// more than a tenth off in one case of ten, 1,000 shards in one of some hundreds.
	Shards int
	// ShardOf returns the shard of an id, in 0 to Shards-1. Set it only if entities must live
	// together. It must be pure and equal on all nodes: they compare its results for a
	// thousand ids. An id for which it returns no valid shard, or panics, fails with
	// ErrNoShard. Default: a good hash.
	ShardOf func(id string) ShardID
	// New returns a new instance. It must not block: move long work to the first message.
	// It may be called again for an id whose instance has ended. It is required on nodes that
	// host the type.
	New func(id string) Entity[Req, Resp]
	// ReqCodec encodes requests to other nodes. Use Kinds for an interface that several kinds
	// of messages implement: neither Msgpack nor JSON can decode one. Default: Raw for
	// []byte, Text for string, None for struct{}, else Msgpack.
	ReqCodec Codec[Req]
	// RespCodec encodes responses to other nodes. Default: as for ReqCodec.
	RespCodec Codec[Resp]
	// IdleTimeout ends an instance that has had no message for this long. The end may be
	// late by up to a quarter of it. Default: never.
	IdleTimeout time.Duration
	// Passivation bounds the number of instances on a node. Messages for an ending instance
	// wait for the next one. Default: no bound.
	Passivation Passivation
	// Control reports whether a message is a control message. An entity handles control
	// messages before all other messages, in the order in which they arrived. They have
	// their own room in its mailbox, as large as that of the other messages. Messages sent
	// with Region.Reliable are never control messages.
	//
	// The sender, or the reader of a connection, calls Control for every message: it must
	// be quick and not block. Default: there are no control messages.
	Control func(Req) bool
	// Supervision selects the reaction to a panic. Default: a new instance is made
	// immediately.
	Supervision Supervision
	// StopTimeout bounds the orderly stop of a shard, and the end of a passivated instance.
	// An instance that has not ended by then is abandoned: its Context ends, and another
	// instance may take its place. So OnStop must return when its Context ends. Default:
	// DefaultStopTimeout.
	StopTimeout time.Duration
	// BlockedAfter is how long one call of an entity's code may take before it counts as
	// blocked (Stats.BlockedHandlers). It is then logged once, with the entity, the
	// duration and the goroutine's stack. A blocked entity handles no other message, and
	// delays a move of its shard. Default: DefaultBlockedAfter; negative: never.
	BlockedAfter time.Duration
	// Strategy decides which node hosts which shard. It runs on the coordinator's node, so
	// give all nodes of the role the same. Default: strategy.LeastShards{}.
	Strategy Strategy
	// RebalanceInterval is the interval of rebalancing. Default: 2 s.
	RebalanceInterval time.Duration
	// MinMembers is the number of hosting nodes required before the first shard is placed.
	// Default: 1.
	MinMembers int
	// State makes the states of entities survive a crash. Default: they do not.
	State Replicated
	// Limits bounds queues and sizes. Default: those of Limits.
	Limits Limits
	// Interceptors wrap the calls of this type on this node, outermost first, within those
	// of peerage.Config. Default: none.
	Interceptors []Interceptor

	// Remember makes the home of a shard start all entities that lived there, without a
	// message: after a move, a crash, and a cold start of the cluster. At most 64 of a type
	// are being started at any moment: the next one starts when the New and OnStart of one
	// have returned, or have taken 10 s. Config.RememberedPerSecond can spread the starts
	// over time.
	//
	// An entity is remembered from its first message until it ends by Context.Passivate. So
	// IdleTimeout and Passivation must be zero. A panic ends an instance, whatever
	// Supervision does, but the entity stays remembered: it starts again within a second,
	// after the pause that Supervision sets. So does an entity whose New or OnStart failed.
	//
	// The ids are written asynchronously, in the data of the type's role, under
	// RememberedPrefix. An entity that began less than a moment before its home crashed may
	// be forgotten. An entity that passivated then, or before a move, may return.
	//
	// If ShardOf or Shards has changed, with all nodes down, entities start in their new
	// shards, one after another of each former shard. Entities of shards that no longer exist,
	// because there are fewer, wait for their first message.
	Remember bool
}

// Limits bounds the queues and sizes of one type on one node. Zero fields mean defaults.
type Limits struct {
	// Mailbox is the number of messages that may wait for one entity. Messages of handlers
	// have room for a quarter more. Default: 1,000.
	Mailbox int
	// BufferMessages bounds the messages that wait for shards without a known home, over all
	// shards. Default: 100,000.
	BufferMessages int
	// BufferBytes bounds their size. Default: 64 MiB.
	BufferBytes int
	// ShardMessages bounds the messages that wait for the home of one shard. Default:
	// 10,000.
	ShardMessages int
	// ShardBytes bounds their size. Default: 16 MiB.
	ShardBytes int
	// IDBytes bounds an entity id. It is at most 4,096. Default: 256.
	IDBytes int
	// PayloadBytes bounds an encoded request or response. It is at most 3 MiB. Messages
	// within one process are not encoded and not bounded, unless Config.Strict is set.
	// Default: 256 KiB.
	PayloadBytes int
}

func (l Limits) withDefaults() Limits {
	for _, f := range []struct {
		field *int
		value int
	}{
		{&l.Mailbox, 1000},
		{&l.BufferMessages, 100_000}, {&l.BufferBytes, 64 << 20},
		{&l.ShardMessages, 10_000}, {&l.ShardBytes, 16 << 20},
		{&l.IDBytes, 256}, {&l.PayloadBytes, 256 << 10},
	} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	return l
}

const (
	shardsMax  = protocol.ShardsMax
	payloadMax = 3 << 20
)

func (t *Type[Req, Resp]) withDefaults() {
	if t.Shards == 0 {
		t.Shards = DefaultShards
	}
	if t.StopTimeout == 0 {
		t.StopTimeout = DefaultStopTimeout
	}
	if t.BlockedAfter == 0 {
		t.BlockedAfter = DefaultBlockedAfter
	}
	if t.ReqCodec == nil {
		t.ReqCodec = defaultCodec[Req]()
	}
	if t.RespCodec == nil {
		t.RespCodec = defaultCodec[Resp]()
	}
	t.State = t.State.withDefaults()
	t.Limits = t.Limits.withDefaults()
}

// keeps describes how entities are kept, on which all hosting nodes must agree.
func (t *Type[Req, Resp]) keeps() string {
	if t.New == nil {
		return ""
	}
	said := "no state"
	if t.State.on() {
		s := t.State.withDefaults()
		said = fmt.Sprintf("%d replicas of states of %d bytes, mode %d", s.Replicas, s.StateBytes, s.Mode)
	}
	if t.Remember {
		said += ", remembered"
	}
	return said
}

// Validate reports all problems of the type in one error.
func (t *Type[Req, Resp]) Validate() error {
	var wrong []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	l := t.Limits.withDefaults()
	check(t.Name != "" && len(t.Name) <= frames.NameBytesMax, "Name must have 1 to %d bytes, has %d", frames.NameBytesMax, len(t.Name))
	check(t.Shards >= 0 && t.Shards <= shardsMax, "Shards must be 1 to %d, is %d", shardsMax, t.Shards)
	check(t.IdleTimeout >= 0, "IdleTimeout is negative")
	supervision := t.Supervision.internal().Validate()
	check(supervision == nil, "%v", supervision)
	passivation := t.Passivation.checkValues()
	check(passivation == nil, "Passivation: %v", passivation)
	check(!t.Remember || t.IdleTimeout == 0 && t.Passivation.Limit == 0, "Remember wants no IdleTimeout and no Passivation: entities live until Context.Passivate")
	check(t.StopTimeout >= 0, "StopTimeout is negative")
	check(t.RebalanceInterval >= 0, "RebalanceInterval is negative")
	check(t.MinMembers >= 0, "MinMembers is negative")
	state := t.State.checkValues()
	check(state == nil, "%v", state)
	codec := validCodec(t.ReqCodec)
	check(codec == nil, "ReqCodec: %v", codec)
	codec = validCodec(t.RespCodec)
	check(codec == nil, "RespCodec: %v", codec)
	check(min(l.Mailbox, l.BufferMessages, l.BufferBytes, l.ShardMessages, l.ShardBytes) > 0, "Limits must be positive")
	check(l.IDBytes > 0 && l.IDBytes <= frames.IDBytesMax, "Limits.IDBytes must be 1 to %d, is %d", frames.IDBytesMax, l.IDBytes)
	check(l.PayloadBytes > 0 && l.PayloadBytes <= payloadMax, "Limits.PayloadBytes must be 1 to %d, is %d", payloadMax, l.PayloadBytes)
	if wrong == nil {
		return nil
	}
	return &TypeError{Type: t.Name, Wrong: wrong}
}
