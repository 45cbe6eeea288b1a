package replica

import (
	"cmp"
	"fmt"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/replicator"
)

// Entries of maps whose last write wins: by stamps that the replicator asks for, as packages that
// use ddata have them, or by stamps of the caller.

// drawMapOp draws a change of an entry of a map.
func (c *requestClient) drawMapOp() operation.Op {
	maps := c.mapNames()
	key, entry := maps[c.rand.IntN(len(maps))], fmt.Sprint(c.rand.IntN(scratchElements))
	remove := c.rand.Chance(40)
	switch draw := c.rand.IntN(20); {
	case draw == 0:
		return operation.Op{Key: key, Delete: true}
	case draw < 3:
		return c.growingOp(key)
	case draw < 11:
		return c.stampedOp(key, remove, entry)
	}
	f := operation.Fixed{Entry: entry, Stamp: c.drawStamp(), Value: fmt.Sprint(c.rand.IntN(100)), Delete: remove, Yield: c.rand.Chance(30)}
	p := operation.Plan{Growth: 64, Fixed: []operation.Fixed{f}, Apply: func(v crdt.Value) crdt.Value {
		m := v.(*crdt.LWWMap[string, string])
		if f.Delete {
			return valueOf(m.Delete(f.Entry, f.Stamp))
		}
		return valueOf(m.Set(f.Entry, f.Value, f.Stamp))
	}}
	if c.rand.Chance(20) {
		p.Fixed = nil // the stamp is found on a copy
	}
	return operation.Op{Key: key, Kind: crdt.KindLWWMap, Plan: func(crdt.Value) (operation.Plan, error) { return p, nil }}
}

// mapNames lists the maps. Where stamps are no times, half of them are durable in runs with disks:
// stamps of clocks that were wrong must be overwritten in the end, also at a host whose disk fails.
func (c *requestClient) mapNames() (names []string) {
	for n := range mapKeys {
		if names = append(names, fmt.Sprintf("%s%d", keyMap, n)); !c.d.hasRegister() {
			names = append(names, fmt.Sprintf("%smap/%d", keyKept, n))
		}
	}
	return names
}

// growingOp sets the entry after those that stand: its plan changes with the map.
func (c *requestClient) growingOp(key string) operation.Op {
	op := c.stampedOp(key, false, "0")
	op.Plan = func(current crdt.Value) (operation.Plan, error) {
		next := fmt.Sprint(current.(*crdt.LWWMap[string, string]).Len() % scratchElements)
		return c.stampedOp(key, false, next).Plan(current)
	}
	return op
}

// stampedOp sets or removes entries of a map by stamps above all that the replicator has found.
func (c *requestClient) stampedOp(key string, remove bool, entries ...string) operation.Op {
	node, value := crdt.NodeID(c.d.p.Node.ID), fmt.Sprint(c.rand.IntN(100))
	p := operation.Plan{Growth: 64, Entries: entries, Stamped: func(v crdt.Value, above []uint64, wall uint64) crdt.Value {
		m, sum := v.(*crdt.LWWMap[string, string]), crdt.Value(nil)
		for i, entry := range entries {
			at := crdt.Stamp{Time: max(above[i]+1, wall*stampTicks), Node: node}
			delta := m.Delete
			if !remove {
				delta = func(k string, at crdt.Stamp) *crdt.LWWMap[string, string] { return m.Set(k, value, at) }
			}
			if d := delta(entry, at); d != nil && sum == nil {
				sum = d
			} else if d != nil {
				_, _ = sum.Join(d) // deltas of one type
			}
		}
		return sum
	}}
	return operation.Op{Key: key, Kind: crdt.KindLWWMap, Plan: func(crdt.Value) (operation.Plan, error) { return p, nil }}
}

// drawStamp draws a stamp of the caller: by the clock of its host, or a small number where stamps
// are no times.
func (c *requestClient) drawStamp() crdt.Stamp {
	s := crdt.Stamp{Node: crdt.NodeID(c.d.p.Node.ID)}
	if !c.d.hasRegister() {
		s.Time = uint64(c.d.p.Run.Now())/1e6 + uint64(c.rand.IntN(400))
		return s
	}
	wall := c.d.shared.clocks.show(c.d.p.Slot)
	s.Time = (wall + uint64(c.rand.IntN(90_000)) - 10_000) * stampTicks // up to 80 s ahead
	return s
}

// overwriteMaps writes all entries of the maps, which ends those whose stamps are ahead of the
// clocks: their writer holds them alone until then.
func (c *requestClient) overwriteMaps(answer func(error)) {
	var entries []string
	for n := range scratchElements {
		entries = append(entries, fmt.Sprint(n))
	}
	left, failed := c.mapNames(), error(nil)
	for _, key := range c.mapNames() {
		u := replication.Update{Ops: []operation.Op{c.stampedOp(key, false, entries...)}, Level: replicator.Majority(0, 0), Deadline: c.d.Deadline()}
		c.d.Update(u, func(a replication.Reply) {
			failed = cmp.Or(failed, a.Err)
			if left = left[1:]; len(left) == 0 {
				answer(failed)
			}
		})
	}
}

// valueOf hides a nil map, which would not equal nil as a value.
func valueOf(m *crdt.LWWMap[string, string]) crdt.Value {
	if m == nil {
		return nil
	}
	return m
}
