package peerage

import (
	"github.com/peerage-go/peerage/ddata"
	"github.com/peerage-go/peerage/gossip/transport"
	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/replicator"
	"github.com/peerage-go/peerage/sharding"
)

// newReplicator starts the replicator of a role. The replicator of the role ""
// spans all members.
func (s *stack) newReplicator(role string) *replicator.Replicator {
	links := s.gossip.Transport()
	data := s.node.cfg.dataOf(role)
	return replicator.New(replicator.Config{
		Self: s.gossip.Self().ID, Role: role, Clock: s.gossip.Clock(), Logger: s.node.cfg.Logger,
		Send: func(to view.NodeID, c transport.Class, payload []byte) error {
			return links.Send(to, c, transport.KindReplicator, payload)
		},
		Observer: s.node.exporter.replicatorObserver(role),
		Direct:   true, // the transport calls without a lock
		Expire:   data.expiry(), Durable: s.node.files[role],
	})
}

// handleReplicator hands a frame to the replicator of its role. Frames of roles
// that this node does not carry come from nodes that believe otherwise for a
// moment; every protocol repeats itself.
func (s *stack) handleReplicator(from view.NodeID, frame []byte) {
	role, payload, err := replicator.SplitRole(frame)
	if err != nil {
		return
	}
	if r := s.replicators[role]; r != nil {
		r.HandleFrame(from, payload)
	}
}

// store is where the coordinators of a role keep their records.
func (s *stack) store(role string) sharding.Store {
	return sharding.DataStore(s.gossip.Self().ID, s.data[role])
}

// Data returns the distributed data of a role that this node carries; "" is the
// data of all members. It is nil for another role, and while the node is between
// two incarnations: ask again for every use, and do not keep it.
func (n *Node) Data(role string) *ddata.Data {
	if s := n.stack.Load(); s != nil {
		return s.data[role]
	}
	return nil
}
