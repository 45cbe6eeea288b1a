package harness

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics is one answer of a node's /metrics, by the names of the families.
type Metrics map[string]*dto.MetricFamily

// FetchMetrics returns what the node whose HTTP API is at addr exports now.
func FetchMetrics(ctx context.Context, addr string) (Metrics, error) {
	body, err := Fetch(ctx, http.MethodGet, "http://"+addr+"/metrics")
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("the metrics of %s: %w", addr, err)
	}
	return families, nil
}

// Sum adds up the gauges and counters of a family that have all of these labels; 0 for a
// family that the node does not export.
func (m Metrics) Sum(family string, labels ...string) (sum float64) {
	for _, s := range m[family].GetMetric() {
		if hasLabels(s, labels) {
			sum += s.GetGauge().GetValue() + s.GetCounter().GetValue() + s.GetUntyped().GetValue()
		}
	}
	return sum
}

// hasLabels reports whether a series has all labels of a list of names and values in turn.
func hasLabels(s *dto.Metric, labels []string) bool {
	found := 0
	for i := 0; i+1 < len(labels); i += 2 {
		for _, l := range s.GetLabel() {
			if l.GetName() == labels[i] && l.GetValue() == labels[i+1] {
				found++
			}
		}
	}
	return found == len(labels)/2
}

// Series returns the number of series that the node exports.
func (m Metrics) Series() (n int) {
	for _, f := range m { // order-free: a sum
		n += len(f.GetMetric())
	}
	return n
}
