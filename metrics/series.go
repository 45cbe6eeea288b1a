package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/internal/membership"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/sharding"
)

const namespace = "peerage"

// source supplies the values of a scrape. Its methods are called at every scrape, from any
// goroutine.
type source interface {
	// Membership returns the current incarnation and its figures. ok is false while there is
	// none.
	Membership() (self gossip.Node, stats membership.Stats, ok bool)
	// Transport returns the transport of the current incarnation, nil while there is none.
	Transport() transport.Transport
	// Replicators returns the figures of every role's replicator.
	Replicators() map[string]figures.Replicator
	// Types returns the figures of every entity type, sorted by name.
	Types() []sharding.Stats
	// Frames returns the frame counts of sharding, summed over all types.
	Frames() figures.Frames
	// EventsMissed returns how many node events were dropped because a subscriber was too
	// slow.
	EventsMissed() uint64
	// EntitiesLost returns how many entities stopped because their cluster yielded to
	// another with the same name.
	EntitiesLost() uint64
	// FilesSetAside returns how many files of durable keys were set aside because they
	// belonged to another cluster with the same name.
	FilesSetAside() uint64
	// Ready returns the result that /readyz serves.
	Ready() bool
}

// series is one metric family whose values are read from the source.
type series struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(s *scrape, emit emitter)
	// rare is set if series of the family appear with their first event.
	rare bool
}

// rare returns s without the series that are 0. Its families count what most nodes never see, many
// of them by reasons, and no alert reads them: a family at rest costs the Prometheus server nothing.
func rare(s series) series {
	read := s.read
	s.read = func(sc *scrape, emit emitter) {
		read(sc, func(value float64, labels ...string) {
			if value != 0 {
				emit(value, labels...)
			}
		})
	}
	s.rare = true
	return s
}

// emitter emits one value; labels are in the order of the family's label names.
type emitter func(value float64, labels ...string)

// scrape holds the values that one scrape reads from the source, once for all families.
type scrape struct {
	ready       bool
	missed      uint64
	lost, aside uint64
	frames      figures.Frames
	// running is set while there is an incarnation.
	running     bool
	self        gossip.Node
	gossip      membership.Stats
	transport   transport.Transport
	replicators map[string]figures.Replicator
	types       []sharding.Stats
}

// newScrape reads the source.
func newScrape(from source) *scrape {
	s := &scrape{
		ready: from.Ready(), transport: from.Transport(), replicators: from.Replicators(), types: from.Types(),
		frames: from.Frames(), missed: from.EventsMissed(), lost: from.EntitiesLost(), aside: from.FilesSetAside(),
	}
	s.self, s.gossip, s.running = from.Membership()
	return s
}

func counter(name, help string, read func(*scrape, emitter), labels ...string) series {
	return newSeries(prometheus.CounterValue, name, help, read, labels)
}

func gauge(name, help string, read func(*scrape, emitter), labels ...string) series {
	return newSeries(prometheus.GaugeValue, name, help, read, labels)
}

func newSeries(kind prometheus.ValueType, name, help string, read func(*scrape, emitter), labels []string) series {
	desc := prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
	return series{desc: desc, kind: kind, read: read}
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
