package peerage

import (
	"context"
	"net/http"
	"net/url"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/sharding"
)

// Status is the state of a node and its cluster as the node sees it, for people and
// programs outside. It is the body of GET /status.
type Status struct {
	Name    string        `json:"name"`
	Node    gossip.NodeID `json:"node"`
	Addr    string        `json:"addr"`
	Cluster string        `json:"cluster"`
	Ready   bool          `json:"ready"`
	// NotReady lists the reasons why the node is not Ready, "" if it is.
	NotReady string `json:"not_ready,omitempty"`
	// FilesSetAside lists the files of durable keys that the node has set aside since its
	// start, because they belong to another cluster of the same name.
	FilesSetAside []string `json:"files_set_aside,omitempty"`
	// Draining is set once Drain or Shutdown was called.
	Draining bool `json:"draining,omitempty"`
	// Lease reports whether this node may run entities, and for how long.
	Lease gossip.LeaseStatus `json:"lease"`
	// Leader is the member that grants all leases, 0 if this node has no leader.
	Leader gossip.NodeID `json:"leader,omitzero"`
	// View is the agreed list of members, nil if this node is in no cluster. Its Foreign lists
	// the other clusters of the same name with which this one is in contest.
	View *gossip.View `json:"view,omitempty"`
	// Types are the registered entity types, sorted by name.
	Types []TypeStatus `json:"types"`
}

// TypeStatus is one entity type as this node sees it.
type TypeStatus struct {
	Name string `json:"name"`
	Role string `json:"role,omitempty"`
	// Refused is set if the coordinator does not register this node. It names the setting
	// that must be equal on all nodes, and both values.
	Refused string `json:"refused,omitempty"`
	// Unregistered is set if this node has the type's role but does not run the type.
	Unregistered bool `json:"unregistered,omitempty"`
	// Coordinator is the node that places the type's shards.
	Coordinator gossip.NodeID `json:"coordinator,omitzero"`
	// Shards and Entities count those that this node hosts; ShardsTotal is the number of
	// shards.
	Shards      int `json:"shards"`
	ShardsTotal int `json:"shards_total"`
	Entities    int `json:"entities"`
	// Homes lists the homes of shards as far as this node has them.
	Homes []HomeStatus `json:"homes"`
}

// HomeStatus lists the shards of one home.
type HomeStatus struct {
	Node   string             `json:"node"`
	Shards []sharding.ShardID `json:"shards"`
}

// Status returns a snapshot of this node's state. It sends no message.
func (n *Node) Status() Status {
	self := n.Self()
	st := Status{Name: self.Name, Node: self.ID, Addr: self.Addr, Cluster: n.cfg.Cluster, Ready: n.Ready(), Draining: n.Draining()}
	if st.FilesSetAside = n.outage.listCopies(); !st.Ready {
		st.NotReady = n.unready()
	}
	s := n.stack.Load()
	if s == nil {
		return st
	}
	st.Lease = s.gossip.LeaseStatus()
	v := s.gossip.View()
	st.View, st.Leader = v, s.gossip.Status().Protocol.Leader
	st.Types = s.typeStatus(v)
	return st
}

func (s *stack) typeStatus(v *gossip.View) []TypeStatus {
	var out []TypeStatus
	for _, t := range s.sharding.Status() {
		st := TypeStatus{Name: t.Type, Role: t.Role, Coordinator: t.Coordinator, ShardsTotal: len(t.Shards), Refused: t.Refused, Unregistered: t.Unregistered}
		if stats, ok := s.node.registry.Stats(t.Type); ok {
			st.Shards, st.Entities = stats.Shards, stats.Entities
		}
		homes := map[gossip.NodeID][]sharding.ShardID{}
		for _, sh := range t.Shards {
			if sh.Home != 0 {
				homes[sh.Home] = append(homes[sh.Home], sh.Shard)
			}
		}
		if v != nil {
			for i := range v.Members {
				m := &v.Members[i]
				if shards := homes[m.ID]; len(shards) > 0 {
					st.Homes = append(st.Homes, HomeStatus{Node: m.Name + " (" + m.ID.String() + ")", Shards: shards})
				}
			}
		}
		out = append(out, st)
	}
	return out
}

// Handler returns a read-only HTTP handler for probes and operators:
//
//   - GET /healthz answers 200 until the node is closed.
//   - GET /readyz answers 200 while the node is Ready; otherwise 503 and the reasons.
//   - GET /status returns a Status as JSON.
//   - GET /membership returns the view, ballots, lease, links, contact points and recent
//     events of the node, as JSON for people. Its form may change between releases.
//
// Three more pages query all nodes of the cluster. They answer in JSON, within 3 s even if
// nodes hang:
//
//   - GET /shards?type=T returns regions, shards and numbers of entities
//     (sharding.ClusterStats).
//   - GET /where?type=T&id=E returns the home of an entity (sharding.Location).
//   - GET /explain?type=T&shard=N, or &id=E, returns why a shard is where it is
//     (sharding.History).
func (n *Node) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		select {
		case <-n.quit:
			http.Error(w, "closed", http.StatusServiceUnavailable)
		default:
			writeText(w, "ok\n")
		}
	})
	mux.HandleFunc("GET /readyz", n.readyz)
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, n.Status()) })
	mux.HandleFunc("GET /membership", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, n.membership()) })
	mux.HandleFunc("GET /shards", n.askAll(func(ctx context.Context, typ string, _ url.Values) (any, error) {
		return n.registry.Cluster(ctx, typ)
	}))
	mux.HandleFunc("GET /where", n.askAll(func(ctx context.Context, typ string, q url.Values) (any, error) {
		return n.registry.Where(ctx, typ, q.Get("id"))
	}))
	mux.HandleFunc("GET /explain", n.askAll(n.explain))
	return mux
}
