package sharding

import (
	"sync/atomic"

	"github.com/peerage-go/peerage/internal/delivery"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/internal/statecopy"
	"github.com/peerage-go/peerage/internal/statetransfer"
)

// counters are those of one type, for the life of the program.
type counters struct {
	delivery.Counters
	nodeLost   atomic.Uint64
	received   atomic.Uint64
	stale, far atomic.Uint64
	in, out    atomic.Uint64

	transfers statetransfer.Counters

	// replication counts replicated states.
	replication statecopy.Counters

	duplicates atomic.Uint64

	selfAsks, mutualAsks atomic.Uint64
	// shapes counts nodes whose messages have another shape, on the coordinator's node.
	shapes atomic.Uint64
}

// fill copies the counters into s.
func (c *counters) fill(s *Stats) {
	s.SentLocal, s.SentRemote = c.SentBy(figures.RouteLocal), c.SentBy(figures.RouteRemote)
	s.SentBuffered = c.SentBy(figures.RouteBuffered)
	for i := range s.Dropped {
		s.Dropped[i] = c.Dropped(delivery.Reason(i))
	}
	s.Redirected, s.Received = c.Redirected.Load(), c.received.Load()
	s.TermsRefused = c.far.Load()
	s.Blocked = c.Blocked.Load()
	s.HandoffsIn, s.HandoffsOut = c.in.Load(), c.out.Load()
	r := &c.replication
	s.Stale = c.stale.Load() + r.Stale.Load()
	s.StatesRecovered, s.StatesCold = r.Recovered.Load(), r.Cold.Load()
	s.StateLosses, s.NotKept = r.Losses.Load(), r.NotKept.Load()
	s.StateBytesIn, s.StateBytesOut = r.BytesIn.Load(), r.BytesOut.Load()
	s.StatesReused = r.Reused.Load()
	s.MessageShapes = c.shapes.Load()
	s.SelfAsks, s.MutualAsks = c.selfAsks.Load(), c.mutualAsks.Load()
	s.Duplicates, s.NodeLost = c.duplicates.Load(), c.nodeLost.Load()
}
