package peerage

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/peerage-go/peerage/gossip"
)

// A subscriber that never returns delays neither other subscribers nor Close, and its
// dropped events are exported as a metric.
func TestMissedEventsAreExported(t *testing.T) {
	registry := prometheus.NewRegistry()
	n, err := New(Config{Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	inside, stuck := make(chan struct{}, 10), make(chan struct{})
	defer close(stuck)
	n.Subscribe(func(gossip.Event) {
		inside <- struct{}{}
		<-stuck
	})
	n.feed.Put(gossip.LeaseChanged{})
	<-inside
	for range 10_000 {
		n.feed.Put(gossip.LeaseChanged{})
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	missed := -1.0
	for _, f := range families {
		if f.GetName() == "peerage_cluster_events_missed_total" {
			missed = f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	if missed != 10_000 {
		t.Errorf("%v of 10000 events count as missed", missed)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}
