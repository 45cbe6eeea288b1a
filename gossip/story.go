package gossip

import (
	"fmt"
	"sync"
	"time"

	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/internal/clock"
)

// What happened to the members is told from the views that are told: so the events
// about members are as few as the views, and agree with them, however slow a
// subscriber is. Why a member went stands in the view that left it out; a view that was
// skipped here takes that with it, so the loop notes it down as views come in.

// departuresMax bounds how many departures are remembered.
const departuresMax = 1024

// departures remembers why members went, the newest departuresMax of them.
type departures struct {
	mu    sync.Mutex
	why   map[view.NodeID]view.Departure
	order []view.NodeID
}

func (d *departures) add(x view.Departure) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.why == nil {
		d.why = map[view.NodeID]view.Departure{}
	}
	if _, known := d.why[x.ID]; !known {
		d.order = append(d.order, x.ID)
	}
	d.why[x.ID] = x
	if len(d.order) > departuresMax {
		delete(d.why, d.order[0])
		d.order = d.order[1:]
	}
}

// of returns why a member went, with cause 0 if that is not known.
func (d *departures) of(id view.NodeID) view.Departure {
	d.mu.Lock()
	defer d.mu.Unlock()
	if x, known := d.why[id]; known {
		return x
	}
	return view.Departure{ID: id}
}

// story returns what happened to members between two views, of which the first may be
// nil: those that went, and then those that came, each in order of seniority.
func story(before, after *view.View, why func(view.NodeID) view.Departure) []Event {
	voters := func(v *view.View) map[view.NodeID]*view.Member {
		m := map[view.NodeID]*view.Member{}
		for i := 0; v != nil && i < len(v.Members); i++ {
			if x := &v.Members[i]; x.Status.Votes() {
				m[x.ID] = x
			}
		}
		return m
	}
	had, has := voters(before), voters(after)
	var out []Event
	for i := 0; before != nil && i < len(before.Members); i++ {
		m := &before.Members[i]
		if had[m.ID] == nil || has[m.ID] != nil {
			continue
		}
		if d := why(m.ID); d.Cause == view.CauseLeft {
			out = append(out, MemberLeft{Member: *m, Epoch: after.Epoch})
		} else {
			out = append(out, MemberRemoved{Member: *m, Epoch: after.Epoch, Cause: d.Cause, Evidence: d.Evidence})
		}
	}
	for i := range after.Members {
		if m := &after.Members[i]; has[m.ID] != nil && had[m.ID] == nil {
			out = append(out, MemberJoined{Member: *m, Epoch: after.Epoch})
		}
	}
	return out
}

// noteDepartures notes why members are not in the newer view. What a skipped view said
// is filled in by what this node knows itself.
func (l *loop) noteDepartures(before, after *view.View) {
	if before == nil {
		return
	}
	stays := make(map[view.NodeID]bool, len(after.Members)+len(after.Out))
	for i := range after.Members {
		stays[after.Members[i].ID] = true
	}
	for _, d := range after.Out {
		stays[d.ID] = true
		l.n.departures.add(d)
	}
	for i := range before.Members {
		id := before.Members[i].ID
		if p := l.evidence.peers[id]; !stays[id] && p != nil && p.proof != 0 {
			l.n.departures.add(view.Departure{ID: id, Cause: view.CauseDead, Evidence: p.proof.String()})
		}
	}
}

// tellLeader tells subscribers when this node follows another leader.
func (l *loop) tellLeader() {
	id, _ := l.core.Leader()
	if l.over || id == l.leader {
		return
	}
	l.leader = id
	ev := LeaderChanged{Leader: id}
	if v := l.n.View(); v != nil {
		ev.Epoch = v.Epoch
	}
	l.n.events.put(ev, nil)
}

// quorum is what the loop knows of the quorum around this node.
type quorum struct {
	// served is set once this node has held a lease; lapsed is when the last one ended,
	// 0 while it holds one.
	served bool
	lapsed clock.Instant
	// lost is what subscribers were told.
	lost bool
}

// leased takes the state of the lease.
func (q *quorum) leased(now clock.Instant, valid bool) {
	if q.lapsed = 0; !valid {
		q.lapsed = now
	}
	q.served = q.served || valid
}

// tellQuorum tells subscribers when the quorum is lost or regained. A lease that lapses
// says nothing yet: others may be about to elect a leader. So the quorum counts as lost
// when links say that no quorum can be reached, or when nobody has led one for
// RemoveAfter.
func (l *loop) tellQuorum(now clock.Instant) {
	q, v := &l.quorum, l.n.View()
	if l.over || v == nil || !q.served || q.lapsed == 0 && !q.lost {
		return
	}
	if q.lapsed == 0 {
		q.lost = false
		l.n.events.put(QuorumRegained{Epoch: v.Epoch}, nil)
		l.n.record("quorum regained", 0, v.Epoch, "", true)
		return
	}
	reaches := func(id view.NodeID) bool {
		p := l.evidence.peers[id]
		return id == l.n.self.ID || p != nil && p.proof == 0 && p.stands()
	}
	since := now.Sub(q.lapsed)
	if q.lost || since < l.n.cfg.RemoveAfter && l.n.cfg.Partition.Quorum(v, reaches) {
		return
	}
	var reachable []view.NodeID
	for i := range v.Members {
		if id := v.Members[i].ID; reaches(id) {
			reachable = append(reachable, id)
		}
	}
	q.lost = true
	l.n.counters.quorumLost.Add(1)
	l.n.events.put(QuorumLost{Epoch: v.Epoch, For: since, Reachable: reachable}, nil)
	l.n.record("quorum lost", 0, v.Epoch, lostText(reachable, v, since), true)
}

func lostText(reachable []view.NodeID, v *view.View, since time.Duration) string {
	return fmt.Sprintf("%d of %d members reachable, no lease for %v", len(reachable), len(v.Members), since.Round(time.Millisecond))
}

// due is when tellQuorum wants to be asked though nothing happens.
func (q *quorum) due(removeAfter time.Duration) clock.Instant {
	if q.lapsed == 0 || q.lost || !q.served {
		return clock.Never
	}
	return q.lapsed.Add(removeAfter)
}
