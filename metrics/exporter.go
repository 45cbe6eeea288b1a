package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/replicator"
	"github.com/peerage-go/peerage/sharding"
)

const namespace = "peerage"

// Source supplies the values of a scrape. Its functions are called at every scrape, from
// any goroutine.
type Source struct {
	// Gossip returns the current incarnation and its statistics. ok is false while there is
	// none.
	Gossip func() (self gossip.Node, stats gossip.Stats, ok bool)
	// Transport returns what carries the frames of the current incarnation, nil while there is
	// none. Package peerage sets it: its counters have internal types.
	Transport func() any
	// Replicators returns the statistics of every role's replicator.
	Replicators func() map[string]replicator.Stats
	// Types returns the statistics of every entity type, sorted by name.
	Types func() []sharding.Stats
	// Frames returns the frame counts of sharding, summed over all types.
	Frames func() sharding.FrameStats
	// EventsMissed returns how many node events were dropped because a subscriber was too
	// slow.
	EventsMissed func() uint64
	// EntitiesLost returns how many entities stopped because their cluster yielded to
	// another with the same name.
	EntitiesLost func() uint64
	// FilesSetAside returns how many files of durable keys were set aside because they
	// belonged to another cluster with the same name.
	FilesSetAside func() uint64
	// Ready returns the result that /readyz serves.
	Ready func() bool
}

// Exporter is a prometheus.Collector over a Source. For the histograms it also observes
// single events of the layers above gossip. All methods are safe for concurrent use.
type Exporter struct {
	source Source
	series []series
	hist   histograms
}

// series is one metric family whose values are read from the source.
type series struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(s *scrape, emit emitter)
}

// emitter emits one value; labels are in the order of the family's label names.
type emitter func(value float64, labels ...string)

// scrape holds the values that one scrape reads from the source, once for all families.
type scrape struct {
	ready       bool
	missed      uint64
	lost, aside uint64
	frames      sharding.FrameStats
	// running is set while there is an incarnation.
	running     bool
	self        gossip.Node
	gossip      gossip.Stats
	transport   any
	replicators map[string]replicator.Stats
	types       []sharding.Stats
}

// New returns an Exporter. Register it with a prometheus.Registerer.
func New(source Source) *Exporter {
	e := &Exporter{source: source, hist: newHistograms()}
	e.series = append(append(e.series, clusterSeries()...), contestSeries()...)
	e.series = append(e.series, transportSeries()...)
	e.series = append(e.series, ddataSeries()...)
	e.series = append(e.series, shardingSeries()...)
	e.series = append(e.series, entitySeries()...)
	e.series = append(e.series, stateSeries()...)
	e.series = append(e.series, reliableSeries()...)
	return e
}

func counter(name, help string, read func(*scrape, emitter), labels ...string) series {
	return newSeries(prometheus.CounterValue, name, help, read, labels)
}

func gauge(name, help string, read func(*scrape, emitter), labels ...string) series {
	return newSeries(prometheus.GaugeValue, name, help, read, labels)
}

func newSeries(kind prometheus.ValueType, name, help string, read func(*scrape, emitter), labels []string) series {
	return series{prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil), kind, read}
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
	s := &scrape{
		ready: e.source.Ready(), transport: e.source.Transport(),
		replicators: e.source.Replicators(), types: e.source.Types(), frames: e.source.Frames(), missed: e.source.EventsMissed(), lost: e.source.EntitiesLost(),
		aside: e.source.FilesSetAside(),
	}
	s.self, s.gossip, s.running = e.source.Gossip()
	for _, fam := range e.series {
		fam.read(s, func(value float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(fam.desc, fam.kind, value, labels...)
		})
	}
	e.hist.collectAll(out)
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
