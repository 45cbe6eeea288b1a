package endpoint

import (
	"github.com/peerage-go/peerage/internal/core/protocol"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/delivery"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Spec describes one entity type to its endpoint. C is the Context of its entities.
type Spec[C, Req, Resp any] struct {
	Settings
	Requests  Codec[Req]
	Responses Codec[Resp]
	// OwnRequest and OwnResponse make a message of a payload that is the message's own, for
	// codecs that need no copy; nil means that the codec decodes.
	OwnRequest  func(payload []byte) Req
	OwnResponse func(payload []byte) Resp
	// New, TryNew, Control, Around and Context are those of activation.Config.
	New     func(id string) activation.Entity[C, Req, Resp]
	TryNew  func(id string) (activation.Entity[C, Req, Resp], error)
	Control func(Req) bool
	Around  func(ctx C, op string, req Req, ent activation.Entity[C, Req, Resp]) (Resp, error)
	Context func() (C, *activation.Context)
}

// Typed is an Endpoint with what depends on the types of messages: codecs, pending calls, and
// the entities that run here.
type Typed[C, Req, Resp any] struct {
	Endpoint
	spec Spec[C, Req, Resp]
	// Calls are the asks of this node that wait for their reply.
	Calls delivery.Calls[Resp]

	// locals[i] is shard i while it runs here and its route is open and empty: senders deliver
	// to it without a look at the route.
	locals []atomic.Pointer[activation.Shard[C, Req, Resp]]
	// host runs the entities of the present incarnation; nil if the node hosts none.
	host atomic.Pointer[activation.Host[C, Req, Resp]]
	// batches are those that no reader has.
	batches sync.Pool
}

// New returns the endpoint of a type.
func New[C, Req, Resp any](spec Spec[C, Req, Resp]) *Typed[C, Req, Resp] {
	t := &Typed[C, Req, Resp]{
		spec: spec, locals: make([]atomic.Pointer[activation.Shard[C, Req, Resp]], spec.Extract.Shards),
	}
	t.initSettings(spec.Settings, t)
	t.batches.New = func() any { return &typedBatch[C, Req, Resp]{t: t} }
	return t
}

// hosted is a Host as an Endpoint uses it.
type hosted[C, Req, Resp any] struct {
	*activation.Host[C, Req, Resp]
}

// Describe implements hosting.
func (h hosted[C, Req, Resp]) Describe(shard strategy.ShardID, id string) (state activation.EntityState, ok bool) {
	if s := h.Shard(shard); s != nil {
		state, ok = activation.Describe(s, id)
	}
	return state, ok
}

// Search implements hosting.
func (h hosted[C, Req, Resp]) Search(shard strategy.ShardID, text string, most int) []activation.EntityState {
	if s := h.Shard(shard); s != nil {
		return activation.Search(s, text, most)
	}
	return nil
}

// ShardAt returns a shard, nil if it does not run here.
func (h hosted[C, Req, Resp]) ShardAt(shard strategy.ShardID) Shard {
	if s := h.Shard(shard); s != nil {
		return s
	}
	return nil
}

// BeginShard begins to host a shard.
func (h hosted[C, Req, Resp]) BeginShard(shard strategy.ShardID, token protocol.Token, states map[string][]byte) error {
	_, err := h.StartShard(shard, token, states)
	return err
}

// asHosting returns h, nil if there is no host.
func asHosting[C, Req, Resp any](h *activation.Host[C, Req, Resp]) hosting {
	if h == nil {
		return nil
	}
	return hosted[C, Req, Resp]{h}
}

func (t *Typed[C, Req, Resp]) hosting() hosting   { return asHosting(t.host.Load()) }
func (t *Typed[C, Req, Resp]) closeHost() hosting { return asHosting(t.host.Swap(nil)) }

func (t *Typed[C, Req, Resp]) openHost(inc *Incarnation) {
	t.host.Store(activation.NewHost(activation.Config[C, Req, Resp]{
		Type: t.Name, Node: inc.Self, Shards: t.Extract.Shards, Context: t.spec.Context,
		New: t.spec.New, TryNew: t.spec.TryNew,
		Alive: inc.leaseValid, Replies: &replies[C, Req, Resp]{t, inc}, Confirm: t.confirmer(inc),
		Control: t.spec.Control, Around: t.spec.Around, Supervision: t.Supervision,
		Passivation: t.Passivation, Limit: &t.limit, StopTimeout: t.StopTimeout,
		Mailbox: t.Mailbox, IdleTimeout: t.IdleTimeout,
		Keeper: inc.Keeper, Lived: t.Lived, Fell: t.Crashed,
		Strict:       inc.strict,
		BlockedAfter: max(t.BlockedAfter, 0), Took: durationReporter(t.Name, inc.observer),
		Decode: t.decodeRequest, Undecoded: t.undecodedRejecter(inc),
		Epoch: t.epoch, Counters: &t.Counters.Entities, Logger: inc.log,
	}))
}

// durationReporter returns the function that receives the durations of handlers, nil without
// an observer.
func durationReporter(typ string, o figures.ShardingObserver) func(time.Duration) {
	if o == nil {
		return nil
	}
	return func(d time.Duration) { o.HandlerDone(typ, d) }
}

// decodeRequest decodes a large request in its entity's turn.
func (t *Typed[C, Req, Resp]) decodeRequest(payload []byte) (Req, error) {
	return decodeSafely(t.spec.Requests, payload)
}

// undecodedRejecter returns the function that counts a request that its entity's goroutine
// could not decode, and answers it if it is an ask.
func (t *Typed[C, Req, Resp]) undecodedRejecter(inc *Incarnation) func(to activation.ReplyTo, err error) {
	return func(to activation.ReplyTo, err error) {
		t.Counters.Drop(delivery.DropCodec, 1)
		t.rejectAsk(inc, to, frames.CodeCodec, err.Error())
	}
}

// These are for the Router.

// Publish lets local senders find the shard that runs here.
func (t *Typed[C, Req, Resp]) Publish(shard strategy.ShardID, token protocol.Token) bool {
	h := t.host.Load()
	if h == nil {
		return false
	}
	s := h.Shard(shard)
	if s == nil || s.Token() != token || !s.Open() {
		return false
	}
	t.locals[shard].Store(s)
	return true
}

// Hide undoes Publish.
func (t *Typed[C, Req, Resp]) Hide(shard strategy.ShardID) { t.locals[shard].Store(nil) }

func (t *Typed[C, Req, Resp]) hideShards() {
	for i := range t.locals {
		t.locals[i].Store(nil)
	}
}

// MoveCall records the node of an ask.
func (t *Typed[C, Req, Resp]) MoveCall(call uint64, node gossip.NodeID) bool {
	return t.Calls.Move(call, node)
}

// FailAsk ends an ask with an error.
func (t *Typed[C, Req, Resp]) FailAsk(call uint64, err error) bool {
	var none Resp
	return call != 0 && t.Calls.Finish(call, none, err)
}

// Deliver passes a request, of this node or another, to its shard. It reports false if the
// shard does not run here under its token.
func (t *Typed[C, Req, Resp]) Deliver(from gossip.NodeID, frame []byte) (hosted bool, err error) {
	b := t.newBatch()
	defer b.flush()
	return b.takeRequest(from, frame)
}

func (t *Typed[C, Req, Resp]) failCalls(node gossip.NodeID, err error) int {
	return t.Calls.FailNode(node, err)
}

func (t *Typed[C, Req, Resp]) countCalls() int { return t.Calls.Count() }
