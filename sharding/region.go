package sharding

import (
	"context"
	"fmt"
	"time"

	"github.com/peerage-go/peerage/internal/delivery/endpoint"
)

// Region is the handle of one entity type on this node. Messages to the type's entities on
// all nodes go through it. It is valid as long as the Registry, also across incarnations of
// the node. All methods are safe for concurrent use.
type Region[Req, Resp any] struct {
	typed *endpoint.Typed[*Context, Req, Resp]
	reg   *registered
	// sends wrap the calls that send, outermost first; nil means none.
	sends []sendFunc
}

// Name returns the type's name.
func (r *Region[Req, Resp]) Name() string { return r.typed.Name }

// ShardOf returns the number of the shard to which the entity id belongs. If the type's
// ShardOf returns no valid shard for id, the result is not a shard's number, and Tell and
// Ask fail with ErrNoShard.
func (r *Region[Req, Resp]) ShardOf(id string) ShardID { return r.typed.Extract.ShardOf(id) }

// Ref returns the address of one entity. It is cheap, never fails, and is valid as long as
// the Region. Tell and Ask reject an invalid id.
func (r *Region[Req, Resp]) Ref(id string) Ref[Req, Resp] {
	return Ref[Req, Resp]{region: r, to: r.typed.AddressOf(id)}
}

// Tell is Ref(id).Tell.
func (r *Region[Req, Resp]) Tell(ctx context.Context, id string, req Req) error {
	return r.Ref(id).Tell(ctx, req)
}

// Ask is Ref(id).Ask.
func (r *Region[Req, Resp]) Ask(ctx context.Context, id string, req Req, opts ...AskOption) (Resp, error) {
	return r.Ref(id).Ask(ctx, req, opts...)
}

// Start is Ref(id).Start.
func (r *Region[Req, Resp]) Start(ctx context.Context, id string, opts ...AskOption) error {
	return r.Ref(id).Start(ctx, opts...)
}

// Stats returns the counters and gauges of this type on this node.
func (r *Region[Req, Resp]) Stats() Stats { return r.reg.stats() }

// Local returns the shards that run on this node now, by number, with the ids of their
// entities. It returns nil on a proxy, and while the node is in no cluster. It sends no
// message, and takes time and memory in proportion to the number of entities.
// Registry.Cluster queries all nodes, for numbers only.
func (r *Region[Req, Resp]) Local() []ShardStats { return r.reg.localShards() }

// SetEntityLimit changes Passivation.Limit of the type on this node, for as long as the
// process lives. Instances above a lower limit begin to end within a second. It fails with
// *TypeError if the type has no limit, or if limit is not positive.
func (r *Region[Req, Resp]) SetEntityLimit(limit int) error {
	if r.typed.Passivation.Limit == 0 || limit < 1 {
		return &TypeError{Type: r.typed.Name, Wrong: []string{fmt.Sprintf("limit of %d instances: it must be positive, and the type must have one (Passivation)", limit)}}
	}
	r.typed.SetEntityLimit(limit)
	return nil
}

// Ref is the address of one entity. It is a small value: copy it freely. The zero Ref
// cannot be used.
type Ref[Req, Resp any] struct {
	region *Region[Req, Resp]
	to     endpoint.Address
}

// ID returns the entity's id.
func (f Ref[Req, Resp]) ID() string { return f.to.ID }

// Shard returns the number of the entity's shard.
func (f Ref[Req, Resp]) Shard() ShardID { return f.to.Shard }

// Tell sends req and does not wait until it is handled. It returns nil once the message has
// its place in a mailbox, a buffer or a connection's queue. It waits for room there until
// ctx ends, behind earlier callers. If the entity's mailbox is full, on this node or
// another, Tell fails with ErrMailboxFull when ctx ends. The message is delivered at most
// once. Stats counts messages that are dropped later.
//
// If ctx is the Context of a handler, the sender is that handler's entity. Messages of
// handlers have a quarter more room in a mailbox than those from outside entities, and take
// turns with these when both wait. An entity that sends to itself while its own mailbox is
// full fails immediately with ErrMailboxFull. Two entities with full mailboxes that send to
// each other wait for each other. So a Tell in a handler waits for room in a mailbox for at
// most HandlerWait, then fails with ErrMailboxFull.
func (f Ref[Req, Resp]) Tell(ctx context.Context, req Req) error {
	if f.region.sends != nil {
		return f.wrapCall(OpTell, req, endpoint.AskOptions{}).runChain(ctx)
	}
	return f.tellDirectly(ctx, req)
}

func (f Ref[Req, Resp]) tellDirectly(ctx context.Context, req Req) error {
	o, err := originOf(ctx)
	if err == nil {
		err = f.region.typed.Tell(ctx, o, f.to, req)
	}
	return inGroup(err)
}

// Ask sends req and waits for the response until ctx ends, or the time of Within is over. The
// deadline and a cancellation of ctx travel with the ask: if the deadline has passed, or the asker has given up, before
// the ask's turn comes, it is not handled. If the connection to the entity's home breaks,
// the ask fails immediately with ErrNodeLost.
//
// If ctx is the Context of a handler, or derived from it, the sender is that handler's
// entity. An ask that would wait for itself fails immediately with ErrSelfAsk: of the
// entity itself, or of an entity that waits for its reply (A asks B, whose handler asks A,
// over up to 16 entities, on any nodes).
//
// Two entities may also ask each other from handlers of unrelated messages. They wait until
// their deadlines, since a handler need not wait for its ask. This is logged, and counted
// in Stats.MutualAsks. So give every Ask of a handler a deadline.
func (f Ref[Req, Resp]) Ask(ctx context.Context, req Req, opts ...AskOption) (Resp, error) {
	if f.region.sends != nil {
		c := f.wrapCall(OpAsk, req, joinOptions(opts))
		err := c.runChain(ctx)
		return c.resp, err
	}
	return f.askDirectly(ctx, req, joinOptions(opts))
}

func (f Ref[Req, Resp]) askDirectly(ctx context.Context, req Req, opts endpoint.AskOptions) (resp Resp, err error) {
	o, err := originOf(ctx)
	if err == nil {
		resp, err = f.region.typed.Ask(ctx, o, f.to, req, opts)
	}
	return resp, inGroup(err)
}

// Start makes sure that the entity has an instance, without sending it a message. It
// returns nil once the instance lives, after its OnStart if it is a Starter. Otherwise it
// fails as Ask does. The instance later ends like any other.
func (f Ref[Req, Resp]) Start(ctx context.Context, opts ...AskOption) error {
	var none Req
	f.to.Start = true
	if f.region.sends != nil {
		return f.wrapCall(OpStart, none, joinOptions(opts)).runChain(ctx)
	}
	_, err := f.askDirectly(ctx, none, joinOptions(opts))
	return err
}

// startRemembered is Start with Retry, for a remembered entity. No caller sends it, so it goes
// through no interceptor.
func (f Ref[Req, Resp]) startRemembered(ctx context.Context) error {
	var none Req
	f.to.Start = true
	_, err := f.askDirectly(ctx, none, endpoint.AskOptions{Retry: true})
	return err
}

// AskOption changes the behaviour of one Ask.
type AskOption struct {
	retry, limited bool
	within         time.Duration
}

// Retry makes Ask send the request again after each Retryable failure, until ctx ends or the
// time of Within is over. So one of them must set a deadline; without one, Ask fails with
// ErrNoDeadline. The handler may run more than once for one Ask (at least once): use Retry for
// idempotent requests. Order relative to other messages of the same sender is lost.
func Retry() AskOption { return AskOption{retry: true} }

// Within makes Ask wait for at most d, from the call of Ask on. It then fails as if a deadline
// of ctx had passed: errors.Is(err, context.DeadlineExceeded) holds. Like such a deadline, it
// travels with the ask. If ctx has an earlier deadline, that one holds.
//
// It costs much less than a context with a timeout for each Ask: no allocation and no timer. A
// call may end some milliseconds after d.
func Within(d time.Duration) AskOption { return AskOption{limited: true, within: d} }

// joinOptions returns the effect of opts. Of several limits the shortest holds.
func joinOptions(opts []AskOption) (o endpoint.AskOptions) {
	for i := range opts {
		o.Retry = o.Retry || opts[i].retry
		if opts[i].limited {
			if end := time.Now().Add(opts[i].within); o.Until.IsZero() || end.Before(o.Until) {
				o.Until = end
			}
		}
	}
	return o
}
