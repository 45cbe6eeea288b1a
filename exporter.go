package peerage

import (
	"fmt"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/door"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/internal/membership"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/metrics"
	"github.com/peerage-go/peerage/sharding"
)

// exporter connects the node's layers to its metrics, if it has a Registerer. Without one,
// only node is set, and nothing is observed. Its exported methods are those that package
// metrics calls at a scrape.
type exporter struct {
	node *Node
	all  *metrics.Exporter
	// sharding observes single asks and handlers.
	sharding figures.ShardingObserver
	// removal observes how long removals of members take.
	removal figures.MembershipObserver
	// replicator returns the observer of a replicator by its metric label.
	replicator func(label string) figures.ReplicatorObserver
	// countDurations returns the durations of ended asks and writes.
	countDurations func() figures.Durations
}

func newExporter(n *Node) (*exporter, error) {
	e := &exporter{
		node: n, replicator: func(string) figures.ReplicatorObserver { return figures.ReplicatorObserver{} },
		countDurations: func() figures.Durations { return figures.Durations{} },
	}
	if n.cfg.Registerer == nil {
		return e, nil
	}
	e.all = metrics.New()
	connect, err := door.Open[func(from any) error](e.all)
	if err != nil {
		return nil, err
	}
	if e.sharding, err = door.Open[figures.ShardingObserver](e.all); err != nil {
		return nil, err
	}
	if e.removal, err = door.Open[figures.MembershipObserver](e.all); err != nil {
		return nil, err
	}
	if e.replicator, err = door.Open[func(label string) figures.ReplicatorObserver](e.all); err != nil {
		return nil, err
	}
	if e.countDurations, err = door.Open[func() figures.Durations](e.all); err != nil {
		return nil, err
	}
	return e, connect(e)
}

func (e *exporter) register() error {
	if e.all == nil {
		return nil
	}
	if err := e.node.cfg.Registerer.Register(e.all); err != nil {
		return fmt.Errorf("peerage: Registerer rejects the metrics (is another node registered with it?): %w", err)
	}
	return nil
}

func (e *exporter) unregister() {
	if e.all != nil {
		e.node.cfg.Registerer.Unregister(e.all)
	}
}

func (e *exporter) Membership() (self gossip.Node, stats membership.Stats, ok bool) {
	if s := e.node.stack.Load(); s != nil {
		return s.gossip.Self(), s.gossip.Stats(), true
	}
	return self, stats, false
}

func (e *exporter) Transport() transport.Transport {
	if s := e.node.stack.Load(); s != nil {
		return s.gossip.Transport()
	}
	return nil
}

func (e *exporter) Replicators() map[string]figures.Replicator {
	s := e.node.stack.Load()
	if s == nil {
		return nil
	}
	out := make(map[string]figures.Replicator, 2*len(s.replicators))
	for role, r := range s.replicators {
		out[role] = r.Stats()
	}
	for role, r := range s.records {
		out[recordsLabel(role)] = r.Stats()
	}
	return out
}

func (e *exporter) Types() []sharding.Stats {
	var out []sharding.Stats
	for _, name := range e.node.registry.Types() {
		if st, ok := e.node.registry.Stats(name); ok {
			out = append(out, st)
		}
	}
	return out
}

func (e *exporter) Frames() figures.Frames {
	if s := e.node.stack.Load(); s != nil {
		return s.sharding.Frames()
	}
	return figures.Frames{}
}

func (e *exporter) EventsMissed() uint64  { return e.node.feed.Missed() }
func (e *exporter) EntitiesLost() uint64  { return e.node.entitiesLost.Load() }
func (e *exporter) FilesSetAside() uint64 { return e.node.setAside.Load() }
func (e *exporter) Ready() bool           { return e.node.Ready() }
