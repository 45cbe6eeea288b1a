package sharding

import (
	"context"
	"sync"

	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/delivery/endpoint"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/internal/headers"
)

// Interceptor wraps calls: those that send on the sending node, those of Handle at the home.
// Set it for a type (Type.Interceptors) or for all types of a node (peerage.Config). It suits
// what all entities need alike: traces, logs, authorization, limits. The first interceptor is
// the outermost.
//
// An interceptor continues with next, and returns its error or another one. If it does not call
// next, the message is not sent, or not handled. If it then returns nil, the caller gets the
// zero response. If it calls next again, the message is sent, or handled, again. next must have
// returned before the interceptor returns. Each call runs interceptors in its own goroutine, so
// they are called concurrently.
type Interceptor struct {
	// Send wraps each Tell, Ask and Start, and Reliable.Send, on this node; nil means no
	// calls. An Ask with Retry is one call. To attach headers, continue with the context of
	// WithHeaders. ctx is the caller's: to carry a value of it to the handler, put it into
	// a header.
	Send func(ctx context.Context, call *Call, next func(context.Context) error) error
	// Handle wraps each call of Entity.Handle on this node; nil means no calls. ctx is the
	// handler's, with the sender and the headers. Continue with ctx, or with a context that
	// derives from it: its values, deadline and end are then those of the handler's Context.
	//
	// The error that Handle returns is the entity's answer, as one of Entity.Handle is. A
	// panic is treated as a panic of the handler.
	Handle func(ctx *Context, call *Call, next func(context.Context) error) error
}

// Call describes the call that an Interceptor wraps. Its fields are for reading only. It is
// valid until the interceptor returns.
type Call struct {
	// Op is OpTell, OpAsk, OpStart or OpSend. For Interceptor.Handle, it is the operation
	// that has sent the message, never OpStart.
	Op string
	// Type and ID name the entity, Shard is its shard.
	Type  string
	ID    string
	Shard ShardID
	// of has the messages; nil in a Call that a test has made.
	of messages
}

// messages are the request and the response of a call.
type messages interface {
	anyRequest() any
	anyResponse() any
}

// The operations of a Call.
const (
	// OpTell: Ref.Tell.
	OpTell = activation.OpTell
	// OpAsk: Ref.Ask.
	OpAsk = activation.OpAsk
	// OpStart: Ref.Start, which has no request and runs no handler.
	OpStart = activation.OpStart
	// OpSend: Reliable.Send. Handle is wrapped once for each run of the handler.
	OpSend = activation.OpSend
)

// Request returns the request, which must not be changed; nil for OpStart.
func (c *Call) Request() any {
	if c.of == nil || c.Op == OpStart {
		return nil
	}
	return c.of.anyRequest()
}

// Response returns the response of an ask, or of a handler, after next has returned nil. Before
// that, and for other operations, it returns the zero response.
func (c *Call) Response() any {
	if c.of == nil {
		return nil
	}
	return c.of.anyResponse()
}

// Bounds of the headers of one message: their number, the bytes of a key and of a value, and the
// bytes of all keys and values together.
const (
	HeadersMax          = headers.Max
	HeaderKeyBytesMax   = headers.KeyBytesMax
	HeaderValueBytesMax = headers.ValueBytesMax
	HeaderBytesMax      = headers.BytesMax
)

// WithHeaders returns ctx with headers for all messages that are sent with it, in addition to
// those that ctx has already; a header replaces that of the same key. They travel with a message
// wherever it goes: through buffers, moves of its shard and retransmissions. The handler reads
// them with Context.Header. Beyond a bound, calls with the context fail with ErrHeaders.
//
// A handler's Context has no headers for the messages that the handler sends. To pass some on,
// use WithHeaders there, or in an Interceptor.
func WithHeaders(ctx context.Context, headers map[string]string) context.Context {
	return activation.WithHeaders(ctx, headers)
}

type (
	sendFunc   = func(ctx context.Context, call *Call, next func(context.Context) error) error
	handleFunc = func(ctx *Context, call *Call, next func(context.Context) error) error
)

// sendChain returns the functions that wrap calls that send, nil for none.
func sendChain(all []Interceptor) (chain []sendFunc) {
	for _, i := range all {
		if i.Send != nil {
			chain = append(chain, i.Send)
		}
	}
	return chain
}

// wrappedSend is a Tell, an Ask or a Start on its way through the interceptors of its type.
type wrappedSend[Req, Resp any] struct {
	Call
	to   Ref[Req, Resp]
	opts endpoint.AskOptions
	req  Req
	resp Resp
}

func (c *wrappedSend[Req, Resp]) anyRequest() any  { return c.req }
func (c *wrappedSend[Req, Resp]) anyResponse() any { return c.resp }

// wrapCall returns a call of f that goes through the interceptors.
func (f Ref[Req, Resp]) wrapCall(op string, req Req, opts endpoint.AskOptions) *wrappedSend[Req, Resp] {
	c := &wrappedSend[Req, Resp]{
		Call: Call{Op: op, Type: f.region.typed.Name, ID: f.to.ID, Shard: f.to.Shard},
		to:   f, opts: opts, req: req,
	}
	c.of = c
	return c
}

// runChain sends the message. resp is set unless it fails.
func (c *wrappedSend[Req, Resp]) runChain(ctx context.Context) error {
	err := runSend(ctx, &c.Call, c.to.region.sends, c.sendNow)
	if err != nil {
		var none Resp
		c.resp = none
	}
	return err
}

// sendNow sends the message when all interceptors have continued.
func (c *wrappedSend[Req, Resp]) sendNow(ctx context.Context) error {
	if c.Op == OpTell {
		return c.to.tellDirectly(ctx, c.req)
	}
	resp, err := c.to.askDirectly(ctx, c.req, c.opts)
	if err == nil {
		c.resp = resp
	}
	return err
}

// interceptSend lets a message of a Reliable go through the interceptors, then calls send.
func (r *Region[Req, Resp]) interceptSend(ctx context.Context, id string, req Req, send func(context.Context) error) error {
	c := r.Ref(id).wrapCall(OpSend, req, endpoint.AskOptions{})
	return runSend(ctx, &c.Call, r.sends, send)
}

// runSend calls the first of chain, which continues with the rest, then with send.
func runSend(ctx context.Context, call *Call, chain []sendFunc, send func(context.Context) error) error {
	if len(chain) == 0 {
		return send(ctx)
	}
	return chain[0](ctx, call, func(ctx context.Context) error { return runSend(ctx, call, chain[1:], send) })
}

// handleChain returns the function that calls an entity's Handle through the interceptors, nil
// if none wraps it.
func handleChain[Req, Resp any](all []Interceptor) func(*Context, string, Req, activation.Entity[*Context, Req, Resp]) (Resp, error) {
	var chain []handleFunc
	for _, i := range all {
		if i.Handle != nil {
			chain = append(chain, i.Handle)
		}
	}
	if chain == nil {
		return nil
	}
	return func(ctx *Context, op string, req Req, ent activation.Entity[*Context, Req, Resp]) (resp Resp, err error) {
		c := &wrappedHandle[Req, Resp]{
			Call: Call{Op: op, Type: ctx.Type(), ID: ctx.ID(), Shard: ctx.Shard()}, ent: ent, req: req,
		}
		c.of = c
		defer c.endCall()
		if err = c.runChain(ctx, chain); err != nil {
			return resp, err
		}
		return c.endCall(), nil
	}
}

// wrappedHandle is a call of Handle on its way through the interceptors of its type.
type wrappedHandle[Req, Resp any] struct {
	Call
	ent activation.Entity[*Context, Req, Resp]
	req Req
	// mu guards the fields below. running is set while the handler runs; idle is closed when
	// it has returned, and nil unless it is waited for. over is set when the call has ended.
	mu            sync.Mutex
	running, over bool
	idle          chan struct{}
	resp          Resp
}

func (c *wrappedHandle[Req, Resp]) anyRequest() any  { return c.req }
func (c *wrappedHandle[Req, Resp]) anyResponse() any { return c.resp }

// endCall lets no handler run from now on, and returns the response. It waits for a handler that an
// interceptor has left behind: the next message of the entity must not meet it.
func (c *wrappedHandle[Req, Resp]) endCall() Resp {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	c.awaitIdle()
	return c.resp
}

// awaitIdle waits until the handler does not run; called with the mutex.
func (c *wrappedHandle[Req, Resp]) awaitIdle() {
	for c.running {
		if c.idle == nil {
			c.idle = make(chan struct{})
		}
		idle := c.idle
		c.mu.Unlock()
		<-idle
		c.mu.Lock()
	}
}

// beginHandler waits until the handler does not run, and makes it run. It reports false if the call
// has ended.
func (c *wrappedHandle[Req, Resp]) beginHandler() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.awaitIdle()
	c.running = !c.over
	return c.running
}

// finishHandler ends the run of the handler.
func (c *wrappedHandle[Req, Resp]) finishHandler() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = false
	if c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// runChain calls the first of chain, which continues with the rest, then with the handler.
func (c *wrappedHandle[Req, Resp]) runChain(ctx *Context, chain []handleFunc) error {
	if len(chain) == 0 {
		return c.handle(ctx)
	}
	return chain[0](ctx, &c.Call, func(inner context.Context) error {
		if inner == context.Context(ctx) {
			return c.runChain(ctx, chain[1:])
		}
		// The handler's Context has the values of inner.
		own := new(Context)
		if !activation.BeginWithin(&own.in, &ctx.in, inner) {
			return inGroup(failure.ContextEnded)
		}
		defer activation.EndWithin(&own.in, &ctx.in)
		return c.runChain(own, chain[1:])
	})
}

// handle calls the handler when all interceptors have continued.
func (c *wrappedHandle[Req, Resp]) handle(ctx *Context) error {
	if !c.beginHandler() {
		return inGroup(failure.ContextEnded)
	}
	defer c.finishHandler()
	resp, err := c.ent.Handle(ctx, c.req)
	if err == nil {
		c.resp = resp
	}
	return err
}
