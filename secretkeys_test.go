package peerage_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/peerage-go/peerage"
)

// keyed starts a node whose gossip is encrypted with keys.
func (c *cluster) keyed(i int, keys ...int) *store {
	c.t.Helper()
	s := &store{metrics: prometheus.NewRegistry()}
	cfg := peerage.TestConfig()
	cfg.Network, cfg.Registerer, cfg.Logger = c.net, s.metrics, slog.New(slog.NewTextHandler(&s.log, nil))
	cfg.Name, cfg.Listen = fmt.Sprint("n", i), fmt.Sprintf("10.0.0.%d:7101", i+1)
	cfg.Bootstrap, cfg.Join = i == 0, []string{"10.0.0.1:7101", "10.0.0.2:7101"}
	cfg.SecretKeys = secretKeys(keys...)
	n, err := peerage.Start(context.Background(), cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	s.member = &member{Node: n, addr: cfg.Listen}
	c.nodes = append(c.nodes, s.member)
	return s
}

func secretKeys(ids ...int) (keys [][]byte) {
	for _, i := range ids {
		key := make([]byte, 32)
		key[0] = byte(i)
		keys = append(keys, key)
	}
	return keys
}

// members returns how many members the view of each node has.
func members(ss ...*store) (out []int) {
	for _, s := range ss {
		n := 0
		if v := s.View(); v != nil {
			n = len(v.Members)
		}
		out = append(out, n)
	}
	return out
}

// TestDifferingSecretKeysAreNotReady: discovery does not work between nodes that share no
// SecretKey, so neither of two is ready, and both name the setting. A rotation makes them
// ready.
func TestDifferingSecretKeysAreNotReady(t *testing.T) {
	inBubble(t, 0, func(c *cluster) {
		a, b := c.keyed(0, 1), c.keyed(1, 2)
		c.until(20*time.Second, "two members", func() bool { return fmt.Sprint(members(a, b)) == "[2 2]" })
		pass(10 * time.Second)
		for _, s := range []*store{a, b} {
			if s.Ready() {
				t.Errorf("%s is ready, and shares no SecretKey with the other node", s.addr)
			}
			if code, body := page(s.Node, "/readyz"); code != 503 || !strings.Contains(body, "SecretKeys") {
				t.Errorf("%s: /readyz: %d %s", s.addr, code, body)
			}
			if !s.log.has("level=WARN", "SecretKeys") {
				t.Errorf("%s: no warning names SecretKeys", s.addr)
			}
		}
		for _, s := range []*store{a, b} {
			if err := s.RotateKeys(secretKeys(1, 2)); err != nil {
				t.Fatal(err)
			}
		}
		c.until(20*time.Second, "both are ready", func() bool { return a.Ready() && b.Ready() })
	})
}

// TestOneWrongSecretKeyStopsNoMajority: of three nodes the one with another key is not
// ready; the two that share a key are.
func TestOneWrongSecretKeyStopsNoMajority(t *testing.T) {
	inBubble(t, 0, func(c *cluster) {
		a, b, odd := c.keyed(0, 1), c.keyed(1, 2, 1), c.keyed(2, 3)
		c.until(20*time.Second, "three members", func() bool { return fmt.Sprint(members(a, b, odd)) == "[3 3 3]" })
		pass(10 * time.Second)
		if !a.Ready() || !b.Ready() || odd.Ready() {
			t.Errorf("ready: %v, %v, the odd one %v", a.Ready(), b.Ready(), odd.Ready())
		}
	})
}
