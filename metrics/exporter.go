package metrics

import (
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/peerage-go/peerage/internal/figures"
)

// Exporter is the prometheus.Collector of one node. Package peerage makes it, connects it to
// the layers of the node, and registers it with Config.Registerer. An Exporter that was not
// connected has no series except the histograms. All methods are safe for concurrent use.
type Exporter struct {
	from   source
	series []series
	hist   histograms
}

// New returns an Exporter that is not connected.
func New() *Exporter {
	return &Exporter{hist: newHistograms(), series: slices.Concat(
		clusterSeries(), contestSeries(), transportSeries(), ddataSeries(),
		shardingSeries(), entitySeries(), stateSeries(), reliableSeries(),
	)}
}

// Internal gives package peerage the functions that connect the Exporter to a node. Their
// types are internal, so it does nothing for applications.
func (e *Exporter) Internal(target any) (found bool) {
	switch t := target.(type) {
	case *func(from any) error:
		*t = e.setSource
	case *figures.ShardingObserver:
		*t = observer{&e.hist}
	case *func(role string) figures.ReplicatorObserver:
		*t = e.hist.observeReplicator
	case *figures.MembershipObserver:
		*t = e.hist.observeRemoval
	case *func() figures.Durations:
		*t = e.hist.countDurations
	default:
		return false
	}
	return true
}

// setSource sets the source. It is called before the Exporter is registered.
func (e *Exporter) setSource(from any) error {
	s, ok := from.(source)
	if !ok {
		return fmt.Errorf("metrics: %T lacks methods of a source", from)
	}
	e.from = s
	return nil
}

// Describe implements prometheus.Collector.
func (e *Exporter) Describe(out chan<- *prometheus.Desc) {
	for _, s := range e.series {
		out <- s.desc
	}
	e.hist.describeAll(out)
}

// Collect implements prometheus.Collector.
func (e *Exporter) Collect(out chan<- prometheus.Metric) {
	if e.from == nil {
		e.hist.collectAll(out)
		return
	}
	s := newScrape(e.from)
	for i := range s.types {
		e.hist.createOutcomes(s.types[i].Type)
	}
	e.hist.collectAll(out)
	for _, fam := range e.series {
		fam.read(s, func(value float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(fam.desc, fam.kind, value, labels...)
		})
	}
}
