package replica

import (
	"fmt"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/replicator"
)

// Requests of all kinds, in some runs. Each client writes maps by stamps of the store and by its
// own, counters in maps, durable keys, and keys that end when they are idle; it decides plans
// outside of the step, as the shell does, reads at each level, and calls requests off. Replicas
// must become equal (L2). Of requests that must be refused (misuse.go), none may change anything.

const (
	keyMap   = keyScratch + "map/"
	keyTally = keyScratch + "tally/"
	keyDir   = keyScratch + "directory/"
	keyMulti = keyScratch + "multi/"
	// keyEither gets values of two kinds: one of them stays.
	keyEither  = keyScratch + "either/"
	keyIdle    = keyScratch + "idle/"
	keyIdleOff = keyIdle + "never/"
	// keyKept is the prefix of durable scratch keys, in runs with disks.
	keyKept = keyScratch + "kept/"
	keyMany = keyScratch + "many/"
)

// fenceGroup is the group of the fences of requests.
const fenceGroup = "requests"

// mapKeys is the number of keys of each of these types, manyKeys that of keys that come in bursts.
const mapKeys, manyKeys = 2, 60

// expiry has the rules by which idle keys end.
var expiry = []replicator.Expiry{{Prefix: keyIdle, After: 700 * time.Millisecond}, {Prefix: keyIdleOff}}

// requestClient makes requests of one replicator.
type requestClient struct {
	d    *Driver
	rand *virtual.Rand
}

// makeRequests makes requests until the run's faults end.
func (c *requestClient) makeRequests() {
	r := c.d.p.Run
	if !r.Config.Requests {
		return
	}
	r.After(c.rand.Duration(10*time.Millisecond, 200*time.Millisecond), func() {
		if !c.d.shared.on || r.Calm {
			return
		}
		c.d.p.Thread.Run(func() {
			if c.d.shared.on && c.d.shared.view != nil {
				c.makeOne()
			}
		})
		c.makeRequests()
	})
}

// makeOne makes one request.
func (c *requestClient) makeOne() {
	switch draw := c.rand.IntN(21); {
	case draw < 5:
		c.makeUpdate(c.drawMapOp())
	case draw < 8:
		c.makeUpdate(c.drawOp())
	case draw < 10:
		c.makeUpdate(c.drawOp(), []operation.Op{c.drawMapOp(), c.drawOp()}[c.rand.IntN(2)])
	case draw < 13:
		c.planOutside(c.drawOp())
	case draw < 16:
		c.readKeys()
	case draw < 17:
		c.burst()
	case draw < 18:
		c.callOff()
	case draw < 19:
		c.observe()
	default:
		c.makeMisuse()
	}
}

func (c *requestClient) drawLevel() replicator.Level {
	return []replicator.Level{replicator.Local, replicator.Majority(0, 0), replicator.All}[c.rand.IntN(3)]
}

// makeUpdate makes an update, in some cases under the term of a view, of this one or the one before.
func (c *requestClient) makeUpdate(ops ...operation.Op) {
	if len(ops) > 1 && c.d.isDurable(ops[0].Key) != c.d.isDurable(ops[1].Key) {
		ops = ops[:1]
	}
	u := replication.Update{Ops: ops, Level: c.drawLevel(), Deadline: c.d.Deadline()}
	if epoch := c.d.shared.view.Epoch; c.rand.Chance(20) {
		u.Fence = replicator.Fence{Group: fenceGroup, Term: uint64(epoch) - uint64(c.rand.IntN(2))}
	}
	if c.rand.Chance(20) {
		u.Deadline = 0
	}
	c.d.Update(u, func(a replication.Reply) {
		c.d.p.Event("request made", uint64(len(ops)), func() string { return fmt.Sprintf("%s: %v", ops[0].Key, a.Err) })
	})
}

// drawOp draws a change of a counter in a map, of an idle key or a durable one, or a deletion.
func (c *requestClient) drawOp() operation.Op {
	n, node := c.rand.IntN(mapKeys), crdt.NodeID(c.d.p.Node.ID)
	element := fmt.Sprint(c.rand.IntN(4 * scratchElements))
	tally := fmt.Sprintf("%s%d", keyTally, n)
	set := []string{keyIdle, keyIdleOff, keyKept}[c.rand.IntN(3)] + fmt.Sprint(n)
	switch draw := c.rand.IntN(16); {
	case draw >= 12:
		return c.drawOther(n, draw, element)
	case draw < 4:
		return replication.Mutate(tally, crdt.KindPNCounterMap, 48, func(v crdt.Value) crdt.Value {
			return v.(*crdt.PNCounterMap[string]).Add(node, element, 1)
		})
	case draw < 9:
		return replication.Mutate(set, crdt.KindORSet, 32, func(v crdt.Value) crdt.Value {
			return v.(*crdt.ORSet[string]).Add(node, element)
		})
	case draw < 11:
		return removal(set, element)
	}
	return operation.Op{Key: []string{tally, set}[c.rand.IntN(2)], Delete: true}
}

// removal removes an element that the set has when the request is planned. An op before it in the
// request may add the element meanwhile: then nothing is removed.
func removal(set, element string) operation.Op {
	return operation.Op{Key: set, Kind: crdt.KindORSet, Plan: func(current crdt.Value) (operation.Plan, error) {
		has := current.(*crdt.ORSet[string]).Contains(element)
		return operation.Plan{Apply: func(v crdt.Value) crdt.Value {
			if !has {
				return nil
			}
			if delta := v.(*crdt.ORSet[string]).Remove(element); delta != nil {
				return delta
			}
			return nil
		}}, nil
	}}
}

// drawOther draws a change of a key of one of the other kinds.
func (c *requestClient) drawOther(n, draw int, element string) operation.Op {
	node, number := crdt.NodeID(c.d.p.Node.ID), fmt.Sprint(n)
	switch draw {
	case 12:
		return replication.Mutate(keyDir+number, crdt.KindORMap, 48, func(v crdt.Value) crdt.Value {
			return v.(*crdt.ORMap[string, string]).At(element).Increment(node, 1)
		})
	case 13:
		return replication.Mutate(keyMulti+number, crdt.KindORMultiMap, 48, func(v crdt.Value) crdt.Value {
			return v.(*crdt.ORMultiMap[string, string]).Add(node, element, number)
		})
	case 14:
		return operation.Op{Key: keyTally + number, Kind: crdt.KindPNCounterMap}
	}
	if c.rand.Coin() {
		return replication.Mutate(keyEither+number, crdt.KindORSet, 32, func(v crdt.Value) crdt.Value {
			return v.(*crdt.ORSet[string]).Add(node, element)
		})
	}
	return replication.Mutate(keyEither+number, crdt.KindGCounter, 32, func(v crdt.Value) crdt.Value {
		return v.(*crdt.GCounter).Add(node, 1)
	})
}

// planOutside decides a plan on a snapshot, and makes the update a little later: another change of
// this process may have come between.
func (c *requestClient) planOutside(op operation.Op) {
	snapshot := c.d.core.Snapshot(op.Key)
	plan, err := operation.Plan{}, error(nil)
	if !op.Delete {
		plan, err = replication.Decide(&op, snapshot)
		decided := plan
		op.Plan = func(crdt.Value) (operation.Plan, error) { return decided, err }
	}
	c.d.p.Later(c.rand.Duration(0, 40*time.Millisecond), func() {
		if !c.d.shared.on {
			return
		}
		u := replication.Update{Ops: []operation.Op{op}, Bases: []*replication.Snapshot{snapshot}, Level: c.drawLevel(), Deadline: c.d.Deadline()}
		c.d.Update(u, func(a replication.Reply) {
			c.d.p.Event("planned outside", uint64(plan.Growth), func() string { return fmt.Sprintf("%s: %v", op.Key, a.Err) })
		})
	})
}

// burst makes or deletes several keys together.
func (c *requestClient) burst() {
	node, remove := crdt.NodeID(c.d.p.Node.ID), c.rand.Chance(40)
	var ops []operation.Op
	for _, n := range c.rand.Subset(manyKeys, limits.RequestOps) {
		op := replication.Mutate(fmt.Sprintf("%s%d", keyMany, n), crdt.KindGCounter, 32, func(v crdt.Value) crdt.Value {
			return v.(*crdt.GCounter).Add(node, 1)
		})
		op.Delete = remove
		ops = append(ops, op)
	}
	c.d.Update(replication.Update{Ops: ops, Level: replicator.Local, Deadline: c.d.Deadline()}, func(replication.Reply) {})
}

// readKeys reads some keys at some level.
func (c *requestClient) readKeys() {
	n := fmt.Sprint(c.rand.IntN(mapKeys))
	keys := []string{keyTally + n, keyKept + n, keyDir + n, keyWords}
	c.d.readAt(replication.Read{Keys: keys, Level: c.drawLevel(), Deadline: c.d.Deadline()}, func(a replication.Reply) {
		if a.Err == nil && len(a.Values) != len(keys) {
			c.d.p.Run.Fail("S4", "%s reads %d keys and has %d values", c.d.p.Label, len(keys), len(a.Values))
		}
	})
}

// callOff makes a request, and calls it off soon after.
func (c *requestClient) callOff() {
	var id replication.RequestID
	over := false
	id = c.d.readAt(replication.Read{Keys: []string{keyWords}, Level: replicator.All, Deadline: c.d.Deadline()}, func(replication.Reply) {
		if over {
			c.d.p.Run.Fail("S2", "%s has an answer to request %d, which it has called off", c.d.p.Label, id)
		}
	})
	c.d.p.Later(c.rand.Duration(0, 4*time.Millisecond), func() {
		if c.d.shared.on {
			over = true
			c.d.step(replication.Cancel{ID: id})
		}
	})
}

// observe asks what shells ask of the core for logs, metrics and the dashboard, and compares the
// answers with each other.
func (c *requestClient) observe() {
	d, core := c.d, c.d.core
	peers, stats := core.Peers(), core.Stats()
	for _, p := range peers {
		if p.Lag > stats.LagMax {
			d.p.Run.Fail("core", "%s: peer %s lags by %d changes, at most %d are reported", d.p.Label, d.p.Run.Names.Name(p.ID), p.Lag, stats.LagMax)
		}
		if d.shared.view.Member(p.ID) == nil {
			d.p.Run.Fail("core", "%s: %s is a peer, but no member", d.p.Label, d.p.Run.Names.Name(p.ID))
		}
	}
	for _, key := range core.Keys("") {
		if k := core.Key(key); k.Kind == 0 || k.Kind != core.Value(key).Kind() {
			d.p.Run.Fail("core", "%s: key %q is of kind %v", d.p.Label, key, k.Kind)
		}
	}
	if k := core.Key(keyScratch + "none"); k.Kind != 0 {
		d.p.Run.Fail("core", "%s: a key that never existed is of kind %v", d.p.Label, k.Kind)
	}
	if term := core.Term(fenceGroup); term > uint64(d.shared.view.Epoch) && !d.hasRegister() {
		d.p.Run.Fail("G2", "%s has a fence of term %d, above its view", d.p.Label, term)
	}
	for _, key := range core.KeptKeys() {
		if !d.isDurable(key) {
			d.p.Run.Fail("core", "%s keeps key %q", d.p.Label, key)
		}
	}
	d.p.Run.Hit(coverage.Observed)
}
