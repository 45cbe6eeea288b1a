package membership

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/transport"
)

// Recent is one of the last events of a node.
type Recent struct {
	Time    time.Time
	Kind    string
	Subject gossip.NodeID `json:",omitzero"`
	Epoch   gossip.Epoch  `json:",omitzero"`
	Detail  string        `json:",omitempty"`
	// Repeated is how often the same event recurred with few different ones in between;
	// Time is that of the first.
	Repeated int `json:",omitempty"`
}

// Status describes a node's part in the cluster for operators, as JSON.
type Status struct {
	Self    gossip.Node
	Cluster string
	// State is "looking for a cluster", "joining", "up", "paused", "leaving" or
	// "over".
	State string
	// Over is the reason for which this incarnation has ended.
	Over  string       `json:",omitempty"`
	View  *gossip.View `json:",omitempty"`
	Lease gossip.LeaseStatus
	// Protocol is the node's part in the agreement on views.
	Protocol view.State
	Links    []LinkStatus
	Contact  []ContactStatus
	// Foreign lists the other clusters of the same name that sent messages recently, by
	// id, each with the state of its contest.
	Foreign []string `json:",omitempty"`
	Recent  []Recent
}

// LinkStatus describes the connections with one peer.
type LinkStatus struct {
	Node   gossip.NodeID
	Name   string
	Addr   string
	Member bool
	// Out and In name the classes that are connected.
	Out, In []string
	// RoundTrip is what the system measured when the control connection was established.
	RoundTrip time.Duration `json:",omitempty"`
	// Dead is the kind of the proof that its process has ended, "" without one.
	Dead string `json:",omitempty"`
	// DownFor is how long there has been no control connection to it.
	DownFor time.Duration `json:",omitempty"`
}

// ContactStatus describes one contact point.
type ContactStatus struct {
	Addr string
	// Node is the node that answers there, 0 if none does.
	Node gossip.NodeID `json:",omitzero"`
	// Cluster is the one that the node belongs to, in hexadecimal, "" if none.
	Cluster string `json:",omitempty"`
	// Cause is the reason why it does not answer.
	Cause string `json:",omitempty"`
}

// recentMax is the number of events in Status.
const recentMax = 256

// sameEvent reports whether two events differ only in time.
func sameEvent(r, x *Recent) bool {
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
		if old := &r.ring[(r.next-back+len(r.ring))%len(r.ring)]; sameEvent(old, &x) {
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

// Status returns the node's present state. It waits for the node's loop, which never
// blocks; after Close it returns the last state.
func (n *Node) Status() Status {
	s := Status{Self: n.self, Cluster: n.cfg.Cluster, View: n.View(), Recent: n.recent.listRecent()}
	done := make(chan struct{})
	n.inbox.Put(call(func(l *loop) {
		defer close(done)
		l.describeState(&s)
	}))
	select {
	case <-done:
	case <-n.loopEnded:
	}
	s.Lease = n.LeaseStatus()
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
	case m.Status == gossip.Up && !s.Lease.Valid:
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
			Out: classNames(p.out), In: classNames(p.in), RoundTrip: p.roundTrip}
		if p.proof != 0 {
			link.Dead = p.proof.String()
		}
		if p.lostAt != 0 {
			link.DownFor = now.Sub(p.lostAt)
		}
		s.Links = append(s.Links, link)
	}
	for _, p := range l.forming.points.order {
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

// LeaseStatus returns the present state of the lease.
func (n *Node) LeaseStatus() gossip.LeaseStatus {
	lease, now := n.Lease(), n.clock.Now()
	s := gossip.LeaseStatus{Valid: n.lease.validAt(now), Leader: lease.Leader, Generation: lease.Generation}
	if lease.Until != 0 {
		s.Left = lease.Until.Sub(now)
	}
	return s
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

// Stats returns the present counters. It costs some microseconds and blocks no other
// call.
func (n *Node) Stats() Stats {
	c := &n.counters
	s := Stats{
		Views: c.views.Load(), Abandons: c.abandons.Load(), LeaseLost: c.leaseLost.Load(), QuorumLost: c.quorumLost.Load(),
		Evidence: map[EvidenceKind]uint64{}, EvidenceBack: c.evidenceBack.Load(),
		Suspicions: c.Suspicions.Load(), Refutations: c.Refutations.Load(),
		Undecryptable: c.Undecryptable.Load(),
		Discovered:    c.Discovered.Load(), Faded: c.SuspectedByGossip.Load(),
		PacketIn: c.PacketIn.Load(), PacketOut: c.PacketOut.Load(),
		StreamIn: c.StreamIn.Load(), StreamOut: c.StreamOut.Load(),
		PacketsDropped: c.PacketsDropped.Load(), PacketsNotOurs: c.PacketsNotOurs.Load(),
		PacketsForbidden: c.PacketsForbidden.Load(), PacketsFlood: c.PacketsFlood.Load(),
		NamesRefused: c.NamesRefused.Load(), StreamsRefused: c.StreamsRefused.Load(), HintsDropped: c.HintsDropped.Load(),
		ViewIn: c.viewIn.Load(), ViewOut: c.viewOut.Load(),
		FramesMalformed: c.malformed.Load(), FramesOverflow: c.overflow.Load(), SendFailed: c.sendFailed.Load(),
		BallotsStale: c.stale.Load(), Impostures: c.impostures.Load(), Strangers: c.strangers.Load(), NonMembers: c.nonMembers.Load(),
		Probes: c.probes.Load(), ProbesFailed: c.probesFailed.Load(), Refusals: c.refused.Load(),
		Joined: c.joined.Load(), Left: c.left.Load(), Removed: c.removed.Load(),
		Steps: c.steps.Load(), ForeignClusters: int(c.foreign.Load()), KeysDiffer: int(c.keysDiffer.Load()), Contests: c.contests.Load(),
	}
	for k := EvidenceGoodbye; k <= EvidenceRefused; k++ {
		s.Evidence[k] = c.evidence[k].Load()
	}
	if v := n.View(); v != nil {
		s.Epoch = uint64(v.Epoch)
		for i := range v.Members {
			s.Members[0]++
			if st := int(v.Members[i].Status); st < len(s.Members) {
				s.Members[st]++
			}
		}
	}
	lease := n.LeaseStatus()
	s.LeaseValid, s.LeaseLeft = lease.Valid, max(0, lease.Left)
	s.Leader = lease.Valid && lease.Leader
	s.EventsDelivered, s.EventsCoalesced, s.EventsWaiting = n.events.queueCounts()
	s.InboxWaiting, s.InboxMax, _ = n.inbox.Counts()
	if n.discovery != nil {
		s.HealthScore = n.discovery.Health()
	}
	return s
}
