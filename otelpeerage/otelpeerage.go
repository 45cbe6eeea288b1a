// Package otelpeerage makes OpenTelemetry spans of the calls of entities. It is a module of its
// own, so that package peerage does not depend on OpenTelemetry:
//
//	node, err := peerage.Start(ctx, peerage.Config{
//		Interceptors: []sharding.Interceptor{otelpeerage.Interceptor()},
//	})
//
// A call that sends has a span on the sending node: of kind client for Ask and Start, of kind
// producer for Tell and Reliable.Send. A run of a handler has a span at the home of the entity:
// of kind server for an Ask, of kind consumer for the others. Headers of messages carry the
// trace context, in the form of W3C, so one trace spans all hops. They travel with the message:
// a shard that moves in between changes nothing.
//
// All nodes should use the interceptor. A node without it ends the trace: what its handlers send
// belongs to other traces. OnStart, OnTimer and OnStop have no spans.
package otelpeerage

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/sharding"
)

// Attributes of spans.
const (
	// KeyOperation is the operation: "ask", "tell", "start" or "send".
	KeyOperation = attribute.Key("peerage.operation")
	// KeyType is the entity type, KeyShard the number of the entity's shard.
	KeyType  = attribute.Key("peerage.type")
	KeyShard = attribute.Key("peerage.shard")
	// KeyEntity is the id of the entity: see WithEntityIDs.
	KeyEntity = attribute.Key("peerage.entity")

	// KeyError, on the span of a call that failed, is the code of the error, as package
	// sharding documents them: "overloaded", "unavailable", "wrong_node", "handler" and so on. It is
	// "canceled" or "deadline_exceeded" if the context of the call ended, "panic" for a
	// handler that panicked, and "_OTHER" for an error of the application.
	KeyError = attribute.Key("error.type")
)

// scope is the name of the tracer.
const scope = "github.com/peerage-go/peerage/otelpeerage"

// Option changes what Interceptor does.
type Option func(*tracing)

// WithTracerProvider sets the source of the tracer. Default: otel.GetTracerProvider().
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(t *tracing) { t.provider = p }
}

// WithPropagator sets what headers carry, and in which form. All nodes must use the same.
// Default: propagation.TraceContext. Use a composite with propagation.Baggage to carry
// baggage, too.
func WithPropagator(p propagation.TextMapPropagator) Option {
	return func(t *tracing) { t.propagator = p }
}

// WithEntityIDs gives spans the attribute KeyEntity. Ids may be personal data, so spans have
// none by default.
func WithEntityIDs() Option {
	return func(t *tracing) { t.ids = true }
}

// WithLinkedMessages lets the handler of a message that nothing waits for, of Tell and of a
// Reliable, begin a trace of its own, with a link to the span of the sender. By default its span
// is a child of the sender's. Use it where entities tell each other without an end: their trace
// would have no end either.
func WithLinkedMessages() Option {
	return func(t *tracing) { t.linked = true }
}

// Interceptor returns an interceptor that makes spans and carries the trace context. Make it the
// first one, so that its spans contain what the others do. It never makes a call fail: if there
// is no room in the headers of a message, the message travels without trace context, and the
// span has an event.
func Interceptor(options ...Option) sharding.Interceptor {
	t := &tracing{propagator: propagation.TraceContext{}}
	for _, o := range options {
		o(t)
	}
	if t.provider == nil {
		t.provider = otel.GetTracerProvider()
	}
	t.tracer = t.provider.Tracer(scope, trace.WithInstrumentationVersion(peerage.Version))
	return sharding.Interceptor{Send: t.send, Handle: t.handle}
}

// tracing makes the spans of one Interceptor.
type tracing struct {
	provider    trace.TracerProvider
	tracer      trace.Tracer
	propagator  propagation.TextMapPropagator
	ids, linked bool
	// spans has a *spanOf for each spanKey that occurs: some for each type.
	spans sync.Map
}

// spanKey is what spans have in common that begin alike.
type spanKey struct {
	op, typ  string
	handling bool
}

// spanOf is the beginning of a span. It is made once, so that a span that is not recorded costs
// little.
type spanOf struct {
	name    string
	options []trace.SpanStartOption
}

// spanFor returns the beginning of the span of a call.
func (t *tracing) spanFor(c *sharding.Call, handling bool) *spanOf {
	key := spanKey{c.Op, c.Type, handling}
	if s, known := t.spans.Load(key); known {
		return s.(*spanOf)
	}
	waits := c.Op == sharding.OpAsk || c.Op == sharding.OpStart
	s := &spanOf{name: c.Op + " " + c.Type}
	kind := trace.SpanKindProducer
	switch {
	case handling && waits:
		s.name, kind = "handle "+c.Type, trace.SpanKindServer
	case handling:
		s.name, kind = "handle "+c.Type, trace.SpanKindConsumer
	case waits:
		kind = trace.SpanKindClient
	}
	s.options = []trace.SpanStartOption{
		trace.WithSpanKind(kind), trace.WithAttributes(KeyOperation.String(c.Op), KeyType.String(c.Type)),
	}
	if handling && !waits && t.linked {
		s.options = append(s.options, trace.WithNewRoot())
	}
	known, _ := t.spans.LoadOrStore(key, s)
	return known.(*spanOf)
}

// describe adds to a span what differs between the entities of a type.
func (t *tracing) describe(span trace.Span, c *sharding.Call) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(KeyShard.Int(int(c.Shard)))
	if t.ids {
		span.SetAttributes(KeyEntity.String(c.ID))
	}
}

// send makes the span of a call that sends.
func (t *tracing) send(ctx context.Context, c *sharding.Call, next func(context.Context) error) error {
	s := t.spanFor(c, false)
	ctx, span := t.tracer.Start(ctx, s.name, s.options...)
	t.describe(span, c)
	var out outgoing
	t.propagator.Inject(ctx, &out)
	return runWithin(ctx, span, func(ctx context.Context) error {
		if out.headers == nil {
			return next(ctx)
		}
		err := next(sharding.WithHeaders(ctx, out.headers))
		if errors.Is(err, sharding.ErrHeaders) { // nothing was sent
			span.AddEvent("the headers of the message have no room for the trace context")
			err = next(ctx)
		}
		return err
	})
}

// handle makes the span of a run of a handler.
func (t *tracing) handle(ctx *sharding.Context, c *sharding.Call, next func(context.Context) error) error {
	s := t.spanFor(c, true)
	parent := t.propagator.Extract(ctx, incoming{ctx})
	options := s.options
	if t.linked && len(options) > 2 {
		if sender := trace.SpanContextFromContext(parent); sender.IsValid() {
			options = append(options[:len(options):len(options)], trace.WithLinks(trace.Link{SpanContext: sender}))
		}
	}
	inner, span := t.tracer.Start(parent, s.name, options...)
	if parent == context.Context(ctx) && !span.SpanContext().IsValid() {
		return next(ctx) // there is neither a trace nor a tracer: the handler needs no other Context
	}
	t.describe(span, c)
	return runWithin(inner, span, next)
}

// runWithin calls next, and ends the span with the result. A call that does not return has
// panicked.
func runWithin(ctx context.Context, span trace.Span, next func(context.Context) error) (err error) {
	returned := false
	defer func() {
		defer span.End()
		switch {
		case !returned:
			markFailed(span, "panic", "the call has panicked")
		case err != nil && span.IsRecording():
			markFailed(span, errorType(err), err.Error())
		}
	}()
	err = next(ctx)
	returned = true
	return err
}

// markFailed sets the status of a span, and the type of the error.
func markFailed(span trace.Span, typ, text string) {
	span.SetStatus(codes.Error, text)
	span.SetAttributes(KeyError.String(typ))
}

// codeNames are the values of KeyError for the codes of package sharding.
var codeNames = map[sharding.Code]string{
	sharding.ErrInvalid: "invalid", sharding.ErrIncompatible: "incompatible", sharding.ErrOverloaded: "overloaded",
	sharding.ErrUnavailable: "unavailable", sharding.ErrWrongNode: "wrong_node", sharding.ErrOutcomeUnknown: "outcome_unknown",
	sharding.ErrEntityState: "entity_state", sharding.ErrHandler: "handler",
}

// errorType returns the value of KeyError for an error.
func errorType(err error) string {
	var e *sharding.Error
	known := errors.As(err, &e)
	switch {
	case known && e.Code != sharding.ErrOutcomeUnknown:
		return codeNames[e.Code]
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline_exceeded"
	case known:
		return codeNames[e.Code]
	}
	return "_OTHER"
}

// outgoing collects the headers of a message.
type outgoing struct{ headers map[string]string }

// Get implements propagation.TextMapCarrier.
func (o *outgoing) Get(key string) string { return o.headers[key] }

// Set implements propagation.TextMapCarrier.
func (o *outgoing) Set(key, value string) {
	if o.headers == nil {
		o.headers = map[string]string{}
	}
	o.headers[key] = value
}

// Keys implements propagation.TextMapCarrier.
func (o *outgoing) Keys() (keys []string) {
	for key := range o.headers {
		keys = append(keys, key)
	}
	return keys
}

// incoming reads the headers of the message that is handled.
type incoming struct{ ctx *sharding.Context }

// Get implements propagation.TextMapCarrier.
func (i incoming) Get(key string) string { return i.ctx.Header(key) }

// Set implements propagation.TextMapCarrier. The headers of a message do not change.
func (i incoming) Set(string, string) {}

// Keys implements propagation.TextMapCarrier.
func (i incoming) Keys() (keys []string) {
	for key := range i.ctx.Headers() {
		keys = append(keys, key)
	}
	return keys
}
