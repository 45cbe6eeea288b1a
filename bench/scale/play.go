package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/peerage-go/peerage/internal/sim/run"
)

// Row is what one scene took of one size of cluster.
type Row struct {
	Nodes int    `json:"nodes"`
	Scene string `json:"scene"`
	// Shards is the number of shards of each of the Types entity types.
	Shards int `json:"shards,omitempty"`
	Types  int `json:"types,omitempty"`
	// Took is the virtual time until all living processes agreed on a view, in seconds, and with
	// entity types all that were asked for run, each at one node.
	Took float64 `json:"took"`
	// Sum, Most and Leader are the bytes that all nodes sent meanwhile, the node that sent most, and
	// the leader at the end; with entity types the coordinator.
	Sum    uint64 `json:"sum"`
	Most   uint64 `json:"most"`
	Leader uint64 `json:"leader"`
	// Missing is why there are no figures.
	Missing string `json:"missing,omitempty"`
	// Wall is the time that the scene took to play, in seconds.
	Wall float64 `json:"wall"`
	// Coordinators and Regions are the parts of Wall in the steps of these cores.
	Coordinators float64 `json:"coordinators,omitempty"`
	Regions      float64 `json:"regions,omitempty"`
}

// scene is something that happens to a cluster.
type scene struct {
	name string
	// play does it to the cluster. The returned hosts must agree in the end.
	play func(*cluster) []int
}

// scenes are played on clusters without entity types, typeScenes on those with some, in this order.
var (
	scenes = []scene{
		{"forming", (*cluster).formAll},
		{"a second at rest", nil},
		{"join of a tenth", (*cluster).joinTenth},
		{"a tenth killed", (*cluster).killTenth},
		{"leader killed", (*cluster).killLeader},
		{"a third cut off", (*cluster).cutThird},
		{"the cut healed", (*cluster).healCut},
		{"rolling restart", (*cluster).restartInTurn},
	}
	typeScenes = []scene{
		{"forming", (*cluster).formAll},
		{"all shards asked", (*cluster).askForAll},
		{"a second at rest", nil},
		{"a node joins", (*cluster).joinOne},
		{"coordinator dies", (*cluster).killCoordinator},
		{"a tenth killed", (*cluster).killTenth},
		{"rolling restart", (*cluster).restartInTurn},
	}
)

// scenesOf returns the scenes to play with so many entity types.
func scenesOf(types int) []scene {
	if types > 0 {
		return typeScenes
	}
	return scenes
}

// virtualMost is how long a scene may take in virtual time.
const virtualMost = 10 * time.Minute

var errBudget = errors.New("the budget of time ended")

// playSize plays all scenes on one cluster. It calls each with the rows.
func playSize(o options, until time.Time, each func(Row)) error {
	c := newCluster(o, until)
	for _, s := range scenesOf(o.types) {
		row, err := c.playScene(s)
		each(row)
		if err != nil {
			return err
		}
	}
	return nil
}

// playScene plays one scene. A check of the simulator that fails ends it with an error.
func (c *cluster) playScene(s scene) (row Row, err error) {
	began, from := time.Now(), c.run.Now()
	row = Row{Nodes: c.nodes, Scene: s.name, Shards: c.shards, Types: len(c.stores)}
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
	c.costs = stepCosts{}
	if s.play == nil {
		err = c.playUntil(time.Second, nil)
	} else {
		want := s.play(c)
		err = c.playUntil(virtualMost, func() bool { return !c.busy && c.agree(want) && c.served() })
	}
	row.Coordinators, row.Regions = c.costs.coordinators.Seconds(), c.costs.regions.Seconds()
	row.Took = c.run.Now().Sub(from).Seconds()
	c.fillSent(&row)
	return row, err
}

// playUntil plays until a condition holds, or for the whole time without one.
func (c *cluster) playUntil(most time.Duration, ok func() bool) error {
	step := 10 * time.Millisecond
	if len(c.stores) > 0 {
		step = time.Millisecond
	}
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
	if len(c.stores) > 0 {
		leader = c.coordinator()
	}
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
