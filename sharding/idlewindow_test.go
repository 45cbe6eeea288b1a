package sharding

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/delivery"
)

// Windows that bursts have made grow use up the node's budget. Once they are idle they give
// it back, even if the home's first requests for it are lost: a later sender's window grows.
func TestIdleWindowsGiveTheirGrowthBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const shards, messages, budget = 40, 1000, 1 << 20
		h := newSlowHomeOf(t, 0, messages, shards)
		h.home.s.endpoints.Budgets.SetLimits(budget, delivery.ParkedBytesMost, 1<<20)
		ids := make([]string, shards)
		for i, left := 0, shards; left > 0; i++ {
			id := fmt.Sprint("burst-", i)
			if shard := h.region.ShardOf(id); ids[shard] == "" {
				ids[shard] = id
				left--
				if err := h.region.Start(within(t, time.Minute), id); err != nil {
					t.Fatal(err)
				}
			}
		}
		burst := func(id string) {
			for n := range messages {
				if err := h.region.Tell(within(t, time.Minute), id, n); err != nil {
					t.Errorf("%s: %v", id, err)
					return
				}
			}
		}
		for _, id := range ids[1:] {
			go burst(id)
		}
		synctest.Wait()
		if used := h.home.s.Frames().WindowBytes; used+flow.FirstBytes <= budget {
			t.Fatalf("the bursts took %d bytes of the budget", used)
		}
		c, back := h.home.c, [2]gossip.NodeID{h.home.self.ID, h.away.self.ID}
		cut := func(is bool) {
			c.mu.Lock()
			c.cuts[back] = is
			c.mu.Unlock()
		}
		cut(true)
		pass(time.Minute)
		cut(false)
		pass(time.Minute)
		if used := h.home.s.Frames().WindowBytes; used != 0 {
			t.Errorf("idle windows keep %d bytes of the budget", used)
		}
		before := h.home.s.Frames().WindowBytes
		burst(ids[0])
		if h.home.s.Frames().WindowBytes == before {
			t.Error("the window of a later sender does not grow")
		}
		for _, id := range ids {
			burst(id) // those that were idle go on
		}
		synctest.Wait()
		if n := h.handled.Load(); n != 2*shards*messages {
			t.Errorf("%d of %d messages were handled", n, 2*shards*messages)
		}
	})
}
