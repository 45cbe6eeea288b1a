package otelpeerage_test

import (
	"context"
	"fmt"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/otelpeerage"
	"github.com/peerage-go/peerage/sharding"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// An Ask has a span on the node of its caller, and its handler one at the home of the entity.
func ExampleInterceptor() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	spans := tracetest.NewInMemoryExporter() // in production, an exporter to a collector
	provider := sdk.NewTracerProvider(sdk.WithSyncer(spans))
	node, err := peerage.New(peerage.Config{
		Interceptors: []sharding.Interceptor{otelpeerage.Interceptor(otelpeerage.WithTracerProvider(provider))},
	})
	check(err)
	defer node.Close()
	greeters, err := sharding.Register(node.Registry(), sharding.Type[string, string]{
		Name: "greeter",
		New: func(id string) sharding.Entity[string, string] {
			return sharding.Func(func(_ *sharding.Context, name string) (string, error) { return "hello " + name, nil })
		},
	})
	check(err)
	check(node.Start(ctx))

	fmt.Println(greeters.Ask(ctx, "door", "Alice"))
	all := spans.GetSpans()
	for _, s := range all {
		fmt.Println(s.Name, s.SpanKind)
	}
	fmt.Println("one trace:", all[0].SpanContext.TraceID() == all[1].SpanContext.TraceID(),
		"child of the call:", all[0].Parent.SpanID() == all[1].SpanContext.SpanID())
	// Output:
	// hello Alice <nil>
	// handle greeter server
	// ask greeter client
	// one trace: true child of the call: true
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
