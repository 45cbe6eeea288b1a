package crdt

import (
	"cmp"
	"time"
)

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

// HLC is a hybrid logical clock: its ticks follow the wall clock where they can,
// and causality always (Kulkarni et al., 2014). A tick has 48 bits of milliseconds
// since 1970 and a counter of 16 bits, so ticks of different processes can be
// compared. The caller gives the wall clock; a wall clock that goes back does not
// make ticks go back. The zero HLC is ready to use and takes no remote tick that
// is more than 500 ms ahead. It is not safe for concurrent use.
type HLC struct {
	// MaxAhead bounds how far ahead of the local wall clock a remote tick may be;
	// 0 means 500 ms. Smaller: a process whose clock runs ahead is refused sooner.
	// Larger: its writes may win over later ones for that long.
	MaxAhead time.Duration
	// Clamp makes Observe go up to the bound instead of failing. The clock stays
	// sane either way; with Clamp, later local writes may be older than the remote
	// one that was observed.
	Clamp bool

	last uint64
}

const (
	hlcCounterBits  = 16
	hlcAheadDefault = 500 * time.Millisecond
	hlcMillisMax    = 1<<48 - 1
)

// Tick returns the next tick, greater than every tick returned or observed before.
func (h *HLC) Tick(wall time.Time) uint64 {
	h.last = max(h.last+1, millis(wall)<<hlcCounterBits)
	return h.last
}

// Stamp returns a Stamp with the next tick.
func (h *HLC) Stamp(wall time.Time, node NodeID) Stamp {
	return Stamp{Time: h.Tick(wall), Node: node}
}

// Last returns the greatest tick returned or observed, or 0.
func (h *HLC) Last() uint64 { return h.last }

// Check returns *SkewError if a remote tick is too far ahead of the wall clock.
func (h *HLC) Check(tick uint64, wall time.Time) error {
	limit := h.MaxAhead
	if limit == 0 {
		limit = hlcAheadDefault
	}
	now, remote := millis(wall), tick>>hlcCounterBits
	if most := uint64(max(limit.Milliseconds(), 0)); remote > now && remote-now > most {
		return &SkewError{AheadMillis: remote - now, MaxMillis: most}
	}
	return nil
}

// Observe makes later local ticks greater than a remote one. A tick too far ahead
// is refused with *SkewError and changes nothing, or clamped to the bound.
func (h *HLC) Observe(tick uint64, wall time.Time) error {
	err := h.Check(tick, wall)
	if err == nil {
		h.last = max(h.last, tick)
		return nil
	}
	if !h.Clamp {
		return err
	}
	most := err.(*SkewError).MaxMillis
	h.last = max(h.last, min(millis(wall)+most, hlcMillisMax)<<hlcCounterBits)
	return nil
}

// stamped is a Value whose order is that of stamps.
type stamped interface {
	Value
	// Newest returns the greatest stamp in the value, or the zero Stamp.
	Newest() Stamp
}

// Admit observes the stamps of a value that comes from elsewhere, before it is
// joined. With Clamp off it fails with *SkewError if a stamp is too far ahead: the
// value should then not be joined, or it stands until the wall clock gets there.
// Values without stamps are admitted as they are.
func (h *HLC) Admit(v Value, wall time.Time) error {
	if s, ok := v.(stamped); ok {
		return h.Observe(s.Newest().Time, wall)
	}
	return nil
}

func millis(t time.Time) uint64 { return uint64(min(max(t.UnixMilli(), 0), hlcMillisMax)) }

func stampHash(s Stamp) uint64 { return mix(mix(s.Time, s.Seq), uint64(s.Node)) }
