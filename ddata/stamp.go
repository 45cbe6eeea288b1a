package ddata

import (
	"sync"
	"time"

	"github.com/peerage-go/peerage/crdt"
)

// stamps gives out the stamps of last-write-wins data: a hybrid logical clock,
// and a number of its own for each stamp.
type stamps struct {
	mu   sync.Mutex
	hlc  crdt.HLC
	seq  uint64
	wall func() time.Time
}

// stampAbove returns a stamp of this node, newer than the time above. It is newer than
// every stamp given out before, too, unless the clock was set back: millis is the time that
// the replicator takes for right, 0 if it takes none, and then this node's clock is asked.
// A time from a clock that runs far ahead pulls up the entry that is written over it, and
// not this node's clock with all that it will ever write.
func (d *Data) stampAbove(above, millis uint64) crdt.Stamp {
	s := &d.stamps
	s.mu.Lock()
	defer s.mu.Unlock()
	wall := s.wall()
	if millis > 0 {
		wall = time.UnixMilli(int64(millis))
	}
	if s.hlc.Check(s.hlc.Last(), wall) != nil {
		s.hlc = crdt.HLC{} // from before this node learned that its clock is wrong
	}
	// An error means too far ahead: the clock does not follow.
	_ = s.hlc.Observe(above, wall)
	s.seq++
	return crdt.Stamp{Time: max(s.hlc.Tick(wall), above+1), Node: crdt.NodeID(d.r.Self()), Seq: s.seq}
}
