package peerage_test

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// A48: the leader and coordinator, a coordinator that does not lead, and a plain member
// stand still for half of L, one and a half, and ten times L (a second; members are removed
// after two). A shorter pause removes no node and loses no state. A longer one removes the
// node: its entities start anew elsewhere, once, the others continue where they are, and
// the node holds no lease until it is in again.
func TestA48Pauses(t *testing.T) {
	const lease = time.Second
	for _, d := range []time.Duration{lease / 2, 3 * lease / 2, 10 * lease} {
		for _, who := range []string{"leader", "coordinator", "member"} {
			t.Run(fmt.Sprint(who, " for ", d), func(t *testing.T) {
				inBubble(t, 5, func(c *cluster) { standStill(c, who, d, d > 2*lease) })
			})
		}
	}
}

func standStill(c *cluster, who string, d time.Duration, removed bool) {
	victim, other := c.nodes[0], c.nodes[2]
	pass(3 * time.Second)
	switch who {
	case "coordinator": // the lead has gone elsewhere, the office has not
		c.net.Pause(victim.addr)
		c.until(3*time.Second, "another leads", func() bool {
			return slices.ContainsFunc(c.nodes[1:], func(m *member) bool { return m.Lease().Leader })
		})
		c.net.Resume(victim.addr)
		c.ready(c.nodes...)
		pass(3 * time.Second)
	case "member":
		victim = c.nodes[3]
	}
	leads, office := victim.Lease().Leader, other.Status().Types[0].Coordinator
	if leads != (who == "leader") || (office == victim.Self().ID) != (who != "member") {
		c.t.Fatalf("not the situation: leads %v, the coordinator is %s", leads, office)
	}
	before, id := c.askAll(other), victim.Self().ID
	theirs := 0
	for i := range ids {
		if before[i].Node == id {
			theirs++
		}
	}
	if theirs == 0 {
		c.t.Fatal("nothing lives there")
	}
	c.net.Pause(victim.addr)
	paused := time.Now()
	if removed {
		c.until(4*time.Second, "it is removed", func() bool { return other.View().Member(id) == nil })
		begin := time.Now()
		middle := c.askAll(other)
		if took := time.Since(begin); took > 500*time.Millisecond {
			c.t.Errorf("all counters answered %v after the view without it", took)
		}
		before = c.goesOn(before, middle, id, true)
		for time.Since(paused) < d {
			if pass(10 * time.Millisecond); victim.LeaseValid() {
				c.t.Fatal("a lease outside the view")
			}
		}
	}
	pass(d - time.Since(paused))
	c.net.Resume(victim.addr)
	if holds := victim.LeaseValid(); holds && d > time.Second {
		c.t.Error("it holds a lease as it goes on")
	}
	c.ready(c.nodes...)
	if is := victim.Self().ID; (is != id) != removed {
		c.t.Errorf("it was %v and is %v, removed: %v", id, is, removed)
	}
	c.goesOn(before, c.askAll(other), id, false)
}

// goesOn checks that every counter continues where it was; those of gone start anew
// elsewhere if it was removed.
func (c *cluster) goesOn(before, after [ids]tally, gone any, removed bool) [ids]tally {
	c.t.Helper()
	for i := range ids {
		if removed && before[i].Node == gone {
			if after[i].Sum != 1 || after[i].Node == gone {
				c.t.Errorf("id%d lived on the removed node and answers %+v", i, after[i])
			}
		} else if after[i].Sum != before[i].Sum+1 || after[i].Node != before[i].Node {
			c.t.Errorf("id%d answers %+v after %+v", i, after[i], before[i])
		}
	}
	return after
}
