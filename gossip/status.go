package gossip

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/peerage-go/peerage/gossip/transport"
	"github.com/peerage-go/peerage/gossip/view"
)

// recentMax is the number of events in Status.
const recentMax = 256

// Recent is one of the last events of a node.
type Recent struct {
	Time    time.Time
	Kind    string
	Subject view.NodeID `json:",omitzero"`
	Epoch   view.Epoch  `json:",omitzero"`
	Detail  string      `json:",omitempty"`
	// Repeated is how often the same event recurred with few different ones in between;
	// Time is that of the first.
	Repeated int `json:",omitempty"`
}

// same reports whether two events differ only in time.
func (r *Recent) same(x *Recent) bool {
	return r.Kind == x.Kind && r.Subject == x.Subject && r.Epoch == x.Epoch && r.Detail == x.Detail
}

// repeatsSought is how many of the last events are compared for a repetition: a protocol
// that keeps retrying must not displace all other events.
const repeatsSought = 8

// recentList is a ring of the last events.
type recentList struct {
	mu   sync.Mutex
	ring []Recent
	next int
}

func (r *recentList) addRecent(x Recent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for back := 1; back <= min(repeatsSought, len(r.ring)); back++ {
		if old := &r.ring[(r.next-back+len(r.ring))%len(r.ring)]; old.same(&x) {
			old.Repeated++
			return
		}
	}
	if len(r.ring) < recentMax {
		r.ring = append(r.ring, x)
		return
	}
	r.ring[r.next] = x
	r.next = (r.next + 1) % recentMax
}

// listRecent returns the events, the oldest first.
func (r *recentList) listRecent() []Recent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(append([]Recent(nil), r.ring[r.next:]...), r.ring[:r.next]...)
}

// Status describes a node for operators, as JSON.
type Status struct {
	Self    view.Node
	Cluster string
	// State is "looking for a cluster", "joining", "up", "paused", "leaving" or
	// "over".
	State string
	// Over is the reason for which this incarnation has ended.
	Over  string     `json:",omitempty"`
	View  *view.View `json:",omitempty"`
	Lease LeaseStatus
	// Protocol is the node's part in the agreement on views.
	Protocol view.State
	Links    []LinkStatus
	Contact  []ContactStatus
	// Foreign lists the other clusters of the same name that sent messages recently, by
	// id, each with the state of its contest.
	Foreign []string `json:",omitempty"`
	Recent  []Recent
}

// LeaseStatus describes the lease at the time of the call.
type LeaseStatus struct {
	Valid, Leader bool
	Generation    uint32
	// Left is how long it still runs.
	Left time.Duration
}

// LinkStatus describes the connections with one peer.
type LinkStatus struct {
	Node   view.NodeID
	Name   string
	Addr   string
	Member bool
	// Out and In name the classes that are connected.
	Out, In []string
	// Dead is the kind of the proof that its process has ended, "" without one.
	Dead string `json:",omitempty"`
	// DownFor is how long there has been no control connection to it.
	DownFor time.Duration `json:",omitempty"`
}

// ContactStatus describes one contact point.
type ContactStatus struct {
	Addr string
	// Node is the node that answers there, 0 if none does.
	Node view.NodeID `json:",omitzero"`
	// Cluster is the one that the node belongs to, in hexadecimal, "" if none.
	Cluster string `json:",omitempty"`
	// Cause is the reason why it does not answer.
	Cause string `json:",omitempty"`
}

// Status returns the node's present state. It waits for the node's loop, which never
// blocks; after Close it returns the last state.
func (n *Node) Status() Status {
	s := Status{Self: n.self, Cluster: n.cfg.Cluster, View: n.View(), Recent: n.recent.listRecent()}
	done := make(chan struct{})
	n.inbox.putInput(call(func(l *loop) {
		defer close(done)
		l.describeState(&s)
	}))
	select {
	case <-done:
	case <-n.loopEnded:
	}
	lease := n.Lease()
	s.Lease = LeaseStatus{Valid: n.LeaseValid(), Leader: lease.Leader, Generation: lease.Generation}
	if s.Lease.Valid {
		s.Lease.Left = lease.Until.Sub(n.clock.Now())
	}
	n.mu.Lock()
	if n.ended != nil {
		s.Over = n.ended.Reason
	}
	n.mu.Unlock()
	s.State = stateName(&s)
	return s
}

func stateName(s *Status) string {
	if s.Over != "" {
		return "over"
	}
	m := s.View.Member(s.Self.ID)
	switch {
	case m == nil:
		return "looking for a cluster"
	case m.Status == view.Up && !s.Lease.Valid:
		return "paused"
	}
	return m.Status.String()
}

func (l *loop) describeState(s *Status) {
	now := l.n.clock.Now()
	s.Protocol, s.Foreign = l.core.State(), l.foreignStatus()
	for _, id := range slices.Sorted(maps.Keys(l.evidence.peers)) {
		p := l.evidence.peers[id]
		link := LinkStatus{Node: id, Name: p.node.Name, Addr: p.node.Addr, Member: p.member,
			Out: classNames(p.out), In: classNames(p.in)}
		if p.proof != 0 {
			link.Dead = p.proof.String()
		}
		if p.lostAt != 0 {
			link.DownFor = now.Sub(p.lostAt)
		}
		s.Links = append(s.Links, link)
	}
	for _, p := range l.forming.order {
		if !p.listed {
			continue
		}
		c := ContactStatus{Addr: p.addr, Node: p.peer, Cause: p.cause}
		if p.info != nil {
			c.Cluster = clusterName(p.info.Cluster)
		}
		s.Contact = append(s.Contact, c)
	}
}

func classNames(up [transportClasses]bool) []string {
	var out []string
	for c, ok := range up {
		if ok {
			out = append(out, transport.Class(c).String())
		}
	}
	return out
}

// Handler returns a handler that answers with Status as JSON.
func (n *Node) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		_ = enc.Encode(n.Status()) // the client has gone
	})
}

// clusterName writes a cluster's id without losing digits in JSON.
func clusterName(id uint64) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprintf("%016x", id)
}
