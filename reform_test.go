package peerage_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/peerage-go/peerage"
)

// listed starts a node with a literal list of contact points.
func (c *cluster) listed(addr string, list []string) *member {
	cfg := peerage.TestConfig()
	cfg.Network, cfg.Listen, cfg.Join = c.net, addr, list
	n, err := peerage.Start(context.Background(), cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	m := &member{Node: n, addr: addr}
	c.nodes = append(c.nodes, m)
	return m
}

// Three nodes whose list names the three of them are joined by four more, which then lose
// power for good. The three are no quorum of seven; when the deaths are proven it is too
// late for a takeover. They must form again: their own list counts, and not the former
// members, which will never answer.
func TestAListOfThreeFormsAgainWithoutItsFourGuests(t *testing.T) {
	inBubble(t, 0, func(c *cluster) {
		t := c.t
		var all []string
		for i := range 7 {
			all = append(all, fmt.Sprintf("10.0.0.%d:7101", i+1))
		}
		list := all[:3]
		for _, addr := range list {
			c.listed(addr, list)
		}
		c.ready(c.nodes...)
		for _, addr := range all[3:] {
			c.listed(addr, list)
		}
		c.ready(c.nodes...)
		three, four := c.nodes[:3], c.nodes[3:]
		met := three[0].View().Epoch.Generation()

		c.net.Split(peerage.CutDropped, all[:3], all[3:])
		for _, m := range four {
			c.net.Crash(m.addr) // unseen behind the cut
		}
		pass(10 * time.Second)
		for _, m := range three {
			if m.LeaseValid() || len(m.View().Members) != 7 {
				t.Errorf("%s goes on in a minority: %v", m.addr, m.View())
			}
		}
		c.net.Heal() // the hosts are back, the processes are not
		c.until(2*time.Minute, "the three form again", func() bool {
			for _, m := range three {
				if v := m.View(); v == nil || len(v.Members) != 3 || !m.Ready() {
					return false
				}
			}
			return true
		})
		c.ready(three...)
		if now := three[0].View().Epoch.Generation(); now <= met {
			t.Errorf("generation %d after %d", now, met)
		}
	})
}
