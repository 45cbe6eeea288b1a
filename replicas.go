package peerage

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/peerage-go/peerage/ddata"
	"github.com/peerage-go/peerage/gossip/transport"
	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/replicator"
	"github.com/peerage-go/peerage/sharding"
)

// newReplicator starts the replicator of the application's data of a role. That of the
// role "" spans all members.
func (s *stack) newReplicator(role string) *replicator.Replicator {
	links := s.gossip.Transport()
	data := s.node.cfg.dataOf(role)
	return replicator.New(replicator.Config{
		Self: s.gossip.Self().ID, Role: role, Clock: s.gossip.Clock(), WallClock: s.cfg.WallClock, Logger: s.node.cfg.Logger,
		Class: transport.Data,
		Send: func(to view.NodeID, c transport.Class, payload []byte) error {
			return links.Send(to, c, transport.KindReplicator, payload)
		},
		Observer:   s.node.exporter.replicatorObserver(role),
		LeaseValid: s.gossip.LeaseValid,
		Direct:     true, // the transport calls without a lock
		Expire:     data.expiry(), Durable: s.node.files[role],
	})
}

// newRecords starts the replicator of what the coordinators of a role keep. It has a
// goroutine, a lock and limits of its own, no file, and its frames take the connection of
// the protocols: nothing that an application does with its keys is in its way.
func (s *stack) newRecords(role string) *replicator.Replicator {
	links := s.gossip.Transport()
	return replicator.New(replicator.Config{
		Self: s.gossip.Self().ID, Role: role, Clock: s.gossip.Clock(), WallClock: s.cfg.WallClock, Logger: s.node.cfg.Logger,
		Class: transport.Control, Terms: true,
		Send: func(to view.NodeID, c transport.Class, payload []byte) error {
			return links.Send(to, c, transport.KindRecords, payload)
		},
		Observer:   s.node.exporter.replicatorObserver(recordsLabel(role)),
		LeaseValid: s.gossip.LeaseValid,
		Direct:     true, // the transport calls without a lock
	})
}

// diskFailing returns the role of which durable keys cannot be stored now, "all" for all
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

// recordsLabel is the label "role" of the metrics of a role's records.
func recordsLabel(role string) string {
	if role == "" {
		role = allMembers
	}
	return "sharding/" + role
}

// handFrame hands a frame to the replicator of its role. Frames of roles
// that this node does not carry come from nodes that believe otherwise for a
// moment; every protocol repeats itself.
func handFrame(replicators map[string]*replicator.Replicator, from view.NodeID, frame []byte) {
	role, payload, err := replicator.SplitRole(frame)
	if err != nil {
		return
	}
	if r := replicators[role]; r != nil {
		r.HandleFrame(from, payload)
	}
}

// store is where the coordinators of a role keep their records.
func (s *stack) store(role string) sharding.Store {
	return sharding.DataStore(s.gossip.Self().ID, ddata.New(s.records[role]), s.data[role])
}

// DataHandler returns a handler by which operators look at the distributed data that
// this node holds: the pages of replicator.Handler under /ROLE/, "all" for the data of
// all members. It only reads, and shows all data to whoever may call it: guard it as the
// data demands. Mount it with http.StripPrefix. It answers 503 while the node is between
// two incarnations.
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
		http.StripPrefix("/"+label, replicator.Handler(r)).ServeHTTP(w, req)
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

// Data returns the distributed data of a role that this node carries; "" is the
// data of all members. It is nil for another role only, and stays the same through all
// incarnations of the node. Before the node is in a cluster, and between two incarnations,
// requests fail with ErrNotReady. Subscriptions go on with the next incarnation, which shows
// all values anew, and then as gone what no longer exists; until it has caught up with the
// others, what it shows may be older than what was shown before.
func (n *Node) Data(role string) *ddata.Data { return n.data[role] }
