package replica

import (
	"fmt"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/replicator"
)

// Scratch keys, in some runs: counters and sets that are created, changed and deleted again, at
// any level. No checker reads them, but replicas must become equal (L2), and what is deleted or
// was written by dead nodes is garbage that they must agree on.

const (
	keyScratch = "scratch/"
	// scratchKeys is the number of scratch keys of each type, scratchElements that of elements.
	scratchKeys, scratchElements = 3, 4
)

// scratchClient changes scratch keys by one replicator.
type scratchClient struct {
	d    *Driver
	rand *virtual.Rand
}

// useScratch changes scratch keys until the run's faults end.
func (c *scratchClient) useScratch() {
	r := c.d.p.Run
	if !r.Config.Scratch {
		return
	}
	r.After(c.rand.Duration(20*time.Millisecond, 400*time.Millisecond), func() {
		if !c.d.shared.on || r.Calm {
			return
		}
		c.d.p.Thread.Run(func() {
			if c.d.shared.on && c.d.shared.view != nil {
				c.changeKeys()
			}
		})
		c.useScratch()
	})
}

// changeKeys makes a request with one or two changes, and reads as local readers do.
func (c *scratchClient) changeKeys() {
	ops := []operation.Op{c.drawOp()}
	if second := c.drawOp(); second.Key != ops[0].Key && c.rand.Chance(30) {
		ops = append(ops, second)
	}
	level := []replicator.Level{replicator.Local, replicator.Majority(0, 0), replicator.All}[c.rand.IntN(3)]
	key := ops[0].Key
	c.d.Update(replication.Update{Ops: ops, Level: level, Deadline: c.d.Deadline()}, func(a replication.Reply) {
		c.d.p.Event("scratch changed", uint64(len(ops)), func() string { return fmt.Sprintf("%s: %v", key, a.Err) })
	})
	if names := c.d.core.Keys(keyScratch); len(names) > 0 && c.rand.Chance(30) {
		s := c.d.core.Snapshot(names[c.rand.IntN(len(names))])
		c.d.p.Thread.After(c.rand.Duration(0, 50*time.Millisecond), s.Release)
	}
}

// drawOp draws a change of one key.
func (c *scratchClient) drawOp() operation.Op {
	n, node := c.rand.IntN(scratchKeys), crdt.NodeID(c.d.p.Node.ID)
	counter, set := fmt.Sprintf("%scounter/%d", keyScratch, n), fmt.Sprintf("%sset/%d", keyScratch, n)
	element := fmt.Sprint(c.rand.IntN(scratchElements))
	switch draw := c.rand.IntN(10); {
	case draw < 4:
		return replication.Mutate(counter, crdt.KindPNCounter, 32, func(v crdt.Value) crdt.Value {
			return v.(*crdt.PNCounter).Add(node, 1)
		})
	case draw < 7:
		return replication.Mutate(set, crdt.KindORSet, 32, func(v crdt.Value) crdt.Value {
			return v.(*crdt.ORSet[string]).Add(node, element)
		})
	case draw < 9:
		return replication.Mutate(set, crdt.KindORSet, 0, func(v crdt.Value) crdt.Value {
			if delta := v.(*crdt.ORSet[string]).Remove(element); delta != nil {
				return delta
			}
			return nil
		})
	}
	return operation.Op{Key: []string{counter, set}[c.rand.IntN(2)], Delete: true}
}
