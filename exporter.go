package peerage

import (
	"fmt"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/metrics"
	"github.com/peerage-go/peerage/replicator"
	"github.com/peerage-go/peerage/sharding"
)

// exporter connects the node's layers to its metrics, if it has a Registerer.
type exporter struct {
	node *Node
	all  *metrics.Exporter // nil without a Registerer
}

func newExporter(n *Node) *exporter {
	e := &exporter{node: n}
	if n.cfg.Registerer != nil {
		e.all = metrics.New(metrics.Source{
			Gossip: e.gossip, Transport: e.transport, Replicators: e.replicators, Types: e.types, Frames: e.frames,
			EventsMissed: n.feed.Missed, Ready: n.Ready, EntitiesLost: n.entitiesLost.Load, FilesSetAside: n.setAside.Load,
		})
	}
	return e
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

func (e *exporter) gossip() (self gossip.Node, stats gossip.Stats, ok bool) {
	if s := e.node.stack.Load(); s != nil {
		return s.gossip.Self(), s.gossip.Stats(), true
	}
	return self, stats, false
}

func (e *exporter) transport() any {
	if s := e.node.stack.Load(); s != nil {
		return s.gossip.Transport()
	}
	return nil
}

func (e *exporter) replicators() map[string]replicator.Stats {
	s := e.node.stack.Load()
	if s == nil {
		return nil
	}
	out := make(map[string]replicator.Stats, 2*len(s.replicators))
	for role, r := range s.replicators {
		out[role] = r.Stats()
	}
	for role, r := range s.records {
		out[recordsLabel(role)] = r.Stats()
	}
	return out
}

func (e *exporter) types() []sharding.Stats {
	var out []sharding.Stats
	for _, name := range e.node.registry.Types() {
		if st, ok := e.node.registry.Stats(name); ok {
			out = append(out, st)
		}
	}
	return out
}

func (e *exporter) frames() sharding.FrameStats {
	if s := e.node.stack.Load(); s != nil {
		return s.sharding.Frames()
	}
	return sharding.FrameStats{}
}

// shardingObserver returns the observer of single asks, nil if there is none.
func (e *exporter) shardingObserver() sharding.Observer {
	if e.all == nil {
		return nil
	}
	return e.all
}

func (e *exporter) replicatorObserver(role string) replicator.Observer {
	if e.all == nil {
		return replicator.Observer{}
	}
	return e.all.Replicator(role)
}
