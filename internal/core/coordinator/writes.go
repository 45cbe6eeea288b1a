package coordinator

import (
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

const (
	// writesMax bounds the writes in flight; later records share the next write.
	writesMax = 16
	// recordsMax bounds one write.
	recordsMax = 1024
)

// writes holds the records for the replicator: they gather during a step and leave
// in one write at its end.
type writes struct {
	// records are new allocations to be written.
	// Invariant: a shard in phase writing is in records or in one of flying.
	records []protocol.Record
	// rewrite are records that the census found missing. No shard waits for them.
	rewrite []protocol.Record
	// regions, proxies and gone are changes of the OR-sets: they travel with the next
	// records, or at a rebalance tick, or immediately if urgent: a proxy waits for homes.
	regions, proxies, gone []gossip.NodeID
	urgent                 bool
	flying                 []Write
	// retry is when records of unknown outcome are written again, zero if none are.
	retry clock.Instant
	// again are those records.
	again []Write
}

func (c *Core) noteRegistered(n gossip.NodeID, hosts bool) {
	w := &c.writes
	if hosts {
		w.regions, w.proxies = addOnce(w.regions, n), without(w.proxies, n)
	} else {
		w.regions, w.proxies = without(w.regions, n), addOnce(w.proxies, n)
	}
	w.urgent = w.urgent || !c.findable(n)
}

// noteGone has a former member taken out of the OR-sets.
func (c *Core) noteGone(n gossip.NodeID) {
	w := &c.writes
	w.regions, w.proxies, w.gone = without(w.regions, n), without(w.proxies, n), addOnce(w.gone, n)
}

// noteStored compares the stored OR-sets with the view.
func (c *Core) noteStored(regions, proxies []gossip.NodeID) {
	for _, n := range slices.Concat(regions, proxies) {
		if c.list(n); c.view.Member(n) == nil {
			c.noteGone(n)
		}
	}
}

func addOnce(nodes []gossip.NodeID, n gossip.NodeID) []gossip.NodeID {
	if slices.Contains(nodes, n) {
		return nodes
	}
	return append(nodes, n)
}

// flushWrites sends the collected records, in as few writes as the limits allow.
func (c *Core) flushWrites() {
	w := &c.writes
	w.records = append(w.records, w.rewrite...)
	w.rewrite = nil
	for len(w.records) > 0 && len(w.flying) < writesMax {
		n := min(len(w.records), recordsMax)
		batch := w.records[:n:n]
		if w.records = w.records[n:]; len(w.records) == 0 {
			w.records = nil
		}
		c.write(batch)
	}
	if w.urgent {
		c.flushSets()
	}
}

// flushSets writes the OR-sets' changes if no record has taken them along.
func (c *Core) flushSets() {
	w := &c.writes
	if len(w.regions)+len(w.proxies)+len(w.gone) > 0 && len(w.flying) < writesMax {
		c.write(nil)
	}
}

func (c *Core) write(records []protocol.Record) {
	w := &c.writes
	c.seq++
	wr := Write{ID: c.seq, Term: c.term, Records: records, Regions: w.regions, Proxies: w.proxies, Gone: w.gone}
	w.regions, w.proxies, w.gone, w.urgent = nil, nil, nil, false
	w.flying = append(w.flying, wr)
	c.out.Do = append(c.out.Do, wr)
}

func (c *Core) writeDone(ev WriteDone) {
	w := &c.writes
	i := slices.IndexFunc(w.flying, func(wr Write) bool { return wr.ID == ev.ID })
	if c.term == 0 || i < 0 {
		return
	}
	wr := w.flying[i]
	w.flying = slices.Delete(w.flying, i, i+1)
	switch {
	case ev.Result == OK:
		c.written(wr)
	case ev.Result == Fenced && !c.far(0, ev.Higher, "fence"):
		c.overtaken(ev.Higher)
	default:
		c.trace(TraceWriteUnknown, 0, c.termToken(), "")
		w.again = append(w.again, wr)
		if w.retry == 0 {
			w.retry = c.now.Add(c.cfg.RetryWrite)
		}
	}
}

// written handles a completed write: its homes may be sent, except for superseded records.
func (c *Core) written(wr Write) {
	for _, n := range slices.Concat(wr.Regions, wr.Proxies) {
		c.list(n)
	}
	for _, r := range wr.Records {
		if s := &c.shards[r.Shard]; s.phase == writing && s.token == r.Token {
			c.traceShard(TraceWritten, r.Shard, r.Home, r.Token, "")
			c.host(r.Shard)
		}
	}
}

// retryWrites queues the records of unknown outcome again, except superseded ones.
func (c *Core) retryWrites() {
	w := &c.writes
	if w.retry == 0 || c.now.Before(w.retry) {
		return
	}
	again := w.again
	w.again, w.retry = nil, 0
	for _, wr := range again {
		for _, r := range wr.Records {
			if c.shards[r.Shard].token == r.Token && c.shards[r.Shard].home == r.Home {
				w.records = append(w.records, r)
			}
		}
		for _, n := range wr.Regions {
			w.regions = addOnce(w.regions, n)
		}
		for _, n := range wr.Proxies {
			w.proxies = addOnce(w.proxies, n)
			w.urgent = true
		}
		for _, n := range wr.Gone {
			c.noteGone(n)
		}
	}
}
