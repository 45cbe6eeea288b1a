package metrics

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/peerage-go/peerage/internal/figures"
)

// numbered is a source whose figures are all different.
type numbered struct {
	fixed
	replicator figures.Replicator
	frames     figures.Frames
}

func (n *numbered) Replicators() map[string]figures.Replicator {
	return map[string]figures.Replicator{"": n.replicator}
}
func (n *numbered) Frames() figures.Frames { return n.frames }

// numberFields sets the numbers of a struct to first, first+1 and so on, and returns the
// fields by their values.
func numberFields(s reflect.Value, first int) map[float64]string {
	fields := map[float64]string{}
	for i := range s.NumField() {
		v := first + i
		switch f := s.Field(i); {
		case f.CanInt():
			f.SetInt(int64(v))
		case f.CanUint():
			f.SetUint(uint64(v))
		default:
			continue
		}
		fields[float64(v)] = s.Type().Field(i).Name
	}
	return fields
}

// TestEveryFigureHasASeries: a figure that a layer counts is exported, each by one series,
// apart from those that only Status shows.
func TestEveryFigureHasASeries(t *testing.T) {
	var src numbered
	fields := numberFields(reflect.ValueOf(&src.replicator).Elem(), 100_000)
	for v, name := range numberFields(reflect.ValueOf(&src.frames).Elem(), 200_000) {
		fields[v] = name
	}
	src.replicator.Durable = true
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(connectedTo(t, &src))
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seriesOf := map[string][]string{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			v := m.GetGauge().GetValue() + m.GetCounter().GetValue()
			if name, ok := fields[v]; ok {
				seriesOf[name] = append(seriesOf[name], f.GetName())
			}
		}
	}
	var absent []string
	for _, name := range fields {
		switch n := len(seriesOf[name]); {
		case n == 0:
			absent = append(absent, name)
		case n > 1:
			t.Errorf("%s has several series: %v", name, seriesOf[name])
		}
	}
	slices.Sort(absent)
	if want := slices.Sorted(maps.Keys(shownByStatusOnly)); !slices.Equal(absent, want) {
		t.Errorf("without a series: %q, want %q", absent, want)
	}
}

// shownByStatusOnly are the figures that only a replicator's status page has, with the reason.
var shownByStatusOnly = map[string]string{
	"Updates":        "ddata_operations_total counts writes, by level and result",
	"Reads":          "ddata_operations_total counts reads, by level and result",
	"FramesSent":     "ddata_bytes_total has the load; the number of frames changes nothing that an operator sets",
	"FramesReceived": "as FramesSent",
	"LogEntries":     "ddata_replication_lag and ddata_log_bytes show a log that grows",
	"Peers":          "cluster_members has the members",
	"Subscribers":    "the application makes subscriptions, and only its author can end them",
	"Descents":       "ddata_full_syncs_total counts what such an exchange sends",
	"LanesDismissed": "an exchange goes on with its other helpers",
	"PartsSent":      "ddata_full_syncs_total counts the values, whole or in parts",
	"Transfers":      "ddata_bytes_total has the load of large messages",
	"Floor":          "the number of a round, equal on all replicas: it has no good or bad value",
	"Rounds":         "ddata_pruned_total shows whether garbage collection goes on",
	"Unlevel":        "the peer fetches the missing rounds, and sends again",
}
