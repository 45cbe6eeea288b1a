package sharding

import (
	"fmt"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// A node that has not heard that a shard has moved sends to its former home, is
// refused, and asks where the shard is now: also when that was its only message,
// which comes back when the route is closed already.
func TestALoneRefusedMessageFindsItsHome(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, nodes, regions := three(t, newJournal(), nil)
		boss, caller, home := nodes[0], nodes[1], nodes[2]
		id := ""
		for i := 0; id == ""; i++ {
			h, err := regions[1].Ask(within(t, 5*time.Second), fmt.Sprint("id", i), say{"x", 1})
			if err != nil {
				t.Fatal(err)
			}
			if h.Node == home.self.ID {
				id = fmt.Sprint("id", i)
			}
		}
		// The route is closed long before the message is back.
		pass(time.Second)
		c.delay = time.Millisecond
		cut := func(on bool) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.cuts[[2]gossip.NodeID{boss.self.ID, caller.self.ID}] = on
		}
		// What the home drops is placed again, and the caller does not hear of it.
		cut(true)
		home.s.Abandoned()
		pass(100 * time.Millisecond)
		cut(false)
		start := time.Now()
		h, err := regions[1].Ask(within(t, 5*time.Second), id, say{"y", 2})
		if took := time.Since(start); err != nil || h.Count != 1 || took > time.Second {
			t.Errorf("%+v, %v after %v", h, err, took)
		}
	})
}
