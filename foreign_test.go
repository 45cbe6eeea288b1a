package peerage_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/sharding"
)

// cart is an entity that records its token, and its stop.
type cart struct {
	shop  *shop
	asked int
}

// shop holds what the carts of one node have done.
type shop struct {
	mu      sync.Mutex
	stopped int
}

func (c *cart) Handle(ctx *sharding.Context, _ string) (place, error) {
	c.asked++
	return place{uint64(ctx.Token().Term), ctx.Token().Seq, c.asked}, nil
}

func (c *cart) Snapshot(*sharding.Context) ([]byte, error) { return []byte{byte(c.asked)}, nil }

func (c *cart) Restore(_ *sharding.Context, state []byte) error {
	c.asked = int(state[0])
	return nil
}

// place is a token as it travels, and how often the cart was asked.
type place struct {
	Term, Seq uint64
	Asked     int
}

func (p place) token() sharding.Token { return sharding.Token{Term: gossip.Epoch(p.Term), Seq: p.Seq} }

func (c *cart) OnStop(*sharding.Context) {
	c.shop.mu.Lock()
	defer c.shop.mu.Unlock()
	c.shop.stopped++
}

func (s *shop) stops() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// store is a node with carts, and its events.
type store struct {
	*member
	carts    *sharding.Region[string, place]
	shop     shop
	metrics  *prometheus.Registry
	log      logBook
	mu       sync.Mutex
	verdicts []gossip.Verdict
}

func (s *store) told() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(s.verdicts)
}

// open starts a store: without contact points it forms a cluster of its own.
func (c *cluster) open(i int, contacts ...string) *store {
	s := &store{metrics: prometheus.NewRegistry()}
	cfg := peerage.TestConfig()
	cfg.Network, cfg.Registerer, cfg.Logger = c.net, s.metrics, slog.New(slog.NewTextHandler(&s.log, nil))
	cfg.Name, cfg.Listen = fmt.Sprint("n", i), fmt.Sprintf("10.0.0.%d:7101", i+1)
	cfg.Bootstrap, cfg.Join = len(contacts) == 0, contacts
	if len(contacts) == 1 {
		cfg.BootstrapExpect = 1
	}
	n, err := peerage.New(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	s.member = &member{Node: n, addr: cfg.Listen}
	s.carts, err = sharding.Register(n.Registry(), sharding.Type[string, place]{
		Name: "cart", Shards: 8, New: func(string) sharding.Entity[string, place] { return &cart{shop: &s.shop} },
	})
	if err != nil {
		c.t.Fatal(err)
	}
	n.Subscribe(func(ev gossip.Event) {
		if f, is := ev.(gossip.ForeignCluster); is {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.verdicts = append(s.verdicts, f.Verdict)
		}
	})
	if err := n.Start(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	c.nodes = append(c.nodes, s.member)
	return s
}

// tokens asks a number of carts for their tokens, the asked-th time each.
func (s *store) tokens(t *testing.T, n, asked int) map[string]sharding.Token {
	t.Helper()
	out := map[string]sharding.Token{}
	for i := range n {
		id := fmt.Sprint("cart", i)
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		tok, err := s.carts.Ask(ctx, id, "look", sharding.Retry())
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		if tok.Asked != asked {
			t.Errorf("%s was asked %d times, want %d", id, tok.Asked, asked)
		}
		out[id] = tok.token()
	}
	return out
}

// TestRestartOfTheFirstNodeEndsInOneCluster plays the recipe of the README: a forms a
// cluster, b joins it, a is killed and started again with the same command.
func TestRestartOfTheFirstNodeEndsInOneCluster(t *testing.T) {
	inBubble(t, 0, func(c *cluster) {
		a := c.open(0)
		c.ready(a.member)
		b := c.open(1, a.addr)
		c.ready(a.member, b.member)
		c.net.Crash(a.addr)
		defer a.Close() // the crash has silenced it
		c.until(10*time.Second, "b goes on alone", func() bool { return len(b.View().Members) == 1 && b.Ready() })
		kept := b.tokens(t, 20, 1)
		pass(5 * time.Second)
		c.nodes = c.nodes[1:]
		a = c.open(0)
		c.until(5*time.Second, "a has formed a cluster of its own", func() bool { return a.LeaseValid() })
		c.until(10*time.Second, "a is not ready for the contest", func() bool { return !a.Ready() && a.View() != nil && len(a.View().Foreign) > 0 })
		if st := a.Status(); st.Ready || len(st.View.Foreign) != 1 {
			t.Errorf("a says %+v", st.View)
		}
		c.until(15*time.Second, "one cluster", func() bool {
			return a.Ready() && b.Ready() && len(a.View().Members) == 2 && a.View().Epoch == b.View().Epoch
		})
		if a.told() != "[contested yields]" || !strings.HasPrefix(b.told(), "[contested stands ") {
			t.Errorf("a was told %v, b %v", a.told(), b.told())
		}
		for id, tok := range b.tokens(t, 20, 2) {
			if !kept[id].Less(tok) {
				t.Errorf("%s had token %v, and has %v", id, kept[id], tok)
			}
		}
		for _, s := range []*store{a, b} {
			if !s.log.has("level=ERROR", "another cluster of the same name") {
				t.Error("no ERROR line of a store")
			}
		}
		if !a.log.has("level=ERROR", "their states are not merged") {
			t.Error("a has not said that its states are lost")
		}
		pass(time.Minute)
		if n := value(t, b.metrics, "peerage_cluster_foreign_clusters"); n != 0 {
			t.Errorf("%v foreign clusters remain", n)
		}
	})
}

// TestEntitiesOfTheLosingClusterStopInOrder: two clusters with carts of the same ids.
func TestEntitiesOfTheLosingClusterStopInOrder(t *testing.T) {
	inBubble(t, 0, func(c *cluster) {
		a := c.open(0)
		c.ready(a.member)
		d := c.open(3) // another cluster, later: its generation is higher
		c.until(5*time.Second, "d runs", func() bool { return d.Ready() })
		pass(3 * time.Second)
		e := c.open(4, d.addr)
		c.until(10*time.Second, "e has joined d", func() bool { return e.Ready() && len(e.View().Members) == 2 })
		f := c.open(5, d.addr)
		c.until(10*time.Second, "f has joined d", func() bool { return f.Ready() && len(f.View().Members) == 3 })
		const n = 24
		cluster := d.View().Cluster
		lost, kept := a.tokens(t, n, 1), d.tokens(t, n, 1)
		c.open(6, a.addr, d.addr) // knows both
		c.until(60*time.Second, "one cluster of five", func() bool {
			for _, m := range c.nodes {
				if v := m.View(); !m.Ready() || len(v.Members) != 5 || len(v.Foreign) > 0 {
					return false
				}
			}
			return true
		})
		stops, counted := a.shop.stops(), value(t, a.metrics, "peerage_cluster_entities_lost_total")
		if stops != n || counted != n || a.View().Cluster != cluster {
			t.Errorf("%d of %d carts of the losing cluster have stopped in order, %v are counted", stops, n, counted)
		}
		for id, tok := range a.tokens(t, n, 2) {
			if !kept[id].Less(tok) || !lost[id].Less(tok) {
				t.Errorf("%s: token %v now, %v in the cluster that yielded, %v in the one that stands", id, tok, lost[id], kept[id])
			}
		}
	})
}

// value returns the value of a metric without labels.
func value(t *testing.T, r *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
