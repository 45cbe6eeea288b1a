package metrics

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/internal/membership"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/sharding"
)

// experienced is a node with one type that coordinates it, and on which every event has occurred
// that the exporter observes.
type experienced struct {
	fixed
	of sharding.Stats
}

func (e experienced) Membership() (self gossip.Node, stats membership.Stats, ok bool) {
	return self, stats, true
}
func (e experienced) Transport() transport.Transport { return counting{} }
func (e experienced) Types() []sharding.Stats        { return []sharding.Stats{e.of} }
func (e experienced) Frames() figures.Frames         { return figures.Frames{} }
func (e experienced) Replicators() map[string]figures.Replicator {
	return map[string]figures.Replicator{"": {}, "sharding/all": {Keys: 1}}
}

// counting is a transport that has counters, and nothing else.
type counting struct{ transport.Transport }

func (counting) Counters() *transport.Counters { return &transport.Counters{} }

// observeAll reports one event of each kind to the histograms of an exporter.
func observeAll(e *Exporter, typ string) {
	o := observer{&e.hist}
	for route := figures.RouteLocal; route < figures.Routes; route++ {
		for _, err := range []error{nil, &sharding.HandlerError{}, sharding.ErrMailboxFull, sharding.ErrMoved, context.Canceled, context.DeadlineExceeded, errors.New("x")} {
			o.AskDone(typ, route, time.Millisecond, err)
		}
	}
	o.HomeResolved(typ, time.Millisecond)
	o.HandlerDone(typ, time.Millisecond)
	for _, cause := range []string{"failure", "takeover", "handoff"} {
		for _, phase := range []string{"stop", "write", "start", "total"} {
			if phase != "stop" || cause == "handoff" {
				o.ShardMoved(typ, cause, phase, time.Millisecond)
			}
		}
	}
	for cause := gossip.CauseDead; cause <= gossip.CauseAssumed; cause++ {
		e.hist.observeRemoval(cause, time.Millisecond)
	}
	records := e.hist.observeReplicator("sharding/all")
	records.Done("get", "majority", "ok", time.Millisecond)
	records.Done("update", "majority", "ok", time.Millisecond)
}

// countSeries returns how many series a server stores that scrapes e: as native histograms, and
// with classic buckets.
func countSeries(t *testing.T, e *Exporter) (native, classic int) {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(e)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			native, classic = native+1, classic+1
			if m.Histogram != nil {
				classic += len(m.Histogram.GetBucket()) + 2 // +Inf, sum and count
			}
		}
	}
	return native, classic
}

// The bounds of docs/METRICS.md hold whatever happens to a node, but for the families that it marks
// as there from the first event. The number of series of a live node depends on what has happened.
func TestTheNumberOfSeriesIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		of              sharding.Stats
		native, classic int
	}{
		"one type":              {sharding.Stats{Type: "x", Coordinating: true}, 200, 600},
		"with replicated state": {sharding.Stats{Type: "x", Coordinating: true, KeepsState: true}, 200, 600},
	} {
		e := connectedTo(t, experienced{of: c.of})
		observeAll(e, "x")
		if c.of.KeepsState {
			observer{&e.hist}.StateKept("x", time.Millisecond)
		}
		native, classic := countSeries(t, e)
		t.Logf("%s: at most %d series, %d with classic buckets", name, native, classic)
		if native > c.native || classic > c.classic {
			t.Errorf("%s: %d series, want at most %d; %d with classic buckets, want at most %d", name, native, c.native, classic, c.classic)
		}
	}
}

// A rate of failed asks must be 0 before the first one, not absent.
func TestOutcomesOfATypeAreThereBeforeItsFirstAsk(t *testing.T) {
	e := connectedTo(t, experienced{of: sharding.Stats{Type: "x"}})
	reg := prometheus.NewRegistry()
	reg.MustRegister(e)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "peerage_client_requests_total" {
			if len(f.GetMetric()) != len(outcomes) {
				t.Errorf("%d series, want one for each of %q", len(f.GetMetric()), outcomes)
			}
			return
		}
	}
	t.Error("peerage_client_requests_total has no series")
}
