package replication

import (
	"slices"

	"github.com/peerage-go/peerage/crdt"
)

// Eras
//
// The stamps of an entry can be far ahead of all clocks: in the files of a cluster whose
// clocks were set back while it was down, or when two members with wrong clocks vouched for
// each other. A write has to be above such a stamp and must not be ahead of the clocks, so
// none is possible until the clocks have arrived. The write begins a new *era* of the key
// instead:
//
//   - Within one generation, stamps of a higher era are above those of all lower eras.
//   - A state of a lower era is lifted before it is joined with one of a higher era: each of
//     its stamps is shifted right by a byte per era, over Time, Node and Seq. The shift keeps
//     the order of stamps (but for those that differ in the lowest byte of Seq alone), and
//     moves times below the year 1988. Every accepted clock shows a later time.
//
// Lifting commutes with joins, so it needs no agreement: members may begin the same era at
// different times, or be stopped before any state of it arrives. Frames, logs and files of
// earlier eras are lifted when they arrive, however late. Their order among themselves stays
// what it was, none of their entries is lost, and none stands above a write of the new era.
//
// Eras are bounded by eraMax in each generation of a key: a stamp has 8 bytes of time to give.
// After the last one a write fails with ErrStamp, until the clocks arrive or the key is
// deleted, which ends the generation.
//
// Rejected: stamps of the present for what files hold (the other files keep the former
// ones); subtracting a constant (stamps that are exact and below the year 2000 end in 2029);
// a new generation with the same values (writes to other entries of the key that are
// acknowledged meanwhile would be lost).

const (
	// eraMax is the last era of a generation.
	eraMax = 7
	// eraBits is by how much one era shifts a stamp.
	eraBits = 8
	// eraTimes is the least time of stamps that are made in an era above 0. It is in
	// June 1987.
	eraTimes = timeMax >> eraBits
)

// lift returns a stamp as it stands some eras later.
func lift(s crdt.Stamp, eras uint8) crdt.Stamp {
	for range eras {
		const rest = 64 - eraBits
		s.Time, s.Node, s.Seq = s.Time>>eraBits, s.Node>>eraBits|crdt.NodeID(s.Time<<rest), s.Seq>>eraBits|uint64(s.Node)<<rest
	}
	return s
}

// lower returns the least stamp that some eras later is not below s, or the newest one.
func lower(s crdt.Stamp, eras uint8) crdt.Stamp {
	for range eras {
		const rest = 64 - eraBits
		if s.Time >= eraTimes {
			return crdt.Stamp{Time: timeMax - 1}
		}
		s.Time, s.Node, s.Seq = s.Time<<eraBits|uint64(s.Node)>>rest, s.Node<<eraBits|crdt.NodeID(s.Seq>>rest), s.Seq<<eraBits
	}
	return s
}

// liftTime returns the time that a stamp has some eras later.
func liftTime(t uint64, eras uint8) uint64 { return t >> (eraBits * uint(eras)) }

// lifted returns v, a value of an era, as it stands in a later one.
func lifted(v crdt.Value, from, to uint8) crdt.Value {
	if from >= to || v == nil {
		return v
	}
	return restamped(v, func(s crdt.Stamp) (crdt.Stamp, bool) { return lift(s, to-from), true })
}

// liftedItem returns an item as it stands in an era, if it is of an earlier one.
func liftedItem(in Item, era uint8) Item {
	if in.Kind == 0 || in.Era >= era {
		return in
	}
	if v, err := crdt.Decode(in.Kind, in.Bytes); err == nil {
		in.Bytes = lifted(v, in.Era, era).Append(nil)
		in.Era = era
	}
	return in
}

// raiseEra makes the value of an item one of an era, if it is of an earlier one.
func (it *item) raiseEra(era uint8) (raised bool) {
	if it.value == nil || it.era >= era {
		return false
	}
	it.replace(lifted(it.value, it.era, era))
	it.era = era
	return true
}

// joinEra joins the times of another replica, of the same generation.
func (n *Newest) joinEra(o Newest) {
	era := max(n.Era, o.Era)
	for i := range n.Times {
		n.Times[i] = liftTime(n.Times[i], era-n.Era)
		if i < len(o.Times) {
			n.Times[i] = max(n.Times[i], liftTime(o.Times[i], era-o.Era))
		}
	}
	n.Era = era
}

// beginEra makes n the beginning of another era if a write above it would be ahead of clock.
// In the last era it returns false.
func (n *Newest) beginEra(clock uint64) bool {
	far := func(t uint64) bool { return tooFar(t+1, clock) }
	if n.Era >= eraMax || !slices.ContainsFunc(n.Times, far) {
		return false
	}
	n.joinEra(Newest{Era: n.Era + 1})
	for i := range n.Times {
		n.Times[i] = max(n.Times[i], eraTimes)
	}
	return true
}

// eraClock returns the clock that a stamp must be ahead of to end an era: of three clocks or
// more the lower median, of two the later one. One clock that is behind ends none. Alone, it
// is the own clock: that of members which have left may have been the wrong one.
func eraClock(own uint64, peers []*peer, readings []uint64) uint64 {
	alone := !slices.ContainsFunc(peers, func(p *peer) bool { return p.clocked })
	switch n := len(readings); {
	case alone && own > 0:
		return own
	case n > 0 && n < 3:
		return readings[n-1]
	}
	return lowerMedian(readings)
}
