package otelpeerage_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/otelpeerage"
	"github.com/peerage-go/peerage/peeragetest"
	"github.com/peerage-go/peerage/sharding"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// hop is the region of the tests' entities: each passes a request on to the first of the ids,
// with the rest.
type hop = sharding.Region[[]string, string]

// traced is a cluster of three nodes, each with a provider of its own, and one exporter.
type traced struct {
	*peeragetest.Cluster[*hop]
	spans *tracetest.InMemoryExporter
	test  trace.Tracer
}

// providerOf returns a provider that marks its spans with the name of their node.
func providerOf(spans sdk.SpanExporter, node string) trace.TracerProvider {
	return sdk.NewTracerProvider(sdk.WithSyncer(spans), sdk.WithResource(resource.NewSchemaless(attribute.String("node", node))))
}

// startTraced starts the cluster. Ids that begin with "tell" pass requests on by Tell.
func startTraced(t *testing.T, options ...otelpeerage.Option) *traced {
	spans := tracetest.NewInMemoryExporter()
	c := &traced{spans: spans, test: providerOf(spans, "test").Tracer("test")}
	c.Cluster = peeragetest.Start(t, 3, func(ctx context.Context, cfg peerage.Config) (*peerage.Node, *hop, error) {
		cfg.Interceptors = []sharding.Interceptor{otelpeerage.Interceptor(
			append([]otelpeerage.Option{otelpeerage.WithTracerProvider(providerOf(spans, cfg.Name))}, options...)...)}
		node, err := peerage.New(cfg)
		if err != nil {
			return nil, nil, err
		}
		var region *hop
		region, err = sharding.Register(node.Registry(), sharding.Type[[]string, string]{
			Name: "hop", Shards: 30,
			New: func(id string) sharding.Entity[[]string, string] {
				return sharding.Func(func(ctx *sharding.Context, rest []string) (string, error) {
					switch {
					case id == "fails":
						return "", errors.New("no")
					case id == "panics":
						panic("no")
					case len(rest) == 0:
						return baggage.FromContext(ctx).Member("user").Value(), nil
					case strings.HasPrefix(id, "tell"):
						return "", region.Tell(ctx, rest[0], rest[1:])
					}
					return region.Ask(ctx, rest[0], rest[1:])
				})
			},
		})
		if err != nil {
			return nil, nil, err
		}
		return node, region, node.Start(ctx)
	})
	return c
}

// nodeOf returns the node whose provider made a span.
func nodeOf(s *tracetest.SpanStub) string {
	v, _ := s.Resource.Set().Value("node")
	return v.AsString()
}

// attributeOf returns an attribute of a span as text.
func attributeOf(s *tracetest.SpanStub, key attribute.Key) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.Emit()
		}
	}
	return ""
}

// traceOf waits until a trace has n spans, checks that each but the first is the child of
// another one, and each of a handler that of a call that sends, and returns them in the order
// in which they ended.
func (c *traced) traceOf(t *testing.T, id trace.TraceID, n int) (out []tracetest.SpanStub) {
	t.Helper()
	c.WaitUntil(10*time.Second, fmt.Sprintf("the trace has %d spans", n), func() bool {
		out = slices.DeleteFunc(c.spans.GetSpans(), func(s tracetest.SpanStub) bool { return s.SpanContext.TraceID() != id })
		return len(out) >= n
	})
	if len(out) != n {
		t.Errorf("%d spans, want %d", len(out), n)
	}
	byID := map[trace.SpanID]*tracetest.SpanStub{}
	for i := range out {
		byID[out[i].SpanContext.SpanID()] = &out[i]
	}
	missing := map[trace.SpanID]bool{} // the root has none, and that of the test may still run
	for i := range out {
		s := &out[i]
		parent := byID[s.Parent.SpanID()]
		sends := map[trace.SpanKind]trace.SpanKind{trace.SpanKindServer: trace.SpanKindClient, trace.SpanKindConsumer: trace.SpanKindProducer}[s.SpanKind]
		switch {
		case parent == nil:
			missing[s.Parent.SpanID()] = true
		case sends != 0 && (parent.SpanKind != sends || !s.Parent.IsRemote() || attributeOf(parent, otelpeerage.KeyShard) != attributeOf(s, otelpeerage.KeyShard)):
			t.Errorf("%s of kind %v is a child of %s of kind %v", s.Name, s.SpanKind, parent.Name, parent.SpanKind)
		}
	}
	if len(missing) != 1 {
		t.Errorf("%d parents of spans are missing, want 1", len(missing))
	}
	return out
}

// ofKind returns the first span of a kind.
func ofKind(t *testing.T, spans []tracetest.SpanStub, kind trace.SpanKind) *tracetest.SpanStub {
	t.Helper()
	i := slices.IndexFunc(spans, func(s tracetest.SpanStub) bool { return s.SpanKind == kind })
	if i < 0 {
		t.Fatalf("no span of kind %v", kind)
	}
	return &spans[i]
}

// begin begins a span of the test, within which calls are made.
func (c *traced) begin(t *testing.T) (context.Context, trace.Span) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return c.test.Start(ctx, "test")
}

// handlers returns the nodes whose handlers have spans.
func handlers(spans []tracetest.SpanStub) map[string]int {
	all := map[string]int{}
	for i := range spans {
		if spans[i].SpanKind == trace.SpanKindServer || spans[i].SpanKind == trace.SpanKindConsumer {
			all[nodeOf(&spans[i])]++
		}
	}
	return all
}

var stops = []string{"b", "c", "d", "e", "f", "g", "h", "i"}

func TestOneTraceSpansTheHops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startTraced(t)
		ctx, span := c.begin(t)
		if _, err := c.Node("a").Service.Ask(ctx, "a", stops); err != nil {
			t.Fatal(err)
		}
		span.End()
		hops := 1 + len(stops)
		spans := c.traceOf(t, span.SpanContext().TraceID(), 1+2*hops)
		if got := handlers(spans); len(got) != 3 {
			t.Errorf("handlers have spans at %v, want all three nodes", got)
		}
		depth := map[string]int{}
		for i := range spans {
			s := &spans[i]
			depth[s.Name]++
			if s.Name == "test" {
				continue
			}
			if attributeOf(s, otelpeerage.KeyType) != "hop" || attributeOf(s, otelpeerage.KeyOperation) != "ask" || attributeOf(s, otelpeerage.KeyShard) == "" ||
				attributeOf(s, otelpeerage.KeyEntity) != "" || s.Status.Code != codes.Unset {
				t.Errorf("%s has %v, status %v", s.Name, s.Attributes, s.Status)
			}
		}
		if depth["ask hop"] != hops || depth["handle hop"] != hops {
			t.Errorf("spans %v, want %d of each side", depth, hops)
		}
	})
}

func TestTellsAndReliableMessagesAreTraced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startTraced(t, otelpeerage.WithEntityIDs())
		ctx, span := c.begin(t)
		s, err := c.Node("b").Service.Reliable(sharding.ReliableConfig[[]string]{})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Send(ctx, "tell1", []string{"tell2", "tell3", "end"}), s.Flush(ctx), s.Close()); err != nil {
			t.Fatal(err)
		}
		if err := c.Node("b").Service.Start(ctx, "end"); err != nil {
			t.Fatal(err)
		}
		span.End()
		names := map[string]trace.SpanKind{}
		for _, s := range c.traceOf(t, span.SpanContext().TraceID(), 1+2*4+1) {
			names[s.Name+" "+attributeOf(&s, otelpeerage.KeyOperation)+" "+attributeOf(&s, otelpeerage.KeyEntity)] = s.SpanKind
		}
		for name, kind := range map[string]trace.SpanKind{
			"send hop send tell1": trace.SpanKindProducer, "handle hop send tell1": trace.SpanKindConsumer,
			"tell hop tell end": trace.SpanKindProducer, "handle hop tell end": trace.SpanKindConsumer,
			"start hop start end": trace.SpanKindClient,
		} {
			if names[name] != kind {
				t.Errorf("%q is of kind %v, want %v", name, names[name], kind)
			}
		}
	})
}

// TestOneTraceSpansAMove drains a node while calls run, and checks that all calls of one trace,
// before, during and after the move, have both spans.
func TestOneTraceSpansAMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startTraced(t)
		ctx, span := c.begin(t)
		from := c.Node("a").Service
		calls := 0
		ask := func() {
			t.Helper()
			for _, id := range stops {
				calls++
				if _, err := from.Ask(ctx, id, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		ask()
		before := handlers(c.traceOf(t, span.SpanContext().TraceID(), 2*calls))
		if before["c"] == 0 {
			t.Fatalf("node c handles nothing: %v", before)
		}
		drained := make(chan error, 1)
		go func() { drained <- c.Node("c").Drain(ctx) }()
		for moved := false; !moved; {
			ask()
			select {
			case err := <-drained:
				if moved = true; err != nil {
					t.Fatal(err)
				}
			default:
			}
		}
		during := handlers(c.traceOf(t, span.SpanContext().TraceID(), 2*calls))
		ask()
		span.End()
		after := handlers(c.traceOf(t, span.SpanContext().TraceID(), 1+2*calls))
		if after["c"] != during["c"] || after["a"]+after["b"] <= during["a"]+during["b"] {
			t.Errorf("handlers have spans at %v, then %v: those of node c did not move", during, after)
		}
	})
}

func TestLinkedMessagesBeginTheirOwnTraces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startTraced(t, otelpeerage.WithLinkedMessages())
		ctx, span := c.begin(t)
		if err := c.Node("a").Service.Tell(ctx, "x", []string{"y"}); err != nil {
			t.Fatal(err)
		}
		span.End()
		sent := ofKind(t, c.traceOf(t, span.SpanContext().TraceID(), 2), trace.SpanKindProducer)
		var linked tracetest.SpanStub
		c.WaitUntil(10*time.Second, "the handler has a span", func() bool {
			for _, s := range c.spans.GetSpans() {
				if s.SpanKind == trace.SpanKindConsumer {
					linked = s
				}
			}
			return linked.Name != ""
		})
		if len(linked.Links) != 1 || linked.Links[0].SpanContext.SpanID() != sent.SpanContext.SpanID() || linked.Parent.IsValid() {
			t.Errorf("links %v and parent %v, want a link to %v", linked.Links, linked.Parent, sent.SpanContext)
		}
		// What its handler asks belongs to its trace.
		c.traceOf(t, linked.SpanContext.TraceID(), 3)
	})
}

func TestErrorsAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startTraced(t)
		for _, e := range []struct{ id, sent, handled string }{
			{"fails", "handler", "_OTHER"}, {"panics", "handler", "panic"}, {"", "invalid", ""},
		} {
			ctx, span := c.begin(t)
			if _, err := c.Node("a").Service.Ask(ctx, e.id, nil); err == nil {
				t.Fatalf("%q does not fail", e.id)
			}
			span.End()
			n := 3
			if e.handled == "" {
				n = 2
			}
			for _, s := range c.traceOf(t, span.SpanContext().TraceID(), n) {
				want := map[trace.SpanKind]string{trace.SpanKindClient: e.sent, trace.SpanKindServer: e.handled}[s.SpanKind]
				if got := attributeOf(&s, otelpeerage.KeyError); got != want || (s.Status.Code == codes.Error) != (want != "") {
					t.Errorf("%q: %s of kind %v has the error %q, status %v; want %q", e.id, s.Name, s.SpanKind, got, s.Status, want)
				}
			}
		}
		ctx, span := c.begin(t)
		ended, cancel := context.WithCancel(ctx)
		cancel()
		_, err := c.Node("a").Service.Ask(ended, "a", nil)
		span.End()
		if got := attributeOf(ofKind(t, c.traceOf(t, span.SpanContext().TraceID(), 2), trace.SpanKindClient), otelpeerage.KeyError); got != "canceled" {
			t.Errorf("a call that was given up has the error %q: %v", got, err)
		}
	})
}

// TestTracingFailsNoCall fills the headers of a message: there is no room for the trace context.
func TestTracingFailsNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startTraced(t)
		ctx, span := c.begin(t)
		full := map[string]string{}
		for i := range sharding.HeadersMax {
			full[fmt.Sprint(i)] = "v"
		}
		if _, err := c.Node("a").Service.Ask(sharding.WithHeaders(ctx, full), "a", nil); err != nil {
			t.Error(err)
		}
		span.End()
		if events := ofKind(t, c.traceOf(t, span.SpanContext().TraceID(), 2), trace.SpanKindClient).Events; len(events) != 1 {
			t.Errorf("events %v, want one", events)
		}
	})
}

func TestBaggageTravelsWithAPropagatorForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
		c := startTraced(t, otelpeerage.WithPropagator(both))
		ctx, span := c.begin(t)
		defer span.End()
		user, err := baggage.NewMember("user", "alice")
		if err != nil {
			t.Fatal(err)
		}
		bag, err := baggage.New(user)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.Node("a").Service.Ask(baggage.ContextWithBaggage(ctx, bag), "a", stops); got != "alice" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// TestWithoutAProvider checks that a node without a provider sends no header and makes no span, and
// passes on the trace of its callers.
func TestWithoutAProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startTraced(t, otelpeerage.WithTracerProvider(noop.NewTracerProvider()))
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if _, err := c.Node("a").Service.Ask(ctx, "a", stops); err != nil {
			t.Fatal(err)
		}
		if spans := c.spans.GetSpans(); len(spans) != 0 {
			t.Errorf("%d spans", len(spans))
		}
	})
}

// An interceptor without a provider changes neither the Context of a handler nor the headers of
// a message; one with a provider continues with those of its span.
func TestAnInterceptorWithoutAProviderIsCheap(t *testing.T) {
	i := otelpeerage.Interceptor(otelpeerage.WithTracerProvider(noop.NewTracerProvider()))
	call := &sharding.Call{Op: sharding.OpAsk, Type: "t"}
	next := func(context.Context) error { return nil }
	ctx := context.Background()
	if err := i.Send(ctx, call, next); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { _ = i.Send(ctx, call, next) }); n > 6 {
		t.Errorf("a call without a provider allocates %.0f times", n)
	}
}

func BenchmarkSend(b *testing.B) {
	for name, p := range map[string]trace.TracerProvider{
		"no provider": noop.NewTracerProvider(), "not sampled": sdk.NewTracerProvider(sdk.WithSampler(sdk.NeverSample())), "sampled": sdk.NewTracerProvider(),
	} {
		b.Run(name, func(b *testing.B) {
			i := otelpeerage.Interceptor(otelpeerage.WithTracerProvider(p))
			call := &sharding.Call{Op: sharding.OpAsk, Type: "t"}
			next := func(context.Context) error { return nil }
			b.ReportAllocs()
			for b.Loop() {
				_ = i.Send(b.Context(), call, next)
			}
		})
	}
}
