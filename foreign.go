package peerage

import (
	"context"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// This file ends an incarnation whose cluster yields to another one of the same name:
// entities stop in order, and the next incarnation joins the other cluster. origin.go
// handles durable keys. Package view decides which cluster yields.

// dissolvePatience is how long entities may take to stop. Then the node continues, and
// their instances are dropped.
const dissolvePatience = 30 * time.Second

// foreign handles a verdict in the contest with another cluster.
func (s *stack) foreign(f gossip.ForeignCluster) {
	if f.Verdict != gossip.VerdictYields || !s.heir.CompareAndSwap(nil, &f) {
		return
	}
	go s.dissolve()
}

// dissolve stops the entities of this node and ends the incarnation.
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
	s.node.cfg.Logger.Error("the cluster has yielded to another one of its name: the entities of this node have stopped, and their states are not merged; this node joins the other cluster; check the contact points",
		"node", s.gossip.Self().Name, "entities", lost, "err", err)
	s.gossip.Dissolve()
}

// contested returns the other clusters of the same name with which this node's cluster is
// in contest.
func (s *stack) contested() []gossip.Contest {
	if v := s.gossip.View(); v != nil {
		return v.Foreign
	}
	return nil
}

// inWords describes a verdict to operators.
func inWords(v gossip.Verdict) string {
	switch v {
	case gossip.VerdictStands:
		return "stands, and waits until the other one yields"
	case gossip.VerdictYields:
		return "yields, and this node will join the other"
	}
	return "is in contest with it"
}
