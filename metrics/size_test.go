package metrics_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/sharding"
)

// counter is the entity of these tests.
type counter struct{ n int }

func (c *counter) Handle(_ *sharding.Context, add int) (int, error) {
	c.n += add
	return c.n, nil
}

// exported is a node over TCP that hosts counters, with its registry.
type exported struct {
	node     *peerage.Node
	counters *sharding.Region[int, int]
	registry *prometheus.Registry
}

// startNode starts a node; join is empty for the first.
func startNode(t testing.TB, name string, shards int, join ...string) *exported {
	t.Helper()
	e := &exported{registry: prometheus.NewPedanticRegistry()}
	cfg := peerage.LocalConfig()
	cfg.Name, cfg.Join, cfg.Bootstrap, cfg.Registerer = name, join, len(join) == 0, e.registry
	if len(join) > 0 {
		cfg.BootstrapExpect = 2
	}
	var err error
	if e.node, err = peerage.New(cfg); err != nil {
		t.Fatal(err)
	}
	e.counters, err = sharding.Register(e.node.Registry(), sharding.Type[int, int]{
		Name: "counter", Shards: shards, New: func(string) sharding.Entity[int, int] { return &counter{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := e.node.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := e.node.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return e
}

// use asks and tells counters until the node has had one in every shard.
func (e *exported) use(t testing.TB, ids int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range ids {
		if _, err := e.counters.Ask(ctx, fmt.Sprint("id", i), 1); err != nil {
			t.Fatal(err)
		}
		if err := e.counters.Tell(ctx, fmt.Sprint("id", i), 1); err != nil {
			t.Fatal(err)
		}
	}
}

// size counts the series of a scrape: those that a server stores if it scrapes native histograms,
// and those with classic buckets.
func (e *exported) size(t testing.TB) (native, classic int, byFamily map[string]int) {
	t.Helper()
	families, err := e.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	byFamily = map[string]int{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "peerage_") {
			t.Errorf("%s is no metric of a node", f.GetName())
		}
		for _, m := range f.GetMetric() {
			native++
			classic += classicSeries(m)
			byFamily[f.GetName()] += classicSeries(m)
		}
	}
	return native, classic, byFamily
}

// classicSeries counts a sample without native histograms: a bucket each, +Inf, sum and count.
func classicSeries(m *dto.Metric) int {
	if m.Histogram == nil {
		return 1
	}
	return len(m.Histogram.GetBucket()) + 3
}

// A Prometheus server pays for each series. TestTheNumberOfSeriesIsBounded has the bounds for all that
// may happen to a node; here is one of a cluster over TCP with one type, in use.
func TestANodeWithOneTypeHasFewSeries(t *testing.T) {
	a := startNode(t, "a", 64)
	b := startNode(t, "b", 64, a.node.Self().Addr)
	c := startNode(t, "c", 64, a.node.Self().Addr)
	for _, e := range []*exported{a, b, c} {
		e.use(t, 300)
	}
	for _, e := range []*exported{a, b, c} {
		native, classic, byFamily := e.size(t)
		t.Logf("%s: %d series, %d with classic buckets", e.node.Self().Name, native, classic)
		if native > 200 || classic > 600 {
			t.Errorf("%s has %d series, want at most 200; %d with classic buckets, want at most 600: %v",
				e.node.Self().Name, native, classic, byFamily)
		}
	}
}

// BenchmarkScrape is one scrape of a node that hosts 1,000 shards with 10,000 entities.
func BenchmarkScrape(b *testing.B) {
	e := startNode(b, "a", 1000)
	e.use(b, 10_000)
	for b.Loop() {
		if _, err := e.registry.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}
