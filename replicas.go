package peerage

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/peerage-go/peerage/ddata"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/internal/replica"
	"github.com/peerage-go/peerage/internal/transport"
)

// newReplicator starts the replicator of a role's application data. That of role "" spans
// all members.
func (s *stack) newReplicator(role string) *replica.Replicator {
	links := s.gossip.Transport()
	data := s.node.cfg.dataOf(role)
	return replica.New(replica.Config{
		Self: s.gossip.Self().ID, Role: role, Clock: s.gossip.Clock(), WallClock: s.cfg.WallClock, Logger: s.node.cfg.Logger,
		Class: transport.Data,
		Send: func(to gossip.NodeID, c transport.Class, payload []byte) error {
			return links.Send(to, c, transport.KindReplicator, payload)
		},
		Observer:   s.node.exporter.replicator(role),
		LeaseValid: s.gossip.LeaseValid,
		Direct:     true, // the transport calls without a lock
		Expire:     data.expiry(), Durable: s.node.files[role],
	})
}

// newRecords starts the replicator of the records of a role's coordinators. It has its own
// goroutine, lock and limits, no file, and its frames use the connection of the protocols.
// So nothing that an application does with its keys can delay it.
func (s *stack) newRecords(role string) *replica.Replicator {
	links := s.gossip.Transport()
	return replica.New(replica.Config{
		Self: s.gossip.Self().ID, Role: role, Clock: s.gossip.Clock(), WallClock: s.cfg.WallClock, Logger: s.node.cfg.Logger,
		Class: transport.Control, Terms: true,
		Send: func(to gossip.NodeID, c transport.Class, payload []byte) error {
			return links.Send(to, c, transport.KindRecords, payload)
		},
		Observer:   s.node.exporter.replicator(recordsLabel(role)),
		LeaseValid: s.gossip.LeaseValid,
		Direct:     true, // the transport calls without a lock
	})
}

// diskFailing returns the role whose durable keys cannot be stored now: "all" for all
// members, "" if there is none.
func (s *stack) diskFailing() string {
	for _, role := range s.roles() {
		if s.replicators[role].DiskFailing() {
			if role == "" {
				return allMembers
			}
			return role
		}
	}
	return ""
}

// recordsLabel returns the metric label "role" of a role's records.
func recordsLabel(role string) string {
	if role == "" {
		role = allMembers
	}
	return "sharding/" + role
}

// handFrame passes a frame to the replicator of its role. It drops frames of roles that
// this node does not have: the sender has another view of this node, and the cores
// retransmit.
func handFrame(replicators map[string]*replica.Replicator, from gossip.NodeID, frame []byte) {
	role, payload, err := replica.SplitRole(frame)
	if err != nil {
		return
	}
	if r := replicators[role]; r != nil {
		r.HandleFrame(from, payload)
	}
}

// store returns the store in which the coordinators of a role keep their records.
func (s *stack) store(role string) placement.Store {
	return placement.DataStore(s.gossip.Self().ID, s.recordData[role], s.data[role], s.records[role].Lost)
}

// DataHandler returns an HTTP handler that shows the distributed data of this node to
// operators. It serves the pages of replica.Handler under /ROLE/, and "/all/" for the
// data of all members. Mount it with http.StripPrefix. It is read-only, but shows all data
// to every client: protect it as the data requires. Between two incarnations it answers
// 503.
func (n *Node) DataHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		s := n.stack.Load()
		if s == nil {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		label, _, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
		role := label
		if label == allMembers {
			role = ""
		}
		r := s.replicators[role]
		if label == "" || r == nil {
			http.Error(w, "no such role; one of "+strings.Join(s.dataLabels(), ", "), http.StatusNotFound)
			return
		}
		http.StripPrefix("/"+label, replica.Handler(r)).ServeHTTP(w, req)
	})
}

// allMembers stands for the role "" in paths.
const allMembers = "all"

func (s *stack) dataLabels() []string {
	out := slices.Sorted(maps.Keys(s.replicators))
	if i := slices.Index(out, ""); i >= 0 {
		out[i] = allMembers
	}
	return out
}

// Data returns the distributed data of a role of this node; "" is the data of all members.
// It returns nil for a role that the node does not have. The result stays the same through
// all incarnations.
//
// Before the node is in a cluster, and between two incarnations, requests fail with
// ErrNotReady. Subscriptions continue with the next incarnation: it shows all current
// values, then reports the keys that no longer exist as gone. Until the new incarnation has
// caught up with the other members, it may show values older than those shown before.
func (n *Node) Data(role string) *ddata.Data { return n.data[role] }
