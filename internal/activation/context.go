package activation

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/internal/headers"
)

// Token is the fencing token of one allocation of one shard: see protocol.Token.
type Token = protocol.Token

// ShardID is the number of a shard.
type ShardID = protocol.ShardID

// Sender is sharding.Sender, the origin of a message.
type Sender struct {
	Node gossip.NodeID
	Type string
	ID   string
}

// Context implements sharding.Context, which documents it and its methods for users.
//
// A worker reuses its Context for the next message, unless Config.Strict is set or the
// call has made a real context (see lazyContext).
type Context struct {
	// shard is nil while a pooled Context belongs to no call.
	shard   *shardInfo
	id      string
	from    *Sender
	headers headers.List
	expires time.Time
	lazy    lazyContext
	// outer is the context with which an interceptor continued, nil for any other Context:
	// see BeginWithin.
	outer context.Context
	self  atomic.Pointer[Sender]
	// chain is the Chain of the ask that is being handled, asking the Chain of the asks
	// made here.
	chain  *Chain
	asking atomic.Pointer[Chain]
	// labels are the goroutine's for profiles, so that pprof.Do gives them back.
	labels context.Context
	leave  bool
	// message is set while Handle runs. stash and unstash record the handler's orders.
	message, stash, unstash bool
	// ends is set when the instance is about to end: it sets no timers.
	ends bool
	// ended is set when the call has returned and the Context is not used again.
	ended atomic.Bool
}

// info returns the data that c shares with the other Contexts of its shard, nil if c's
// call has returned.
func (c *Context) info() *shardInfo {
	if c.ended.Load() {
		return nil
	}
	return c.shard
}

// mustInfo is info for methods without an error result: it panics if c's call has
// returned.
func (c *Context) mustInfo(method string) *shardInfo {
	s := c.info()
	if s == nil {
		panic(fmt.Sprintf("%v (Context.%s)", failure.ContextEnded, method))
	}
	return s
}

var _ context.Context = (*Context)(nil)

// ID returns the entity's id.
func (c *Context) ID() string {
	c.mustInfo("ID")
	return c.id
}

// Type returns the name of the entity's type.
func (c *Context) Type() string { return c.mustInfo("Type").typ }

// Shard returns the number of the entity's shard.
func (c *Context) Shard() ShardID { return c.mustInfo("Shard").number }

// Token returns the fencing token of this instance's allocation.
func (c *Context) Token() Token { return c.mustInfo("Token").token }

// Sender returns the origin of the message, or this node if there is no message.
func (c *Context) Sender() Sender {
	s := c.mustInfo("Sender")
	if c.from == nil {
		return Sender{Node: s.node}
	}
	return *c.from
}

// Header returns the value of a header of the message, "" if it has none of that key.
func (c *Context) Header(key string) string {
	c.mustInfo("Header")
	value, _ := c.headers.Get(key)
	return value
}

// Headers returns the headers of the message in a new map, nil if there are none.
func (c *Context) Headers() map[string]string {
	c.mustInfo("Headers")
	return c.headers.Map()
}

// Self returns the identity with which this entity sends.
func (c *Context) Self() Sender {
	s := c.mustInfo("Self")
	return Sender{Node: s.node, Type: s.typ, ID: c.id}
}

// SenderOf returns the entity to whose handler ctx belongs, nil if it belongs to none. The
// messages of the entity carry the same value: it is shared and never changed. SenderOf
// fails with failure.ContextEnded.
func SenderOf(c *Context) (*Sender, error) {
	if c == nil {
		return nil, nil
	}
	s := c.info()
	if s == nil {
		return nil, failure.ContextEnded
	}
	self := c.self.Load()
	if self == nil {
		self = &Sender{Node: s.node, Type: s.typ, ID: c.id}
		c.self.Store(self)
	}
	return self, nil
}

// Passivate ends this instance after the current call.
func (c *Context) Passivate() {
	c.mustInfo("Passivate")
	c.leave = true
}

// Logger returns the node's logger with type, entity and shard attached.
func (c *Context) Logger() *slog.Logger {
	return c.mustInfo("Logger").loggerOf(c.id)
}

// unbind makes c ready for another instance.
func (c *Context) unbind() {
	c.shard, c.id, c.from, c.headers, c.chain, c.expires, c.leave = nil, "", nil, "", nil, time.Time{}, false
	c.message, c.stash, c.unstash, c.ends = false, false, false, false
	if c.self.Load() != nil { // a load costs less
		c.self.Store(nil)
	}
}

// shardInfo is the data that the Contexts of one shard share. Only base changes.
type shardInfo struct {
	*hostInfo
	number ShardID
	token  Token
	// base ends when the shard's instances are abandoned.
	base baseContext
	ops  shardOps
}

// hostInfo is the data that the Contexts of one Host share.
type hostInfo struct {
	typ    string
	node   gossip.NodeID
	logger *slog.Logger
	// parent is the parent of the contexts of handlers.
	parent context.Context
}

// baseContext is the parent of the contexts of a shard's handlers. It makes a real context at the
// first use of one: most shards never use it, and it would be a quarter of a shard at rest.
type baseContext struct {
	// made is nil until the first use or the end.
	made atomic.Pointer[cancellable]
}

// cancellable is a context with the function that cancels it.
type cancellable struct {
	context.Context
	cancel context.CancelFunc
}

// realContext returns the context, a cancelled one after endBase.
func (b *baseContext) realContext(parent context.Context) context.Context {
	return b.getMade(parent).Context
}

// endBase cancels the context, for good: later uses have it, too.
func (b *baseContext) endBase(parent context.Context) { b.getMade(parent).cancel() }

func (b *baseContext) getMade(parent context.Context) *cancellable {
	if c := b.made.Load(); c != nil {
		return c
	}
	ctx, cancel := context.WithCancel(parent)
	c := &cancellable{ctx, cancel}
	if !b.made.CompareAndSwap(nil, c) {
		cancel()
		return b.made.Load()
	}
	return c
}

func (s *shardInfo) loggerOf(id string) *slog.Logger {
	return s.logger.With("type", s.typ, "entity", id, "shard", s.number)
}

// lazyContext makes a real context.Context at the first use of one: most handlers never
// use it, and a timer per message would cost more than a handler.
//
// A Context that has made a real context is not reused for another message: package
// context reads parents later, from its own goroutines and timers, and must find the same
// parent.
type lazyContext struct {
	// used is set once a real context was needed.
	used   atomic.Bool
	mu     sync.Mutex
	ctx    context.Context
	cancel context.CancelFunc
}

func (l *lazyContext) getContext(s *shardInfo, expires time.Time) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used.Store(true)
	if l.ctx == nil {
		if expires.IsZero() {
			l.ctx, l.cancel = context.WithCancel(s.base.realContext(s.parent))
		} else {
			l.ctx, l.cancel = context.WithDeadline(s.base.realContext(s.parent), expires)
		}
	}
	return l.ctx
}

// afterCall returns the context after the call has returned: a cancelled one, even if
// none was made before.
func (l *lazyContext) afterCall() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx != nil {
		return l.ctx
	}
	return endedContext{}
}

// endedContext is the context of a call that has returned and had no use for a context.
type endedContext struct{ context.Context }

func (endedContext) Done() <-chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return ch
}

func (endedContext) Err() error { return context.Canceled }

// cancelContext cancels the context, if one was made.
func (l *lazyContext) cancelContext() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel != nil {
		l.cancel()
	}
}

// lookUp returns the value of key in the context, if a context was made.
func (l *lazyContext) lookUp(key any) any {
	if !l.used.Load() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ctx.Value(key)
}

// Deadline returns the time at which the asker stops waiting.
func (c *Context) Deadline() (time.Time, bool) {
	if c.outer != nil {
		return c.outer.Deadline()
	}
	return c.expires, !c.expires.IsZero()
}

// Done returns a channel that is closed at the deadline, when the instance is abandoned,
// and when the call ends.
func (c *Context) Done() <-chan struct{} { return c.real().Done() }

// Err returns the reason why Done was closed.
func (c *Context) Err() error { return c.real().Err() }

func (c *Context) real() context.Context {
	s := c.info()
	switch {
	case s == nil:
		return c.lazy.afterCall()
	case c.outer != nil:
		return c.outer
	}
	return c.lazy.getContext(s, c.expires)
}

// Value returns the values of keys of package context, of this package, and of
// runtime/pprof; for other keys it returns nil.
func (c *Context) Value(key any) any {
	if key == (selfKey{}) {
		return c
	}
	if c.outer != nil {
		return c.outer.Value(key)
	}
	if v := c.lazy.lookUp(key); v != nil || c.labels == nil {
		return v
	}
	return c.labels.Value(key)
}

type selfKey struct{}

// From returns the Context of the handler to which ctx belongs, nil outside of handlers, and
// the headers of messages that are sent with ctx. It fails if the headers are beyond a bound.
func From(ctx context.Context) (*Context, headers.List, error) {
	switch c := ctx.Value(selfKey{}).(type) {
	case *Context:
		return c, "", nil
	case *withHeaders:
		return c.handler, c.list, c.err
	}
	return nil, "", nil
}

// withHeaders is a context whose messages carry headers. It answers selfKey itself, so that
// From finds the handler and the headers with one look-up.
type withHeaders struct {
	context.Context
	handler *Context
	list    headers.List
	err     error
}

func (w *withHeaders) Value(key any) any {
	if key == (selfKey{}) {
		return w
	}
	return w.Context.Value(key)
}

// WithHeaders returns ctx with headers for messages that are sent with it: those of ctx and
// more.
func WithHeaders(ctx context.Context, more map[string]string) context.Context {
	w := &withHeaders{Context: ctx}
	if w.handler, w.list, w.err = From(ctx); w.err == nil {
		w.list, w.err = w.list.With(more)
	}
	return w
}

// BeginWithin binds c, which is new, to the call of parent. Values, deadline and end of c are
// those of outer, which derives from parent. So what an interceptor adds to its context reaches
// the handler. It reports false if the call has returned.
func BeginWithin(c, parent *Context, outer context.Context) bool {
	c.shard, c.outer = parent.info(), outer
	if c.shard == nil {
		return false
	}
	c.id, c.from, c.headers, c.chain, c.expires = parent.id, parent.from, parent.headers, parent.chain, parent.expires
	c.message = parent.message
	return true
}

// EndWithin ends the use of c, and passes what its handler has ordered to parent.
func EndWithin(c, parent *Context) {
	if c.leave {
		parent.leave = true
	}
	if c.stash {
		parent.stash = true
	}
	if c.unstash {
		parent.unstash = true
	}
	c.ended.Store(true)
}

// shardOps are the operations of its shard that a Context needs. Instances are named by
// id: the caller is a handler, so its instance is in the table unless the shard is gone.
type shardOps interface {
	setTimer(id, name string, after, every time.Duration) error
	cancelTimer(id, name string)
	roomToStash(id string) error
}

// ChainOf returns the Chain of the asks that are made with ctx.
func ChainOf(c *Context) *Chain {
	if c == nil {
		return nil
	}
	if known := c.asking.Load(); known != nil {
		return known
	}
	s := c.info()
	if s == nil {
		return nil
	}
	c.Done() // makes a real context, so that the Context is not reused with this chain
	next := &Chain{}
	if c.chain != nil {
		next.waits = append(next.waits, c.chain.waits[max(len(c.chain.waits)-ChainMax+1, 0):]...)
	}
	next.waits = append(next.waits, EntityHash(s.typ, c.id))
	c.asking.Store(next)
	return next
}
