package peerage

import (
	"context"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/gossip/view"
)

// What a node does when its cluster yields to another one of the same name: entities
// stop in order, and the next incarnation joins the other cluster; origin.go says what
// becomes of durable keys. Which cluster yields is decided in package view.

// dissolvePatience is how long entities may take to stop before the node goes on without
// them: their instances are then dropped.
const dissolvePatience = 30 * time.Second

// foreign takes what has become of a contest with another cluster.
func (s *stack) foreign(f gossip.ForeignCluster) {
	if f.Verdict != view.VerdictYields || !s.heir.CompareAndSwap(nil, &f) {
		return
	}
	go s.dissolve()
}

// dissolve stops what runs here and ends the incarnation.
func (s *stack) dissolve() {
	ctx, cancel := context.WithTimeout(context.Background(), dissolvePatience)
	defer cancel()
	lost := 0
	for _, name := range s.node.registry.Types() {
		if st, ok := s.node.registry.Stats(name); ok {
			lost += st.Entities
		}
	}
	err := s.handOver(ctx)
	s.node.entitiesLost.Add(uint64(lost))
	s.node.cfg.Logger.Error("the cluster has yielded to another one of its name: the entities of this node have stopped, their states are not merged",
		"node", s.gossip.Self().Name, "entities", lost, "err", err)
	s.gossip.Dissolve()
}

// contested reports whether this node's cluster is in contest with another one of its
// name, and with which.
func (s *stack) contested() []view.Foreign {
	if v := s.gossip.View(); v != nil {
		return v.Foreign
	}
	return nil
}

// inWords says what a verdict means to whoever waits.
func inWords(v view.Verdict) string {
	switch v {
	case view.VerdictStands:
		return "stands, and waits for the other to yield"
	case view.VerdictYields:
		return "yields, and this node will join the other"
	}
	return "is in contest with it"
}
