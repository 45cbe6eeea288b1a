package sharding

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/core/daemon"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/reliable"
	"github.com/peerage-go/peerage/internal/delivery"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/internal/residency"
	"github.com/peerage-go/peerage/internal/statecopy"
	"github.com/zeebo/xxh3"
)

// typeInfo holds the settings of a type that do not depend on its messages.
type typeInfo struct {
	name, role string
	shards     uint32
	extract    extractor
	// print is the extractor's fingerprint.
	print uint64
	// keeps is what the nodes compare of State and Remember, "" for a proxy.
	keeps string
	// messages are the shapes of the messages.
	messages protocol.Shapes
	// proxy: never hosts, whatever the node's roles.
	proxy       bool
	stopTimeout time.Duration
	rebalance   time.Duration
	minMembers  int
	strategy    Strategy
	state       Replicated
}

// typeBase is the part of a path that does not depend on the types of its messages.
type typeBase struct {
	typeInfo
	*delivery.Router
	limits   Limits
	counters *counters
	// now is the incarnation that serves the type, nil while there is none.
	now atomic.Pointer[incarnation]
}

// incarnation is the part of a service that serves one type.
type incarnation struct {
	*delivery.Incarnation
	self     gossip.NodeID
	ctx      context.Context
	work     *sync.WaitGroup
	observer figures.ShardingObserver
	// strict is Config.Strict, and set under the race detector.
	strict bool
	// These are for daemons. plans is the store of plans, nil if there is none. office
	// returns the term in which this node coordinates the type, 0 if it does not. members
	// returns the role's members. supersede ends an allocation immediately.
	plans     placement.PlanStore
	office    func() gossip.Epoch
	members   func() daemon.Members
	supersede func(ShardID, Token)
	// budgets are the node's.
	budgets *delivery.Budgets
	// states replicates the type's state, nil if it is not replicated.
	states *statecopy.Replicator
	// remember keeps the remembered entities, nil where it cannot be; pace spreads their
	// starts over time.
	remember placement.Rememberer
	pace     *residency.Pace
	// mutual are the asks of entities here; log is the node's.
	mutual *mutualAsks
	log    *slog.Logger
	// alive reports whether the lease holds.
	alive func() bool
}

// wantHome asks for the home of a shard unless the route has one.
func (b *typeBase) wantHome(inc *incarnation, shard ShardID) {
	b.Router.WantHome(inc.Incarnation, shard)
}

// path carries the messages of one type, for the life of the Registry. A Region points to it.
// Its Router sends encoded messages to their homes. The path has what depends on the types of
// messages: codecs, asks, and the entities that run here.
type path[Req, Resp any] struct {
	typeBase
	typ   Type[Req, Resp]
	epoch time.Time
	calls delivery.Calls[Resp]

	// locals[i] is shard i while it runs here and its route is open and empty:
	// senders deliver to it without a look at the route.
	locals []atomic.Pointer[activation.Shard[*Context, Req, Resp]]
	// host runs the entities of the present incarnation; nil for proxies.
	host atomic.Pointer[activation.Host[*Context, Req, Resp]]
	// senders are the nodes' Senders, so that messages from outside entities share one.
	senders [64]atomic.Pointer[activation.Sender]
	// gone are the asks of other nodes whose askers have given up.
	gone   delivery.CancelledAsks
	frames sync.Pool
	// intakes are those that no reader has.
	intakes sync.Pool
	// owns is set if the codec can leave a payload where it is.
	owns owner[Req]
	// strict is that of the present incarnation.
	strict atomic.Bool
	// remembered is nil unless the type remembers its entities.
	remembered *residency.Remembered
	entities   activation.Counters
	// limit is the present one of Passivation.
	limit atomic.Int64
}

func newPath[Req, Resp any](t Type[Req, Resp]) *path[Req, Resp] {
	info := typeInfo{
		name: t.Name, role: t.Role, shards: uint32(t.Shards), proxy: t.New == nil,
		stopTimeout: t.StopTimeout, rebalance: t.RebalanceInterval, minMembers: t.MinMembers, strategy: t.Strategy,
		state: t.State,
	}
	p := &path[Req, Resp]{
		typ: t, epoch: time.Now(),
		locals: make([]atomic.Pointer[activation.Shard[*Context, Req, Resp]], t.Shards),
	}
	p.limit.Store(int64(t.Passivation.Limit))
	p.typeInfo, p.limits, p.counters = info, t.Limits, &counters{}
	l := t.Limits
	p.Router = delivery.NewRouter(delivery.RouterConfig{
		Type: t.Name, Shards: info.shards, Counters: &p.counters.Counters, Local: p, ErrorOf: errorOf,
		Bounds: delivery.Bounds{BufferMessages: l.BufferMessages, BufferBytes: l.BufferBytes, ShardMessages: l.ShardMessages, ShardBytes: l.ShardBytes},
	})
	p.extract = extractor{info.shards, t.ShardOf}
	p.print = p.extract.fingerprint()
	p.keeps = t.keeps()
	p.messages = shapesOf(t.ReqCodec, t.RespCodec)
	if t.Remember {
		p.remembered = residency.NewRemembered(p.extract.locate, func(ctx context.Context, id string) error {
			return p.ref(id).Start(ctx, Retry())
		})
	}
	p.frames.New = func() any { return new([]byte) }
	p.intakes.New = func() any { return &inflow[Req, Resp]{p: p} }
	p.owns = ownerOf(t.ReqCodec)
	return p
}

func (p *path[Req, Resp]) describe() *typeInfo { return &p.typeInfo }

func (p *path[Req, Resp]) ref(id string) Ref[Req, Resp] {
	hash := xxh3.HashString(id)
	return Ref[Req, Resp]{p: p, id: id, shard: p.extract.ofHashed(id, hash), place: activation.PlaceOf(hash)}
}

func (p *path[Req, Resp]) check(ctx context.Context, f Ref[Req, Resp]) error {
	switch {
	case f.id == "" || len(f.id) > p.limits.IDBytes:
		return ErrBadID
	case f.shard == noShard:
		return noShardFor(f.id)
	}
	err := ctx.Err()
	if err != nil {
		if _, late := senderOf(ctx); late != nil {
			return late
		}
	}
	return err
}

// noShardFor is the error of an id that the application's ShardOf has no shard for.
func noShardFor(id string) error { return fmt.Errorf("%w: ShardOf has none for %q", ErrNoShard, id) }

func (p *path[Req, Resp]) tell(ctx context.Context, f Ref[Req, Resp], req Req) error {
	if err := p.check(ctx, f); err != nil {
		return err
	}
	return p.send(ctx, f, req, 0, 0)
}

// send takes a request to its shard, or its way there, waiting for room until ctx
// ends. at is where the table of calls believes the call to be.
func (p *path[Req, Resp]) send(ctx context.Context, f Ref[Req, Resp], req Req, call uint64, at gossip.NodeID) error {
	for {
		if s := p.locals[f.shard].Load(); s != nil {
			if call != 0 && s.Node() != at && !p.calls.Move(call, s.Node()) {
				return delivery.ErrCallOver
			}
			if done, err := p.sendLocal(ctx, s, f, req, call); done {
				return err
			}
		}
		if err := p.sendEncoded(ctx, f, req, call); err != delivery.ErrRunsHere {
			return err
		}
	}
}

// sendLocal reports false when the shard takes nothing more.
func (p *path[Req, Resp]) sendLocal(ctx context.Context, s *activation.Shard[*Context, Req, Resp], f Ref[Req, Resp], req Req, call uint64) (done bool, err error) {
	m := activation.Message[Req]{Req: req}
	if f.start {
		m = m.ForStart()
	} else if p.strict.Load() {
		if m.Req, err = strictly(&p.frames, p.typ.ReqCodec, req, p.limits.PayloadBytes); err != nil {
			return true, err
		}
	}
	if call != 0 {
		chain := activation.ChainOf(contextOf(ctx))
		m.Reply = activation.ReplyTo{Node: s.Node(), Call: call}
		m.SetChain(chain)
		p.noteMutual(chain.Asker(), f.id)
		if t, ok := ctx.Deadline(); ok {
			m.Expires = max(t.Sub(p.epoch), 1)
		}
	}
	if m.From, err = senderOf(ctx); err != nil {
		return true, err
	}
	switch err := s.Deliver(f.id, f.place, &m); err {
	case nil:
		p.counters.Sent(figures.RouteLocal, f.shard)
		return true, nil
	case ErrMailboxFull:
		if toItself(m.From, p.name, f.id) {
			// It would wait for itself.
			return true, ErrMailboxFull
		}
		return p.awaitLocal(ctx, s, f, &m)
	default:
		return false, nil
	}
}

// awaitLocal waits for room in a mailbox that is full.
func (p *path[Req, Resp]) awaitLocal(ctx context.Context, s *activation.Shard[*Context, Req, Resp], f Ref[Req, Resp], m *activation.Message[Req]) (done bool, err error) {
	patience := ctx
	if m.From != nil {
		var cancel context.CancelFunc
		patience, cancel = context.WithTimeout(ctx, delivery.HandlerWait)
		defer cancel()
	}
	switch s.Await(patience, f.id, m) {
	case nil:
		p.counters.Sent(figures.RouteLocal, f.shard)
		return true, nil
	case activation.ErrNotHosted:
		return false, nil
	}
	if ctx.Err() == nil {
		return true, delivery.GaveUp(ErrMailboxFull, delivery.ErrHandlerWait)
	}
	return true, delivery.GaveUp(ErrMailboxFull, ctx.Err())
}

// isControl reports whether a request is a control message of its type. If the type's function
// panics, it is none, as at the home, where the panic is counted.
func isControl[Req any](control func(Req) bool, req Req) (is bool) {
	defer func() {
		if recover() != nil {
			is = false
		}
	}()
	return control(req)
}

// toItself reports whether a message goes from an entity to itself. Its node is not asked:
// while the handler runs, that is where the entity lives.
func toItself(from *activation.Sender, typ, id string) bool {
	return from != nil && from.ID == id && from.Type == typ
}

func (p *path[Req, Resp]) sendEncoded(ctx context.Context, f Ref[Req, Resp], req Req, call uint64) error {
	from, err := senderOf(ctx)
	if err != nil {
		return err
	}
	buf := p.frames.Get().(*[]byte)
	frame, err := p.encode((*buf)[:0], ctx, from, f, req, call)
	if err != nil {
		p.frames.Put(buf)
		return err
	}
	m := delivery.Message{Frame: frame, Call: call, Handler: from != nil, ToItself: toItself(from, p.name, f.id)}
	if call != 0 {
		m.Expires, _ = ctx.Deadline()
	}
	it := delivery.NewItem(m, f.id, p.typ.Control != nil && !f.start && isControl(p.typ.Control, req))
	kept, err := p.Post(ctx, f.shard, &it)
	if !kept {
		*buf = frame
	} else {
		*buf = nil
	}
	p.frames.Put(buf)
	return err
}

func (p *path[Req, Resp]) encode(b []byte, ctx context.Context, from *activation.Sender, f Ref[Req, Resp], req Req, call uint64) ([]byte, error) {
	var chain *activation.Chain
	if call != 0 {
		chain = activation.ChainOf(contextOf(ctx))
	}
	if f.start {
		return frames.AppendAsk(b, p.name, f.shard, f.id, call, from, chain, frames.FlagStart), nil
	}
	return p.appendPayload(frames.AppendAsk(b, p.name, f.shard, f.id, call, from, chain, 0), req)
}

func (p *path[Req, Resp]) appendPayload(b []byte, req Req) ([]byte, error) {
	head := len(b)
	b, err := encode(p.typ.ReqCodec, b, req)
	if err != nil {
		return nil, &codecError{err}
	}
	if len(b)-head > p.limits.PayloadBytes {
		return nil, ErrTooLarge
	}
	return b, nil
}

// codecError wraps an error of the codec; it matches ErrCodec.
type codecError struct{ cause error }

func (e *codecError) Error() string   { return ErrCodec.Error() + ": " + e.cause.Error() }
func (e *codecError) Unwrap() []error { return []error{ErrCodec, e.cause} }

// publish lets local senders find the shard that runs here.
func (p *path[Req, Resp]) Publish(shard ShardID, token Token) bool {
	h := p.host.Load()
	if h == nil {
		return false
	}
	s := h.Shard(shard)
	if s == nil || s.Token() != token || !s.Open() {
		return false
	}
	p.locals[shard].Store(s)
	return true
}

func (p *path[Req, Resp]) Hide(shard ShardID) { p.locals[shard].Store(nil) }

func (p *path[Req, Resp]) MoveCall(call uint64, node gossip.NodeID) bool {
	return p.calls.Move(call, node)
}

func (p *path[Req, Resp]) FailAsk(call uint64, err error) bool {
	var none Resp
	return call != 0 && p.calls.Finish(call, none, err)
}

// deliver takes a request, of this node or another. It reports false when its shard
// does not run here under its token.
func (p *path[Req, Resp]) Deliver(from gossip.NodeID, frame []byte) (hosted bool, err error) {
	in := p.intake()
	defer in.flush()
	return in.take(from, frame)
}

// hand hands a request to the shard that runs here under its token.
func (f *inflow[Req, Resp]) hand(from gossip.NodeID, q *frames.Request, size int) bool {
	p := f.p
	h := p.host.Load()
	if h == nil {
		return false
	}
	s := h.Shard(q.Shard)
	if s == nil {
		return false
	}
	if s.Token() != q.Token {
		p.counters.stale.Add(1)
		return false
	}
	account, enough := f.sender(from).Accept(q.Shard, q.Token, q.Number, size)
	if enough {
		f.touched = append(f.touched, account)
	}
	hash := activation.Hash(q.ID)
	if p.extract.ofBytes(q.ID, hash) != q.Shard {
		p.fail(from, q, frames.CodeSettings, delivery.DropSettings, "")
		return true
	}
	m := activation.Message[Req]{From: p.sender(from, q)}
	switch {
	case q.Start:
		m = m.ForStart()
	case decodesLate(p, q):
		m.SetLate(bytes.Clone(q.Payload))
	default:
		var err error
		if m.Req, err = f.decode(q.Payload); err != nil {
			p.fail(from, q, frames.CodeCodec, delivery.DropCodec, err.Error())
			return true
		}
	}
	if q.Reliable != nil {
		stamp, _ := reliable.ParseStamp(q.Reliable) // parsed before
		m.Reply = activation.ReplyTo{Node: from}
		m.SetReliable(&activation.ReliableMark{Stamp: stamp})
	}
	if q.Call != 0 {
		m.Reply = activation.ReplyTo{Node: from, Call: q.Call}
		if q.Chain != nil {
			chain := activation.ParseChain(q.Chain)
			m.SetChain(chain)
			p.noteMutual(chain.Asker(), string(q.ID))
		}
		if q.Left > 0 {
			m.Expires = time.Since(p.epoch) + q.Left
		}
	}
	switch s.DeliverTo(f.inlet(h), q.ID, activation.PlaceOf(hash), &m, account, size) {
	case nil:
		return true
	case activation.ErrMailboxFull:
		p.fail(from, q, frames.CodeMailboxFull, delivery.DropMailboxFull, "")
		return true
	}
	return false
}

// sender returns who sent q; messages from outside entities share one per node.
func (p *path[Req, Resp]) sender(from gossip.NodeID, q *frames.Request) *activation.Sender {
	if q.FromType != nil {
		return &activation.Sender{Node: from, Type: string(q.FromType), ID: string(q.FromID)}
	}
	// Two nodes may share a place: then a message makes a Sender now and then.
	place := &p.senders[uint64(from)%uint64(len(p.senders))]
	known := place.Load()
	if known == nil || known.Node != from {
		known = &activation.Sender{Node: from}
		place.Store(known)
	}
	return known
}

// fail ends a request that is not handled: its asker receives the error, or it is counted.
func (p *path[Req, Resp]) fail(from gossip.NodeID, q *frames.Request, c frames.Code, why delivery.Reason, text string) {
	if q.Reliable != nil {
		p.RejectReliable(from, q, c, text)
		return
	}
	p.counters.Drop(why, 1)
	if inc := p.now.Load(); inc != nil {
		failCall(p, inc, activation.ReplyTo{Node: from, Call: q.Call}, c, text)
	}
}

// decode keeps a codec that panics from taking a connection's reader down.
func decode[T any](c Codec[T], payload []byte) (v T, err error) {
	defer codecPanicked(&err)
	return c.Decode(payload)
}

// encode turns a panic of the codec into an error. Otherwise the panic would end the goroutine
// of an entity, and leave an ask open.
func encode[T any](c Codec[T], b []byte, v T) (out []byte, err error) {
	defer codecPanicked(&err)
	return c.Append(b, v)
}

// codecPanicked makes an error of a panic: not ErrPanicked, which is a handler's.
func codecPanicked(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("panic: %v", r)
	}
}
