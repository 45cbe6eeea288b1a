package ddata

import (
	"sync"
	"time"

	"github.com/peerage-go/peerage/crdt"
)

// stamps makes the stamps of last-write-wins data: from a hybrid logical clock, and a
// sequence number.
type stamps struct {
	mu   sync.Mutex
	hlc  crdt.HLC
	seq  uint64
	wall func() time.Time
}

// stampAbove returns a stamp of this node that is newer than the time above. It is also
// newer than every stamp returned before, unless the clock was set back. millis is the time
// that the replicator trusts, 0 if it trusts none; then this node's clock is used. If above
// comes from a clock that runs far ahead, only the entry written over it is pulled ahead:
// this node's clock, and all its later writes, are not.
func (d *Data) stampAbove(above, millis uint64) crdt.Stamp {
	s := &d.stamps
	s.mu.Lock()
	defer s.mu.Unlock()
	wall := s.wall()
	if millis > 0 {
		wall = time.UnixMilli(int64(millis))
	}
	if s.hlc.Check(s.hlc.Last(), wall) != nil {
		s.hlc = crdt.HLC{} // set before the replicator found this node's clock wrong
	}
	// An error means too far ahead: the clock does not follow.
	_ = s.hlc.Observe(above, wall)
	s.seq++
	return crdt.Stamp{Time: max(s.hlc.Tick(wall), above+1), Node: crdt.NodeID(d.r.Self()), Seq: s.seq}
}
