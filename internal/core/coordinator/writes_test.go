package coordinator

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// newWrites returns writes in a term, and the effects that they cause.
func newWrites() (*writes, *Effects) {
	out := &Effects{}
	return &writes{env: &env{cfg: Config{RetryWrite: time.Second}, now: 1, out: out, term: 1}}, out
}

// Records share writes of at most recordsMax, of which at most writesMax are in flight.
func TestWritesAreBounded(t *testing.T) {
	w, out := newWrites()
	const records = recordsMax*writesMax + 1
	for id := range records {
		w.records = append(w.records, protocol.Record{Shard: protocol.ShardID(id)})
	}
	w.sendRecords()
	if len(out.Do) != writesMax || len(w.records) != 1 {
		t.Fatalf("%d writes, %d records left", len(out.Do), len(w.records))
	}
	for _, do := range out.Do {
		if n := len(do.(Write).Records); n != recordsMax {
			t.Errorf("a write of %d records", n)
		}
	}
	if _, ok := w.takeInFlight(out.Do[0].(Write).ID); !ok {
		t.Error("a write in flight was not found")
	}
	if w.sendRecords(); len(out.Do) != writesMax+1 || len(w.records) != 0 {
		t.Errorf("%d writes after one has ended, %d records left", len(out.Do), len(w.records))
	}
}

// A write of unknown outcome is repeated without the records that are superseded by now.
func TestWritesOfUnknownOutcomeAreRepeated(t *testing.T) {
	w, out := newWrites()
	old, present := protocol.Record{Shard: 1, Home: 7}, protocol.Record{Shard: 2, Home: 8}
	w.records = []protocol.Record{old, present}
	w.noteRegistered(9, false, true)
	w.noteRegistered(7, true, false)
	w.noteGone(6)
	w.sendRecords()
	first, ok := w.takeInFlight(out.Do[0].(Write).ID)
	if !ok || len(w.flying) != 0 {
		t.Fatal("the write was not in flight")
	}
	w.retryLater(first)
	if w.retry != clock.Instant(1).Add(time.Second) {
		t.Errorf("repeated at %v", w.retry)
	}
	w.repeatUnknown(func(r protocol.Record) bool { return r == present })
	w.sendRecords()
	again := out.Do[1].(Write)
	if !slices.Equal(again.Records, []protocol.Record{present}) || !slices.Equal(again.Proxies, []gossip.NodeID{9}) {
		t.Errorf("repeated %+v", again)
	}
	if !slices.Equal(again.Regions, []gossip.NodeID{7}) || !slices.Equal(again.Gone, []gossip.NodeID{6}) {
		t.Errorf("repeated the regions %v and the departures %v, want 7 and 6", again.Regions, again.Gone)
	}
	if _, ok := w.takeInFlight(first.ID); ok {
		t.Error("the first write ends twice")
	}
}

// The newest change of a node counts.
func TestWritesOfSets(t *testing.T) {
	w, out := newWrites()
	w.noteRegistered(1, true, false)
	w.noteRegistered(2, true, false)
	w.noteRegistered(1, false, false)
	w.noteGone(2)
	if w.sendRecords(); len(out.Do) != 0 {
		t.Error("sets are written before they are urgent")
	}
	w.flushSets()
	set := out.Do[0].(Write)
	if len(set.Regions) != 0 || !slices.Equal(set.Proxies, []gossip.NodeID{1}) || !slices.Equal(set.Gone, []gossip.NodeID{2}) {
		t.Errorf("wrote %+v", set)
	}
}

// TestSetsWaitForAWriteToEnd checks that changes of the sets add no write to as many as may be in flight.
func TestSetsWaitForAWriteToEnd(t *testing.T) {
	for flying, want := range map[int]int{writesMax - 1: 1, writesMax: 0} {
		w, out := newWrites()
		w.flying = make([]Write, flying)
		w.noteRegistered(9, false, true)
		if w.sendRecords(); len(out.Do) != want {
			t.Errorf("%d writes in flight: %d more, want %d", flying, len(out.Do), want)
		}
	}
}
