package ddata

import (
	"sync"
	"time"

	"github.com/peerage-go/peerage/crdt"
)

// stamps gives out stamps that only grow: milliseconds of the wall clock in the
// upper 48 bits, a counter below. They never fall behind a stamp that was seen,
// whatever the wall clock says.
type stamps struct {
	mu   sync.Mutex
	last uint64
	wall func() time.Time
}

// stampAfter returns a stamp of this node, newer than seen and than every stamp
// given out before.
func (d *Data) stampAfter(seen crdt.Stamp) crdt.Stamp {
	s := &d.stamps
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = max(uint64(s.wall().UnixMilli())<<16, s.last+1, seen.Time+1)
	return crdt.Stamp{Time: s.last, Node: crdt.NodeID(d.r.Self())}
}
