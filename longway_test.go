package peerage_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage"
)

// TestLongRoundTrips checks that a cluster works whose messages travel for 300 to 400 ms, with
// leases that fit: no node loses its lease, each counter has one home, which the first
// messages find, and a crash is survived.
func TestLongRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t, net: peerage.NewNetwork(1)}
		c.net.SetUsual(peerage.NetworkPath{Latency: 300 * time.Millisecond, Jitter: 100 * time.Millisecond})
		defer pass(time.Minute)
		defer c.close()
		for i := range 3 {
			c.addWith(i, func(cfg *peerage.Config) {
				cfg.Ping, cfg.Lease, cfg.RemoveAfter = time.Second, 5*time.Second, 10*time.Second
			}, nil)
		}
		c.ready(c.nodes...)
		first := c.askAll(c.nodes[0])
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); pass(50 * time.Millisecond) {
			for _, m := range c.nodes {
				if !m.Lease().Valid {
					t.Fatalf("%s has no lease", m.addr)
				}
			}
		}
		second := c.askAll(c.nodes[1])
		for i := range ids {
			if second[i].Node != first[i].Node || second[i].Sum != first[i].Sum+1 {
				t.Errorf("id%d: %+v, then %+v", i, first[i], second[i])
			}
		}
		c.net.Crash(c.nodes[0].addr)
		c.nodes[0].Close()
		c.nodes = c.nodes[1:]
		c.ready(c.nodes...)
		c.askAll(c.nodes[1])
	})
}
