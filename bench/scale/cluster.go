package main

import (
	"time"

	"github.com/peerage-go/peerage/internal/sim/network"
)

// cluster is a world while scenes are played on it.
type cluster struct {
	*world
	nodes    int
	restarts int
	// joined is the host that must get its part of the shards, -1 if there is none.
	joined int
	// busy is set while a scene still does something to the cluster.
	busy bool
	// until is the moment of the wall clock at which the budget ends.
	until time.Time
}

func newCluster(o options, until time.Time) *cluster {
	hosts := o.nodes + (o.nodes+9)/10
	return &cluster{world: newWorld(hosts, o), nodes: o.nodes, restarts: o.restarts, joined: -1, until: until}
}

// formAll starts all nodes within 300 ms.
func (c *cluster) formAll() []int {
	for i := range c.nodes {
		c.run.After(c.run.Rand.Setup.Duration(0, 300*time.Millisecond), func() { c.startProcess(i, i == 0) })
	}
	return hostsBelow(c.nodes)
}

// joinTenth starts a tenth more nodes at one moment.
func (c *cluster) joinTenth() []int {
	for i := c.nodes; i < len(c.slots); i++ {
		c.startProcess(i, false)
	}
	return hostsBelow(len(c.slots))
}

// killTenth ends a tenth of the processes at one moment, but not the leader.
func (c *cluster) killTenth() []int {
	leader, left := c.leader(), (c.nodes+9)/10
	for _, i := range c.run.Rand.Fault.Perm(len(c.slots)) {
		if left > 0 && i != leader && !c.mustLive(i) && c.slots[i] != nil {
			c.endProcess(i)
			left--
		}
	}
	return c.living()
}

// mustLive reports whether the process of a host must live on: that of the asker, if there are types.
func (c *cluster) mustLive(host int) bool {
	return len(c.stores) > 0 && (host == c.asker || host == c.joined)
}

func (c *cluster) killLeader() []int {
	if i := c.leader(); i >= 0 {
		c.endProcess(i)
	}
	return c.living()
}

// cutThird cuts a third of the nodes off, of which none leads: packets are lost both ways. The
// others must agree.
func (c *cluster) cutThird() []int {
	leader, side, rest := c.leader(), map[int]bool{}, []int(nil)
	for _, i := range c.living() {
		if i != leader && len(side) < c.nodes/3 {
			side[i] = true
		} else {
			rest = append(rest, i)
		}
	}
	c.net.CutOff(side, network.Drop, false)
	return rest
}

// healCut opens all paths again. All must agree, those that were cut off as new incarnations.
func (c *cluster) healCut() []int {
	c.net.OpenAll()
	return c.living()
}

func hostsBelow(n int) (slots []int) {
	for i := range n {
		slots = append(slots, i)
	}
	return slots
}
