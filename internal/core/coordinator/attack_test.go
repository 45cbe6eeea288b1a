package coordinator

import (
	"math"
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// forgedReports are messages of a member with a forged term in the head, or forged tokens.
func forgedReports(own protocol.Head, far protocol.Token) map[string]protocol.Message {
	h := own
	h.Term = far.Term
	st := []protocol.ShardToken{{Shard: 1, Token: far}}
	return map[string]protocol.Message{
		"Register":     &protocol.Register{Head: h, Hosts: true, Settings: protocol.Settings{Shards: 4}},
		"GetHome":      &protocol.GetHome{Head: h, Hosts: true, Settings: protocol.Settings{Shards: 4}, Shards: []protocol.ShardID{1}},
		"Refused":      &protocol.Refused{Head: h},
		"Seen":         &protocol.Seen{Head: h},
		"Drain":        &protocol.Drain{Head: h},
		"ShardsHosted": &protocol.ShardsHosted{Head: own, Shards: st},
		"BeginAck":     &protocol.BeginAck{Head: own, Shards: st},
		"Stopped":      &protocol.Stopped{Head: own, Shards: st},
		"claim": &protocol.CensusReport{Head: own, Hosts: true, Settings: protocol.Settings{Shards: 4},
			Claims: []protocol.Claim{{Shard: 1, Token: far, State: protocol.ClaimHosted}}},
		"held": &protocol.CensusReport{Head: own, Hosts: true, Settings: protocol.Settings{Shards: 4},
			Held: []protocol.Held{{Shard: 1, Token: far, From: 2}}},
	}
}

// allocates reports whether the core places a shard when a region asks for it.
func (b *bench) allocates() bool {
	b.t.Helper()
	b.settle(nil, nil).ask(2, 1)
	return len(find[Write](b)) == 1
}

// TestAttackTermsBeyondTheView: a message of a member with a term or token above every
// view takes no office away, and the type goes on.
func TestAttackTermsBeyondTheView(t *testing.T) {
	last := protocol.Token{Term: math.MaxUint64, Seq: math.MaxUint64}
	for name := range forgedReports(protocol.Head{}, last) {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Config{Shards: 4}, 1, 2, 3)
			term := b.c.Term()
			b.receive(3, forgedReports(b.head(), last)[name])
			if !b.traced(TraceFar) {
				t.Error("it is not refused")
			}
			if b.c.Term() != term || !b.allocates() {
				t.Errorf("term %v, then %v: the type is frozen", term, b.c.Term())
			}
			// Nor is the next term lost.
			b.epoch = gossip.FirstEpoch(b.epoch.Generation() + 1)
			if b.view(1, 2, 3); b.c.Term() != b.epoch || !b.allocates() {
				t.Errorf("view %v, term %v: the type is frozen", b.epoch, b.c.Term())
			}
		})
	}
}

// TestAttackFarRecordsAndFences: what a compromised member has put into the replicated
// records, or answers for a fence, takes no office away for ever.
func TestAttackFarRecordsAndFences(t *testing.T) {
	goesOn := func(t *testing.T, b *bench) {
		t.Helper()
		b.epoch = gossip.FirstEpoch(b.epoch.Generation() + 1)
		if b.view(1, 2, 3); b.c.Term() != b.epoch || !b.allocates() {
			t.Errorf("view %v, term %v: the type is frozen", b.epoch, b.c.Term())
		}
	}
	record := func(b *bench, term gossip.Epoch) Event {
		return ReadDone{ID: b.c.census.readID, Result: OK, Records: []protocol.Record{{Shard: 1, Home: 3, Token: protocol.Token{Term: term, Seq: 1}}}}
	}
	const last = gossip.Epoch(math.MaxUint64)
	for name, ev := range map[string]func(b *bench) Event{
		"record":              func(b *bench) Event { return record(b, last) },
		"fence of the read":   func(b *bench) Event { return ReadDone{ID: b.c.census.readID, Result: Fenced, Higher: last} },
		"fence of a write":    func(b *bench) Event { return WriteDone{ID: b.c.writes.flying[0].ID, Result: Fenced, Higher: last} },
		"what the node obeys": func(b *bench) Event { return Standing{View: b.epoch, Term: last} },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Config{Shards: 4}, 1, 2, 3)
			if name == "fence of a write" {
				b.settle(nil, nil).ask(2, 3)
			}
			b.step(ev(b))
			if !b.traced(TraceFar) {
				t.Error("it is not refused")
			}
			goesOn(t, b)
		})
	}
	// A record of a term that a view may have soon is ignored, and ends no office.
	for name, by := range map[string]gossip.Epoch{"the next view": 1, "a near generation": 1000 << 32} {
		t.Run("record of "+name, func(t *testing.T) {
			b := newBench(t, Config{Shards: 4}, 1, 2, 3)
			b.step(record(b, b.epoch+by))
			if !b.traced(TraceStale) || b.c.Term() != b.epoch {
				t.Errorf("it is not refused: term %v", b.c.Term())
			}
			if !b.allocates() {
				t.Error("the type is frozen")
			}
			goesOn(t, b)
		})
	}
	// A fence that a later view may well have set counts, until that view is here.
	b := newBench(t, Config{Shards: 4}, 1, 2, 3)
	next := b.epoch + 1
	b.step(ReadDone{ID: b.c.census.readID, Result: Fenced, Higher: next})
	if b.c.Term() != 0 {
		t.Error("in office although a later view has another")
	}
	if b.view(1, 2, 3); b.c.Term() != next {
		t.Errorf("term %v in view %v", b.c.Term(), next)
	}
}

// TestAttackTokensThatWereNotGivenOut: a message of a member, or a record, with a token of
// the present term that the coordinator has not drawn does not keep a shard from getting one.
func TestAttackTokensThatWereNotGivenOut(t *testing.T) {
	hold := func(t *testing.T, b *bench) {
		if !b.traced(TraceFar) {
			t.Error("it is not refused")
		}
		b.settle(nil, nil).ask(2, 1)
		w := find[Write](b)
		if len(w) != 1 || len(w[0].Records) != 1 || w[0].Records[0].Token.Seq > 1000 {
			t.Errorf("shard 1 gets no token of its own: %+v", w)
		}
	}
	for name := range forgedReports(protocol.Head{}, protocol.Token{}) {
		if slices.Contains([]string{"Register", "GetHome", "Refused", "Seen", "Drain"}, name) {
			continue // they name a term only
		}
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Config{Shards: 4}, 1, 2, 3)
			b.receive(3, forgedReports(b.head(), protocol.Token{Term: b.c.Term(), Seq: math.MaxUint64})[name])
			hold(t, b)
		})
	}
	t.Run("record", func(t *testing.T) {
		b := newBench(t, Config{Shards: 4}, 1, 2, 3)
		b.step(ReadDone{ID: b.c.census.readID, Result: OK, Records: []protocol.Record{{Shard: 1, Home: 3, Token: protocol.Token{Term: b.c.Term(), Seq: math.MaxUint64}}}})
		hold(t, b)
	})
}
