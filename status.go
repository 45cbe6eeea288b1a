package peerage

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/sharding"
)

// Status is what a node knows about itself and its cluster, for people and
// programs that look from outside. It is the body of GET /status.
type Status struct {
	Name    string `json:"name"`
	Node    string `json:"node"`
	Addr    string `json:"addr"`
	Cluster string `json:"cluster"`
	Ready   bool   `json:"ready"`
	// Draining: Drain or Shutdown was called.
	Draining bool `json:"draining,omitempty"`
	// Lease says in words whether this node may run entities.
	Lease string `json:"lease"`
	// Leader is the member whose lease all others hang on, "" if none is known.
	Leader string      `json:"leader,omitempty"`
	View   *ViewStatus `json:"view,omitempty"`
	// Types are the registered entity types, by name.
	Types []TypeStatus `json:"types"`
}

// ViewStatus is the agreed list of members.
type ViewStatus struct {
	Epoch string `json:"epoch"`
	// Members stand in order of seniority.
	Members []MemberStatus `json:"members"`
	// Foreign are the other clusters of this one's name with which it is in contest.
	Foreign []ForeignStatus `json:"foreign,omitempty"`
}

// ForeignStatus is a contest with another cluster of the same name.
type ForeignStatus struct {
	Cluster string `json:"cluster"`
	// Verdict is "contested", "stands" or "yields": this cluster's.
	Verdict string   `json:"verdict"`
	Addrs   []string `json:"addrs"`
}

// MemberStatus is one member of the view.
type MemberStatus struct {
	Name       string   `json:"name"`
	ID         string   `json:"id"`
	Addr       string   `json:"addr"`
	Status     string   `json:"status"`
	Roles      []string `json:"roles,omitempty"`
	AppVersion string   `json:"app_version,omitempty"`
}

// TypeStatus is one entity type as this node sees it.
type TypeStatus struct {
	Name string `json:"name"`
	Role string `json:"role,omitempty"`
	// Refused says why the coordinator does not register this node: a setting that
	// must be equal on all nodes, and the two values.
	Refused string `json:"refused,omitempty"`
	// Unregistered: this node carries the type's role and does not run the type.
	Unregistered bool `json:"unregistered,omitempty"`
	// Coordinator is the node that places the type's shards.
	Coordinator string `json:"coordinator,omitempty"`
	// Shards and Entities are hosted here; ShardsTotal is the number of shards.
	Shards      int `json:"shards"`
	ShardsTotal int `json:"shards_total"`
	Entities    int `json:"entities"`
	// Homes says where shards live, as far as this node knows.
	Homes []HomeStatus `json:"homes"`
}

// HomeStatus lists the shards of one home.
type HomeStatus struct {
	Node   string             `json:"node"`
	Shards []sharding.ShardID `json:"shards"`
}

// Status returns a snapshot. It asks no other node.
func (n *Node) Status() Status {
	self := n.Self()
	st := Status{Name: self.Name, Node: self.ID.String(), Addr: self.Addr, Cluster: n.clusterName(), Lease: "none", Ready: n.Ready(), Draining: n.Draining()}
	s := n.stack.Load()
	if s == nil {
		return st
	}
	st.Lease = s.leaseInWords()
	v := s.gossip.View()
	if v != nil {
		st.View = viewStatus(v)
	}
	if leader := s.gossip.Status().Protocol.Leader; leader != 0 {
		st.Leader = leader.String()
	}
	st.Types = s.typeStatus(v)
	return st
}

func (s *stack) leaseInWords() string {
	l, now := s.gossip.Lease(), s.gossip.Clock().Now()
	switch {
	case l.Until == 0:
		return "none"
	case !l.Valid(now):
		return "ended " + now.Sub(l.Until).Round(time.Millisecond).String() + " ago"
	case l.Leader:
		return "valid, the leader's, for " + l.Until.Sub(now).Round(time.Millisecond).String()
	}
	return "valid for " + l.Until.Sub(now).Round(time.Millisecond).String()
}

func viewStatus(v *view.View) *ViewStatus {
	out := &ViewStatus{Epoch: v.Epoch.String()}
	for i := range v.Members {
		m := &v.Members[i]
		out.Members = append(out.Members, MemberStatus{
			Name: m.Name, ID: m.ID.String(), Addr: m.Addr, Status: m.Status.String(),
			Roles: m.Roles, AppVersion: m.AppVersion,
		})
	}
	for i := range v.Foreign {
		f := &v.Foreign[i]
		st := ForeignStatus{Cluster: fmt.Sprintf("%016x", f.Cluster), Verdict: f.Verdict.String()}
		for k := range f.Nodes {
			st.Addrs = append(st.Addrs, f.Nodes[k].Addr)
		}
		out.Foreign = append(out.Foreign, st)
	}
	return out
}

func (s *stack) typeStatus(v *view.View) []TypeStatus {
	var out []TypeStatus
	for _, t := range s.sharding.Status() {
		st := TypeStatus{Name: t.Type, Role: t.Role, ShardsTotal: len(t.Shards), Refused: t.Refused, Unregistered: t.Unregistered}
		if t.Coordinator != 0 {
			st.Coordinator = t.Coordinator.String()
		}
		if stats, ok := s.node.registry.Stats(t.Type); ok {
			st.Shards, st.Entities = stats.Shards, stats.Entities
		}
		homes := map[view.NodeID][]sharding.ShardID{}
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

// Handler returns the node's pages for probes and people: GET /healthz answers
// while the node is not closed, GET /readyz while it is Ready (else it says what the
// node waits for), GET /status with a Status, GET /membership with what Membership
// returns, both as JSON. Three more ask all nodes of the cluster, and answer in JSON
// within 3 s whatever they do: GET /shards?type=T with the regions, shards and numbers of
// entities (sharding.ClusterStats), GET /where?type=T&id=E with the home of an
// entity (sharding.Location), and GET /explain?type=T&shard=N, or &id=E, with why a
// shard is where it is (sharding.History). It changes nothing.
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
	mux.HandleFunc("GET /membership", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, n.Membership()) })
	mux.HandleFunc("GET /shards", n.askAll(func(ctx context.Context, typ string, _ url.Values) (any, error) {
		return n.registry.Cluster(ctx, typ)
	}))
	mux.HandleFunc("GET /where", n.askAll(func(ctx context.Context, typ string, q url.Values) (any, error) {
		return n.registry.Where(ctx, typ, q.Get("id"))
	}))
	mux.HandleFunc("GET /explain", n.askAll(n.explain))
	return mux
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	// The client may be gone; there is nobody left to tell.
	_ = enc.Encode(v)
}

func writeText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text)) // as above
}
