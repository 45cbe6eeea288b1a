package crdt

import "cmp"

// Stamp orders the writes to one register. Stamps are compared by Time, then
// Node, then Seq, so the order is total as long as no writer uses one twice. Time
// is whatever the writers agree on: the ticks of an HLC for application data, a
// term for data of an elected writer. The zero Stamp is older than every other.
type Stamp struct {
	Time uint64
	Node NodeID
	Seq  uint64
}

// Compare returns -1, 0 or +1 as s is older than, equal to or newer than t.
func (s Stamp) Compare(t Stamp) int {
	switch {
	case s.Time != t.Time:
		return cmp.Compare(s.Time, t.Time)
	case s.Node != t.Node:
		return cmp.Compare(s.Node, t.Node)
	}
	return cmp.Compare(s.Seq, t.Seq)
}
