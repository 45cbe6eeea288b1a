package sharding

import (
	"context"

	"github.com/peerage-go/peerage/sharding/entity"
)

// Region is the handle of one entity type on this node: messages to entities
// everywhere go through it. It lives as long as the Registry, whatever happens to
// the node meanwhile. All methods are safe for concurrent use.
type Region[Req, Resp any] struct {
	p *path[Req, Resp]
}

// Name returns the type's name.
func (r *Region[Req, Resp]) Name() string { return r.p.name }

// ShardOf returns the number of the shard that the entity id belongs to. If the
// type's ShardOf gives it none, the result is no shard's number, and Tell and Ask
// fail with ErrNoShard.
func (r *Region[Req, Resp]) ShardOf(id string) ShardID { return r.p.extract.of(id) }

// Ref returns the address of one entity. It is cheap, never fails, and is valid
// as long as the Region; an id that is no good is told by Tell and Ask.
func (r *Region[Req, Resp]) Ref(id string) Ref[Req, Resp] {
	return r.p.ref(id)
}

// Tell is Ref(id).Tell.
func (r *Region[Req, Resp]) Tell(ctx context.Context, id string, req Req) error {
	return r.Ref(id).Tell(ctx, req)
}

// Ask is Ref(id).Ask.
func (r *Region[Req, Resp]) Ask(ctx context.Context, id string, req Req, opts ...AskOption) (Resp, error) {
	return r.Ref(id).Ask(ctx, req, opts...)
}

// StartEntity is Ref(id).Start.
func (r *Region[Req, Resp]) StartEntity(ctx context.Context, id string, opts ...AskOption) error {
	return r.Ref(id).Start(ctx, opts...)
}

// Stats returns the counters and gauges of this type on this node.
func (r *Region[Req, Resp]) Stats() Stats { return r.p.stats() }

// Ref is the address of one entity. It is a small value: copy it freely. The
// zero Ref is of no use.
type Ref[Req, Resp any] struct {
	p     *path[Req, Resp]
	id    string
	shard ShardID
	place entity.Place
	// start marks a Ref that Start sends to.
	start bool
}

// ID returns the entity's id.
func (f Ref[Req, Resp]) ID() string { return f.id }

// Shard returns the number of the entity's shard.
func (f Ref[Req, Resp]) Shard() ShardID { return f.shard }

// Tell sends req and does not wait for it to be handled. It returns nil once the
// message stands in order in a mailbox, a buffer or a connection's queue; it
// waits for room there until ctx ends, behind those that wait already. If the entity's
// mailbox is full, at another node too, Tell fails with ErrMailboxFull when ctx ends. The
// message is delivered at most once; what stops it later is counted in Stats.
//
// Called with the Context of a handler, the sender is that handler's entity. One that
// tells itself something while its own mailbox is full fails immediately with
// ErrMailboxFull. Two entities with full mailboxes that tell each other something wait
// for each other, so a Tell of a handler waits for room in a mailbox for HandlerWait at
// most, and then fails with ErrMailboxFull.
func (f Ref[Req, Resp]) Tell(ctx context.Context, req Req) error {
	return f.p.tell(ctx, f, req)
}

// Ask sends req and waits for the response until ctx ends. The deadline travels,
// and so does the news that ctx was cancelled: an ask whose time is up, or whose
// asker has given up, before its turn comes is not handled any more. When the
// connection to the entity's home breaks, the ask fails at once with ErrNodeLost.
//
// Called with the Context of a handler, or a context derived from it, the sender is that
// handler's entity. If the entity asked is that entity itself, or one that waits for its
// answer (A asks B, whose handler asks A, over up to 16 entities, on any nodes), the ask
// fails immediately with ErrSelfAsk, as it would wait for ever. Two entities that ask each
// other from handlers of messages that have nothing to do with each other wait until their
// deadlines, since a handler need not wait for its ask: that is logged, and counted in
// Stats.MutualAsks. So give every Ask from a handler a deadline.
func (f Ref[Req, Resp]) Ask(ctx context.Context, req Req, opts ...AskOption) (Resp, error) {
	return f.p.ask(ctx, f, req, opts)
}

// Start makes sure that the entity has an instance, without a message for it. It
// returns nil once the instance lives, after its OnStart if it is a Starter, and else
// what Ask would. The instance then ends like any other.
func (f Ref[Req, Resp]) Start(ctx context.Context, opts ...AskOption) error {
	var none Req
	f.start = true
	_, err := f.p.ask(ctx, f, none, opts)
	return err
}

// AskOption changes how one Ask behaves.
type AskOption struct{ retry bool }

// Retry makes Ask send the request again whenever it fails in a way that is
// Retryable, until ctx ends; so it needs a ctx with a deadline, without which Ask fails
// with ErrNoDeadline. The handler may
// then run more than once for one Ask (at least once): use it for requests that
// may be repeated. Order against other messages of the same sender is lost.
func Retry() AskOption { return AskOption{retry: true} }
