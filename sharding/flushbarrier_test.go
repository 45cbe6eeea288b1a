package sharding

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/delivery/endpoint"
)

// takesItsTime answers after a second, with its node.
type takesItsTime gossip.NodeID

func (e takesItsTime) Handle(*Context, int) (gossip.NodeID, error) {
	pass(time.Second)
	return gossip.NodeID(e), nil
}

// A node's last answer is still under way when everything else is done, and the view
// without it is faster. It leaves when the answer has come: no ask fails (seeds 1009245
// and 1009281 of the simulator's TestOrderly with several leaves at once).
func TestLastAnswersComeBeforeTheNodeLeaves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		t.Cleanup(func() { pass(time.Second) })
		c := newCluster(t)
		var regions []*Region[int, gossip.NodeID]
		for i := range 3 {
			n := c.add(fmt.Sprint("n", i+1))
			r, err := Register(n.reg, Type[int, gossip.NodeID]{
				Name: "slow", Shards: 8,
				New: func(string) Entity[int, gossip.NodeID] { return takesItsTime(n.self.ID) },
			})
			if err != nil {
				t.Fatal(err)
			}
			regions = append(regions, r)
			n.start()
		}
		c.install(c.nodes...)
		leaver, id := c.nodes[2], ""
		for i := 0; id == ""; i++ {
			home, err := regions[0].Ask(within(t, 20*time.Second), fmt.Sprint("e", i), 1)
			if err != nil {
				t.Fatal(err)
			}
			if home == leaver.self.ID {
				id = fmt.Sprint("e", i)
			}
		}
		c.mu.Lock()
		c.slow = 50 * time.Millisecond
		c.mu.Unlock()
		asked := make(chan error, 1)
		go func() {
			home, err := regions[0].Ask(within(t, 20*time.Second), id, 1)
			if err == nil && home != leaver.self.ID {
				err = fmt.Errorf("answered by %v", home)
			}
			asked <- err
		}()
		pass(200 * time.Millisecond)
		if err := leaver.s.Drain(within(t, 20*time.Second)); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		leaver.s.WaitAnswered(context.Background())
		if took := time.Since(start); took >= endpoint.FlushTimeout {
			t.Errorf("waited %v for answers to its markers", took)
		}
		c.install(c.nodes[:2]...)
		if err := <-asked; err != nil {
			t.Error(err)
		}
	})
}

// A silent node delays a leaving one by endpoint.FlushTimeout at most; a removed node does not.
func TestSilentNodesDelayALeavingNodeBriefly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		t.Cleanup(func() { pass(time.Second) })
		c, nodes, _ := three(t, newJournal(), nil)
		pass(time.Second)
		wait := func() time.Duration {
			start := time.Now()
			nodes[2].s.WaitAnswered(context.Background())
			return time.Since(start)
		}
		c.mu.Lock()
		c.cuts[[2]gossip.NodeID{1, 3}], c.cuts[[2]gossip.NodeID{3, 1}] = true, true
		c.mu.Unlock()
		if took := wait(); took != endpoint.FlushTimeout {
			t.Errorf("waited %v for a node that is silent", took)
		}
		c.mu.Lock()
		c.closed[[2]gossip.NodeID{3, 1}] = true
		c.mu.Unlock()
		if took := wait(); took != 0 {
			t.Errorf("waited %v for a node without frames in flight", took)
		}
		c.mu.Lock()
		c.closed[[2]gossip.NodeID{3, 1}] = false
		c.mu.Unlock()
		time.AfterFunc(100*time.Millisecond, func() { c.install(nodes[1], nodes[2]) })
		if took := wait(); took != 100*time.Millisecond {
			t.Errorf("waited %v for a node that was removed after 100 ms", took)
		}
	})
}
