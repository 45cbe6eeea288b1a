package sharding

import (
	"sync/atomic"

	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/internal/statecopy"
	"github.com/peerage-go/peerage/internal/statetransfer"
)

// counters are those of one type, for the life of the program.
type counters struct {
	stripes    [stripes]stripe
	dropped    [reasons]atomic.Uint64
	redirected atomic.Uint64
	nodeLost   atomic.Uint64
	received   atomic.Uint64
	stale, far atomic.Uint64
	in, out    atomic.Uint64

	transfers statetransfer.Counters

	// replication counts replicated states.
	replication statecopy.Counters

	duplicates atomic.Uint64

	// heldUp is a gauge of callers, gates one of entities that homes said to stop for;
	// blocked counts windows that were used up.
	heldUp  activation.Gauge
	gates   activation.Gauge
	blocked atomic.Uint64

	selfAsks, mutualAsks atomic.Uint64
	// shapes counts nodes whose messages have another shape, on the coordinator's node.
	shapes atomic.Uint64

	sureDone, sureGivenUp atomic.Uint64
}

// stripe holds what is counted for every message, apart per group of shards:
// processors that work on different shards do not meet at a counter.
type stripe struct {
	sent [figures.Routes]atomic.Uint64
	_    [64]byte
}

const stripes = 16

func (c *counters) sent(r figures.Route, shard ShardID) { c.stripes[shard%stripes].sent[r].Add(1) }

func (c *counters) drop(r Reason, n uint64) { c.dropped[r].Add(n) }

// fill copies the counters into s.
func (c *counters) fill(s *Stats) {
	for i := range c.stripes {
		sent := &c.stripes[i].sent
		s.SentLocal += sent[figures.RouteLocal].Load()
		s.SentRemote += sent[figures.RouteRemote].Load()
		s.SentBuffered += sent[figures.RouteBuffered].Load()
	}
	for i := range s.Dropped {
		s.Dropped[i] += c.dropped[i].Load()
	}
	s.Redirected, s.Received = c.redirected.Load(), c.received.Load()
	s.TermsRefused = c.far.Load()
	s.Blocked = c.blocked.Load()
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
