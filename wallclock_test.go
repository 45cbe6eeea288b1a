package peerage_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/ddata"
)

// Calendar times come from the configured wall clock, and no lease follows it: the node
// continues while the clock jumps by years.
func TestWallClockDatesGenerationsAndStamps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer pass(time.Minute)
		c := &cluster{t: t, net: peerage.NewNetwork(1)}
		var at atomic.Int64
		at.Store(2_000_000_000)
		wall := func() time.Time { return time.Unix(at.Load(), 0) }
		cfg := peerage.TestConfig()
		cfg.Listen, cfg.Bootstrap = "10.0.0.1:7101", true
		cfg.Network, cfg.WallClock = c.net, wall
		node, err := peerage.Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		c.nodes = []*member{{Node: node, addr: cfg.Listen}}
		defer c.close()
		c.ready(c.nodes...)
		if got := node.View().Epoch.Generation(); got != 2_000_000_000 {
			t.Errorf("formed generation %d at second %d", got, at.Load())
		}
		key := ddata.LWWMapKey[string, int]("m")
		stamp := func() time.Time {
			t.Helper()
			if err := ddata.Update(t.Context(), node.Data(""), key, ddata.Majority, func(m *ddata.LWWMapTx[string, int]) error {
				m.Set("x", 1)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			m, err := ddata.Get(t.Context(), node.Data(""), key, ddata.Majority)
			if err != nil {
				t.Fatal(err)
			}
			s, _ := m.Stamp("x")
			return time.UnixMilli(int64(s.Time >> 16))
		}
		if got := stamp(); got.Unix() != at.Load() {
			t.Errorf("a write at %v is dated %v", wall(), got)
		}
		at.Add(5 * 365 * 24 * 3600)
		if got := stamp(); got.Unix() != at.Load() {
			t.Errorf("after a jump, a write at %v is dated %v", wall(), got)
		}
		if !node.LeaseValid() {
			t.Error("the jump took the lease")
		}
	})
}
