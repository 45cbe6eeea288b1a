package metrics

import (
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
	if !slices.Equal(absent, shownByStatusOnly) {
		t.Errorf("without a series: %q, want %q", absent, shownByStatusOnly)
	}
}

// shownByStatusOnly are the figures that only a replicator's status page has.
var shownByStatusOnly = []string{
	"DeltasResent", "Descents", "DurableWrites", "Expired", "Floor", "FloorGaps", "FramesReceived", "FramesSent",
	"LanesDismissed", "LogEntries", "PartsSent", "Peers", "Pruned", "Reads", "Refused", "Rounds", "Subscribers",
	"Transfers", "Unlevel", "Updates",
}
