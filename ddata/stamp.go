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

// stampAbove returns a stamp of this node, newer than the time above and than every
// stamp given out before. A time from a clock that runs far ahead pulls up the entry
// that is written over it, and not this node's clock with all that it will ever write.
func (d *Data) stampAbove(above uint64) crdt.Stamp {
	s := &d.stamps
	s.mu.Lock()
	defer s.mu.Unlock()
	wall := s.wall()
	// An error means too far ahead: the clock does not follow.
	_ = s.hlc.Observe(above, wall)
	s.seq++
	return crdt.Stamp{Time: max(s.hlc.Tick(wall), above+1), Node: crdt.NodeID(d.r.Self()), Seq: s.seq}
}
