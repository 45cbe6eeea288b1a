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
	*env
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
	// unknown are the writes of these records.
	unknown []Write
}

// noteRegistered adds a region or proxy to the OR-sets, urgently if homes wait for it.
func (w *writes) noteRegistered(n gossip.NodeID, hosts, urgent bool) {
	if hosts {
		w.regions, w.proxies = addOnce(w.regions, n), without(w.proxies, n)
	} else {
		w.regions, w.proxies = without(w.regions, n), addOnce(w.proxies, n)
	}
	w.urgent = w.urgent || urgent
}

// noteGone removes a former member from the OR-sets.
func (w *writes) noteGone(n gossip.NodeID) {
	w.regions, w.proxies, w.gone = without(w.regions, n), without(w.proxies, n), addOnce(w.gone, n)
}

func addOnce(nodes []gossip.NodeID, n gossip.NodeID) []gossip.NodeID {
	if slices.Contains(nodes, n) {
		return nodes
	}
	return append(nodes, n)
}

// sendRecords sends the collected records, in as few writes as the limits allow.
func (w *writes) sendRecords() {
	w.records = append(w.records, w.rewrite...)
	w.rewrite = nil
	for len(w.records) > 0 && len(w.flying) < writesMax {
		n := min(len(w.records), recordsMax)
		batch := w.records[:n:n]
		if w.records = w.records[n:]; len(w.records) == 0 {
			w.records = nil
		}
		w.issueWrite(batch)
	}
	if w.urgent {
		w.flushSets()
	}
}

// flushSets writes the OR-sets' changes if no record has taken them along.
func (w *writes) flushSets() {
	if len(w.regions)+len(w.proxies)+len(w.gone) > 0 && len(w.flying) < writesMax {
		w.issueWrite(nil)
	}
}

func (w *writes) issueWrite(records []protocol.Record) {
	w.seq++
	wr := Write{ID: w.seq, Term: w.term, Records: records, Regions: w.regions, Proxies: w.proxies, Gone: w.gone}
	w.regions, w.proxies, w.gone, w.urgent = nil, nil, nil, false
	w.flying = append(w.flying, wr)
	w.out.Do = append(w.out.Do, wr)
}

// takeInFlight removes and returns the write in flight with this ID, if there is one.
func (w *writes) takeInFlight(id uint64) (wr Write, ok bool) {
	i := slices.IndexFunc(w.flying, func(wr Write) bool { return wr.ID == id })
	if i < 0 {
		return wr, false
	}
	wr = w.flying[i]
	w.flying = slices.Delete(w.flying, i, i+1)
	return wr, true
}

// retryLater keeps a write of unknown outcome for repeatUnknown.
func (w *writes) retryLater(wr Write) {
	w.unknown = append(w.unknown, wr)
	if w.retry == 0 {
		w.retry = w.now.Add(w.cfg.RetryWrite)
	}
}

// repeatUnknown queues the records of unknown outcome again, except superseded ones.
func (w *writes) repeatUnknown(current func(protocol.Record) bool) {
	unknown := w.unknown
	w.unknown, w.retry = nil, 0
	for _, wr := range unknown {
		for _, r := range wr.Records {
			if current(r) {
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
			w.noteGone(n)
		}
	}
}
