package replication

import (
	"fmt"
	"slices"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/replicator"
)

// Clocks that are wrong
//
// A stamp far in the future wins over every write until that time comes. So the clocks of
// all members bound stamps:
//
//   - Every Status and StampAnswer carries its sender's wall clock. Most members agree on
//     the *lower median* of those and the own clock.
//   - Stamps made here are at most stampLead above the lower median: a node whose clock
//     stands in 2099 writes correctly once it has received another's.
//   - A stamp is *ahead* if it is more than aheadMax above the own clock or, with three or
//     more clocks, above the lower median: a node whose own clock is wrong judges by
//     those of its peers. A write that would need such a stamp fails with ErrStamp, and
//     one with such a stamp of its caller's with ErrAhead. Nothing changes then.
//   - A replica does not apply entries that are ahead if their writer itself sends them.
//     It refuses them in the acknowledgement. Entries that another member passes on are
//     always merged: an entry that one replica admits, all admit, and the state is the
//     join of all admitted entries.
//   - Stamps that were made before any other clock was received may be wrong without a
//     sign. Such a replica is *unjudged*: it sends and accepts nothing but clocks until
//     it has received one. If its own entries are ahead of that, they get stamps of the
//     present; no other member has seen the former ones. Entries that came from its file
//     keep their stamps, since other files hold stamps of the same order.
//   - A write to an entry that is ahead of all clocks all the same begins an era of the key,
//     above all stamps that it has.
//
// Without a clock (Config.Wall) nothing is judged: stamps are then terms or numbers.
// A time or generation from timeMax on is malformed, also without a clock.
//
// Rejected: a refused writer removes its value again. Its replica may have confirmed a
// value below the refused one, or merged it meanwhile without effect: that value would be
// lost at a replica that was counted for it. The value stays here instead, reaches the
// other members when their clocks get there, and the caller receives an unknown outcome.
//
// Two wrong clocks that are cut off together confirm each other. Their writes stand until
// another member writes above them, in another era.

const (
	// aheadMax is how far ahead of the clocks a stamp may be.
	aheadMax = time.Minute
	// stampLead is how far ahead of the lower median an own stamp may be.
	stampLead = 500 * time.Millisecond
	// timeMax is the first time and generation that is malformed.
	timeMax = 1 << 63
	// wallMin is the start of the year 2000 in milliseconds: a clock that shows less was
	// never set, and counts as none.
	wallMin = 946_684_800_000
	// tickBits is what a tick of crdt.HLC has beside its milliseconds.
	tickBits = 16
)

// clocks holds the readings of the members' wall clocks.
type clocks struct {
	*env
	members *members
	// unjudged is set while stamps were made, or read from a file, before another clock
	// was received.
	unjudged bool
	// peersReported is set once another member has reported its clock, or that it has
	// none.
	peersReported bool
	// clockKnown is set once a member has reported a clock. The lower median was then
	// offset above the clock of the Instants, in milliseconds.
	clockKnown bool
	offset     int64
}

// ownWall returns this node's wall clock in milliseconds of Unix time, 0 if it has none.
func (ck *clocks) ownWall() uint64 {
	if ck.cfg.Wall == nil {
		return 0
	}
	if w := ck.cfg.Wall(); w >= wallMin && w < timeMax>>tickBits {
		return w
	}
	return 0
}

// readings returns the received clocks, as of now, the lowest first.
func (ck *clocks) readings() []uint64 {
	var out []uint64
	if own := ck.ownWall(); own > 0 {
		out = append(out, own)
	}
	n := len(out)
	for _, p := range ck.members.peers {
		if p.clocked {
			out = append(out, uint64(p.offset+ck.nowMillis()))
		}
	}
	if len(out) == n && ck.clockKnown {
		out = append(out, uint64(ck.offset+ck.nowMillis())) // of members that have left
	}
	slices.Sort(out)
	return out
}

// lowerMedian returns the clock that most members agree on, 0 without readings.
func lowerMedian(readings []uint64) uint64 {
	if len(readings) == 0 {
		return 0
	}
	return readings[(len(readings)-1)/2]
}

// stampWall returns the clock for stamps that are made here, 0 without one.
func (ck *clocks) stampWall() uint64 {
	if ck.cfg.Wall == nil {
		return 0
	}
	rs := ck.readings()
	most := lowerMedian(rs) + millis(stampLead)
	if own := ck.ownWall(); own > 0 && len(rs) > 0 {
		return min(own, most)
	}
	return lowerMedian(rs)
}

// judgingWall returns the clock by which stamps are judged, 0 without one.
func (ck *clocks) judgingWall() uint64 {
	if ck.cfg.Wall == nil {
		return 0
	}
	rs, own := ck.readings(), ck.ownWall()
	if len(rs) < 3 && own > 0 {
		return own
	}
	return lowerMedian(rs)
}

// tooFar reports whether a time is more than aheadMax ahead of wall; without a clock no
// time is.
func tooFar(t, wall uint64) bool { return wall > 0 && t>>tickBits > wall+millis(aheadMax) }

// noteClock sets the clock of a member, 0 if it has none. It reports whether own stamps,
// made before any clock was received, must now be judged (judgeOwn).
func (ck *clocks) noteClock(p *peer, wall uint64) (judge bool) {
	if ck.cfg.Wall == nil {
		return false
	}
	ck.peersReported = true
	p.clocked = wall >= wallMin && wall < timeMax>>tickBits
	if p.clocked {
		p.offset = int64(wall) - ck.nowMillis()
		ck.clockKnown, ck.offset = true, int64(lowerMedian(ck.readings()))-ck.nowMillis()
	}
	judge, ck.unjudged = ck.unjudged, false
	return judge
}

// isMuted reports whether this replica sends and accepts nothing but clocks.
func (ck *clocks) isMuted() bool {
	return ck.unjudged && len(ck.members.peers) > 0
}

func carriesClock(m Message) bool {
	switch m.(type) {
	case *Status, *StampAnswer:
		return true
	}
	return false
}

// newestStamp returns the newest stamp in v, and whether values of its kind have any.
func newestStamp(v crdt.Value) (uint64, bool) {
	s, ok := v.(stampedValue)
	if !ok {
		return 0, false
	}
	return s.Newest().Time, true
}

// malformed reports why no correct replica can hold an item.
func malformed(in *Item, v crdt.Value) error {
	t, stamped := newestStamp(v)
	if in.Era > 0 && !stamped || in.Era > eraMax {
		return fmt.Errorf("malformed: era %d of a value of kind %v", in.Era, in.Kind)
	}
	if t >= timeMax || in.Gen >= timeMax {
		return fmt.Errorf("malformed: generation %d, newest stamp %d", in.Gen, t)
	}
	if in.Kind == 0 && isOpen(in.Gen) {
		return fmt.Errorf("malformed: deleted in generation %d, which no deletion opens", in.Gen)
	}
	return nil
}

// admitStamps returns v without entries that are ahead and were written by its sender.
func (ck *clocks) admitStamps(from *peer, key string, v crdt.Value) (crdt.Value, *replicator.Error) {
	newest, ok := newestStamp(v)
	wall := ck.judgingWall()
	if from == nil || !ok || !tooFar(newest, wall) {
		return v, nil
	}
	var err *replicator.Error
	v = restamped(v, func(s crdt.Stamp) (crdt.Stamp, bool) {
		if s.Node != crdt.NodeID(from.id) || !tooFar(s.Time, wall) {
			return s, true
		}
		if err == nil || s.Time>>tickBits > err.Stamp.Time>>tickBits {
			err = &replicator.Error{Code: replicator.ErrAhead, Key: key, Stamp: s, Wall: wall, Node: ck.cfg.Self, Unchanged: true}
		}
		return s, false
	})
	return v, err
}

// emptied reports whether nothing is left of a value.
func emptied(v crdt.Value) bool {
	t, ok := newestStamp(v)
	return ok && t == 0
}

// restamped returns a value with the stamps that f gives its entries, without those for
// which it returns false. The value's newest forgotten stamp is lost.
func restamped(v crdt.Value, f func(crdt.Stamp) (crdt.Stamp, bool)) crdt.Value {
	// The kind is that of a value, so it has a zero value.
	fresh, _ := crdt.New(v.Kind())
	switch v := v.(type) {
	case *crdt.LWWRegister[string]:
		out := fresh.(*crdt.LWWRegister[string])
		if s, ok := f(v.Stamp()); ok {
			val, _ := v.Value()
			out.Set(val, s)
		}
		return out
	case *entryMap:
		out := fresh.(*entryMap)
		for k, val := range v.All() { // order-free: each entry by itself
			s, _ := v.Stamp(k)
			if s, ok := f(s); ok {
				out.Set(k, val, s)
			}
		}
		for k, s := range v.Deleted() { // order-free: each entry by itself
			if s, ok := f(s); ok {
				out.Delete(k, s)
			}
		}
		return out
	}
	return v
}

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
// Lifting commutes with joins, so it needs no agreement: members may begin the same era
// at different times, or be stopped before any state of it arrives. Frames, logs and
// files of earlier eras are lifted when they arrive, however late. Their entries keep
// their order, none of them is lost, and none stands above a write of the new era.
//
// Eras are bounded by eraMax in each generation of a key: a stamp has 8 bytes of time to give.
// After the last one a write fails with ErrStamp, until the clocks arrive or the key is
// deleted, which ends the generation.
//
// Rejected: stamps of the present for entries in files (the other files keep the former
// ones); subtracting a constant (stamps that are exact and below the year 2000 end in
// 2029); a new generation with the same values (writes to other entries of the key that
// are acknowledged meanwhile would be lost).

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

// lifted returns v, a value of an era, lifted to a later one.
func lifted(v crdt.Value, from, to uint8) crdt.Value {
	if from >= to || v == nil {
		return v
	}
	return restamped(v, func(s crdt.Stamp) (crdt.Stamp, bool) { return lift(s, to-from), true })
}

// liftedItem returns an item lifted to an era, if it is of an earlier one.
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

// raiseEra lifts the value of an item to an era, if it is of an earlier one.
func (it *item) raiseEra(era uint8) (raised bool) {
	if it.value == nil || it.era >= era {
		return false
	}
	it.replaceValue(lifted(it.value, it.era, era))
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

// beginEra starts another era in n if a write above it would be ahead of clock. In the
// last era it returns false.
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

// eraClock returns the clock that a stamp must be ahead of to end an era: of three clocks
// or more the lower median, of two the later one. One clock that is behind ends no era.
// Without peers it is the own clock: the clocks of members which have left may have been
// wrong.
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
