package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/peerage-go/peerage/internal/sim/network"
	"github.com/peerage-go/peerage/internal/sim/run"
)

// Row is what one scene took of one size of cluster.
type Row struct {
	Nodes int    `json:"nodes"`
	Scene string `json:"scene"`
	// Took is the virtual time until all living processes agreed on a view, in seconds.
	Took float64 `json:"took"`
	// Sum, Most and Leader are the bytes that all nodes sent meanwhile, the node that sent most, and
	// the leader at the end.
	Sum    uint64 `json:"sum"`
	Most   uint64 `json:"most"`
	Leader uint64 `json:"leader"`
	// Missing is why there are no figures.
	Missing string `json:"missing,omitempty"`
	// Wall is the time that the scene took to play, in seconds.
	Wall float64 `json:"wall"`
}

// scenes are what happens to a cluster, in this order.
var scenes = []struct {
	name string
	// play does it to the cluster. The returned hosts must agree in the end.
	play func(*cluster) []int
}{
	{"forming", (*cluster).formAll},
	{"a second at rest", nil},
	{"join of a tenth", (*cluster).joinTenth},
	{"a tenth killed", (*cluster).killTenth},
	{"leader killed", (*cluster).killLeader},
	{"a third cut off", (*cluster).cutThird},
	{"the cut healed", (*cluster).healCut},
}

// cluster is a world while scenes are played on it.
type cluster struct {
	*world
	nodes int
	// until is the moment of the wall clock at which the budget ends.
	until time.Time
}

// virtualMost is how long a scene may take in virtual time.
const virtualMost = 10 * time.Minute

var errBudget = errors.New("the budget of time ended")

// playSize plays all scenes on a cluster of so many nodes. It calls each with the rows.
func playSize(nodes int, drawn uint64, until time.Time, each func(Row)) error {
	hosts := nodes + (nodes+9)/10
	c := &cluster{world: newWorld(hosts, nodes, drawn), nodes: nodes, until: until}
	for i := range scenes {
		row, err := c.playScene(i)
		each(row)
		if err != nil {
			return err
		}
	}
	return nil
}

// playScene plays one scene. A check of the simulator that fails ends it with an error.
func (c *cluster) playScene(number int) (row Row, err error) {
	s, began, from := scenes[number], time.Now(), c.run.Now()
	row = Row{Nodes: c.nodes, Scene: s.name}
	defer func() {
		if p := recover(); p != nil {
			f, ours := p.(run.Failure)
			if !ours {
				panic(p)
			}
			err = errors.New(f.What)
		}
		if err != nil {
			row.Missing = err.Error()
		}
		row.Wall = time.Since(began).Seconds()
	}()
	c.markSent()
	if s.play == nil {
		err = c.playUntil(time.Second, nil)
	} else {
		want := s.play(c)
		err = c.playUntil(virtualMost, func() bool { return c.agree(want) })
	}
	row.Took = c.run.Now().Sub(from).Seconds()
	c.fillSent(&row)
	return row, err
}

// playUntil plays until a condition holds, or for the whole time without one.
func (c *cluster) playUntil(most time.Duration, ok func() bool) error {
	const step = 10 * time.Millisecond
	late := false
	holds := c.run.UntilTrue(most, step, func() bool {
		late = time.Now().After(c.until)
		return late || ok != nil && ok()
	})
	switch {
	case late:
		return errBudget
	case ok != nil && !holds:
		return fmt.Errorf("no agreement within %v", most)
	}
	return nil
}

// markSent notes what each process has sent so far.
func (c *cluster) markSent() {
	c.ended = 0
	for _, n := range c.slots {
		if n != nil {
			n.bytesBefore = n.bytesSent()
		}
	}
}

// fillSent fills in the bytes that were sent since markSent.
func (c *cluster) fillSent(row *Row) {
	row.Sum = c.ended
	leader := c.leader()
	for i, n := range c.slots {
		if n == nil {
			continue
		}
		bytes := n.bytesSent() - n.bytesBefore
		row.Sum += bytes
		row.Most = max(row.Most, bytes)
		if i == leader {
			row.Leader = bytes
		}
	}
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
		if left > 0 && i != leader && c.slots[i] != nil {
			c.endProcess(i)
			left--
		}
	}
	return c.living()
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
