package main

import (
	"cmp"
	"slices"
)

// judgeRegister judges that no read of a register shows a value that had been overwritten: by a
// write that began after the value's write was acknowledged, and was acknowledged before the
// read began. A value without an acknowledged write may be newer than all. Registers in memory
// lose their values when half of the processes or more lose theirs. Registers on disk lose nothing, but until
// so many processes are back, reads may miss what only their disks have, and if clocks were set back, writes
// may lose to it.
func (c *court) judgeRegister(records []record) {
	p := c.of(registerFresh)
	lost, away, setBack := c.halfOfNodes, []span(nil), []span(nil)
	if c.facts.onDisk() {
		lost, away, setBack = nil, lost, c.facts.halfSetBack(c.facts.Config.Nodes)
	}
	if c.export != nil {
		c.export.addRegister(records, lost)
	}
	writes, ackedAt := []record(nil), map[uint64]int64{0: -1}
	for _, r := range records {
		if r.kind == wrote {
			ackedAt[r.value] = r.end
			if !anyTouches(setBack, r.end, r.end) {
				writes = append(writes, r)
			}
		}
	}
	slices.SortFunc(writes, func(a, b record) int { return cmp.Or(cmp.Compare(a.end, b.end), compareStarts(a, b)) })
	for _, r := range records {
		if r.kind != seen {
			continue
		}
		from, known := ackedAt[r.value]
		if !known {
			continue
		}
		if p.checked++; anyTouches(away, r.start, r.start) {
			continue
		}
		if w := overwriter(writes, from, r, lost); w != nil {
			p.breakAt(r.start, "%s shows a value from before %s", c.describeRecord(r), c.describeRecord(*w))
		}
	}
}

// overwriter returns a write that began after an instant and was acknowledged before a read
// began, and that no loss of memory excuses.
func overwriter(writes []record, after int64, read record, lost []span) *record {
	end, _ := slices.BinarySearchFunc(writes, read.start, func(w record, at int64) int { return cmp.Compare(w.end, at) })
	for i := end - 1; i >= 0; i-- { // those that ended last are the most likely
		w := &writes[i]
		if w.end <= after || anyTouches(lost, w.end, read.end) {
			return nil // the earlier ones ended before, too
		}
		if w.start > after {
			return w
		}
	}
	return nil
}

// judgePresence judges the reads of one entry, or of one element: none misses it that began
// after it was acknowledged, unless a loss of memory lies between.
func (c *court) judgePresence(name, what string, records []record, lost []span) {
	p := c.of(name)
	var acked *record
	for i, r := range records {
		if r.kind == appended || r.kind == added {
			acked = &records[i]
		}
	}
	if acked == nil {
		return
	}
	for _, r := range records {
		if r.kind != readBack && r.kind != contained || r.start <= acked.end || anyTouches(lost, acked.end, r.end) {
			continue
		}
		if p.checked++; r.value == 0 {
			p.breakAt(r.start, "%s misses the %s of %s", c.describeRecord(r), what, c.describeRecord(*acked))
		}
	}
}
