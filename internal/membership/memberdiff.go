package membership

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/loglimit"
)

// The events about members are derived from the delivered views: so they are as few as
// the views, and agree with them, however slow a subscriber is. The view that leaves a
// member out holds the cause; delivery may skip that view, so the loop records the causes
// as views arrive.

// departuresMax bounds the recorded departures.
const departuresMax = 1024

// departures records why members were left out, the newest departuresMax of them.
type departures struct {
	mu    sync.Mutex
	why   map[gossip.NodeID]gossip.Departure
	order []gossip.NodeID
}

func (d *departures) addDeparture(x gossip.Departure) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.why == nil {
		d.why = map[gossip.NodeID]gossip.Departure{}
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

// departureOf returns why a member was left out, with cause 0 if there is no record.
func (d *departures) departureOf(id gossip.NodeID) gossip.Departure {
	d.mu.Lock()
	defer d.mu.Unlock()
	if x, known := d.why[id]; known {
		return x
	}
	return gossip.Departure{ID: id}
}

// memberDiff returns the changes of members between two views, of which the first may be nil:
// those left out, and then those that joined, each in order of seniority.
func memberDiff(before, after *gossip.View, why func(gossip.NodeID) gossip.Departure) []gossip.Event {
	voters := func(v *gossip.View) map[gossip.NodeID]*gossip.Member {
		m := map[gossip.NodeID]*gossip.Member{}
		for i := 0; v != nil && i < len(v.Members); i++ {
			if x := &v.Members[i]; x.Status.Votes() {
				m[x.ID] = x
			}
		}
		return m
	}
	had, has := voters(before), voters(after)
	var out []gossip.Event
	for i := 0; before != nil && i < len(before.Members); i++ {
		m := &before.Members[i]
		if had[m.ID] == nil || has[m.ID] != nil {
			continue
		}
		if d := why(m.ID); d.Cause == gossip.CauseLeft {
			out = append(out, gossip.MemberLeft{Member: *m, Epoch: after.Epoch})
		} else {
			out = append(out, gossip.MemberRemoved{Member: *m, Epoch: after.Epoch, Cause: d.Cause, Evidence: d.Evidence})
		}
	}
	for i := range after.Members {
		if m := &after.Members[i]; has[m.ID] != nil && had[m.ID] == nil {
			out = append(out, gossip.MemberJoined{Member: *m, Epoch: after.Epoch})
		}
	}
	return out
}

// noteDepartures records why members are not in the newer view. For a skipped view it
// uses this node's own evidence.
func (l *loop) noteDepartures(before, after *gossip.View) {
	if before == nil {
		return
	}
	stays := make(map[gossip.NodeID]bool, len(after.Members)+len(after.Out))
	for i := range after.Members {
		stays[after.Members[i].ID] = true
	}
	for _, d := range after.Out {
		stays[d.ID] = true
		l.n.departures.addDeparture(d)
	}
	for i := range before.Members {
		id := before.Members[i].ID
		if p := l.evidence.peers[id]; !stays[id] && p != nil && p.proof != 0 {
			l.n.departures.addDeparture(gossip.Departure{ID: id, Cause: gossip.CauseDead, Evidence: p.proof.String()})
		}
	}
}

// countChanges counts how a view has changed the cluster of this node, and reports how long removals
// took.
func (l *loop) countChanges(now clock.Instant, before, after *gossip.View) {
	if before == nil || before.Cluster != after.Cluster {
		return
	}
	c := &l.n.counters
	for _, change := range memberDiff(before, after, l.n.departures.departureOf) {
		switch e := change.(type) {
		case gossip.MemberJoined:
			c.joined.Add(1)
		case gossip.MemberLeft:
			c.left.Add(1)
		case gossip.MemberRemoved:
			c.removed.Add(1)
			if p := l.evidence.peers[e.Member.ID]; p != nil && p.lostAt != 0 && l.n.cfg.Removed != nil {
				l.n.cfg.Removed(e.Cause, now.Sub(p.lostAt))
			}
		}
	}
}

// reportLeader reports to subscribers when this node follows another leader.
func (l *loop) reportLeader() {
	id, _ := l.core.Leader()
	if l.ended || id == l.reportedLeader {
		return
	}
	l.reportedLeader = id
	ev := gossip.LeaderChanged{Leader: id}
	if v := l.n.View(); v != nil {
		ev.Epoch = v.Epoch
		l.logLeader(id, v)
	}
	l.n.events.putEvent(ev, nil)
}

// quorum is the loop's state about the quorum around this node.
type quorum struct {
	// served is set once this node has held a lease; lapsed is when the last one ended,
	// 0 while it holds one.
	served bool
	lapsed clock.Instant
	// lost is the state last reported to subscribers.
	lost bool
	// pauses folds the lines about leases that lapsed and came back.
	pauses loglimit.Folder
}

// onLease records the state of the lease.
func (q *quorum) onLease(now clock.Instant, valid bool) {
	if q.lapsed = 0; !valid {
		q.lapsed = now
	}
	q.served = q.served || valid
}

// logPause logs, once a minute, that the lease has come back after it had lapsed. It is called
// before onLease.
func (l *loop) logPause(now clock.Instant) {
	if q := &l.quorum; q.served && q.lapsed != 0 {
		q.pauses.Log(l.n.cfg.Logger, slog.LevelInfo, "pause", "the lease had expired and is valid again: entities of this node paused; if this repeats, look for pauses of the process or of the leader's",
			"node", l.n.self.Name, "without_lease", now.Sub(q.lapsed).Round(time.Millisecond))
	}
}

// reportQuorum reports to subscribers when the quorum is lost or regained. A lapsed lease
// alone is not enough: the members may be about to elect a leader. So the quorum counts
// as lost when by its links this node reaches no quorum, or when none has had a leader
// for RemoveAfter.
func (l *loop) reportQuorum(now clock.Instant) {
	q, v := &l.quorum, l.n.View()
	if l.ended || v == nil || !q.served || q.lapsed == 0 && !q.lost {
		return
	}
	if q.lapsed == 0 {
		q.lost = false
		l.n.events.putEvent(gossip.QuorumRegained{Epoch: v.Epoch}, nil)
		l.n.recordEvent("quorum regained", 0, v.Epoch, "", slog.LevelDebug)
		l.n.cfg.Logger.LogAttrs(l.n.ctx, slog.LevelInfo, "quorum regained", slog.String("node", l.n.self.Name), slog.String("epoch", v.Epoch.String()))
		return
	}
	reaches := func(id gossip.NodeID) bool {
		p := l.evidence.peers[id]
		return id == l.n.self.ID || p != nil && p.proof == 0 && p.works()
	}
	since := now.Sub(q.lapsed)
	if q.lost || since < l.n.cfg.RemoveAfter && l.n.cfg.Partition.Quorum(v, reaches) {
		return
	}
	var reachable []gossip.NodeID
	for i := range v.Members {
		if id := v.Members[i].ID; reaches(id) {
			reachable = append(reachable, id)
		}
	}
	q.lost = true
	l.n.counters.quorumLost.Add(1)
	l.n.events.putEvent(gossip.QuorumLost{Epoch: v.Epoch, For: since, Reachable: reachable}, nil)
	l.n.recordEvent("quorum lost", 0, v.Epoch, lostText(reachable, v, since), slog.LevelWarn)
}

func lostText(reachable []gossip.NodeID, v *gossip.View, since time.Duration) string {
	return fmt.Sprintf("%d of %d members reachable, no lease for %v", len(reachable), len(v.Members), since.Round(time.Millisecond))
}

// checkAt returns when reportQuorum must be called without an event.
func (q *quorum) checkAt(removeAfter time.Duration) clock.Instant {
	if q.lapsed == 0 || q.lost || !q.served {
		return clock.Never
	}
	return q.lapsed.Add(removeAfter)
}

// namesMax is how many members a line of the log names; it counts the others.
const namesMax = 8

// logMembers logs in one line how a view has changed the cluster of this node: its own admission,
// and who joined, left, or was removed, with the evidence. The level is INFO: an operator needs to
// do nothing.
func (l *loop) logMembers(before, after *gossip.View) {
	if !voterOf(after, l.n.self.ID) {
		return
	}
	what, changes := "members have changed", membersLogged(memberDiff(before, after, l.n.departures.departureOf))
	if !voterOf(before, l.n.self.ID) {
		what, changes = "this node is in the cluster", []slog.Attr{namesAttr("all", after.Members)}
	}
	if took := takeoverLogged(before, after); took != "" {
		changes = append(changes, slog.String("takeover", took))
	}
	if len(changes) == 0 {
		return
	}
	attrs := []slog.Attr{slog.String("node", l.n.self.Name), slog.Int("members", len(after.Members))}
	l.n.cfg.Logger.LogAttrs(l.n.ctx, slog.LevelInfo, what, slices.Concat(attrs, changes, []slog.Attr{slog.String("epoch", after.Epoch.String())})...)
}

func voterOf(v *gossip.View, id gossip.NodeID) bool {
	m := v.Member(id)
	return m != nil && m.Status.Votes()
}

// membersLogged sorts the changes of members into the attributes of a line.
func membersLogged(changes []gossip.Event) (out []slog.Attr) {
	var joined, left []gossip.Member
	var removed []string
	for _, c := range changes {
		switch e := c.(type) {
		case gossip.MemberJoined:
			joined = append(joined, e.Member)
		case gossip.MemberLeft:
			left = append(left, e.Member)
		case gossip.MemberRemoved:
			removed = append(removed, fmt.Sprintf("%s (%s)", e.Member.Name, whyRemoved(e)))
		}
	}
	if len(joined) > 0 {
		out = append(out, namesAttr("joined", joined))
	}
	if len(left) > 0 {
		out = append(out, namesAttr("left", left))
	}
	if len(removed) > 0 {
		out = append(out, slog.Any("removed", someOf(removed)))
	}
	return out
}

func whyRemoved(e gossip.MemberRemoved) string {
	if e.Evidence == "" {
		return e.Cause.String()
	}
	return e.Cause.String() + ": " + e.Evidence
}

// namesAttr is an attribute with the names of members.
func namesAttr(key string, members []gossip.Member) slog.Attr {
	var names []string
	for i := range members {
		names = append(names, members[i].Name)
	}
	return slog.Any(key, someOf(names))
}

// someOf shortens a list for a line of the log.
func someOf(list []string) []string {
	if len(list) <= namesMax {
		return list
	}
	return append(slices.Clone(list[:namesMax]), fmt.Sprintf("and %d more", len(list)-namesMax))
}

// takeoverLogged describes the emergency takeover by which a view came about, "" if by none.
func takeoverLogged(before, after *gossip.View) string {
	if before == nil || before.Cluster != after.Cluster || len(after.Forks) == 0 {
		return ""
	}
	fork := after.Forks[len(after.Forks)-1]
	if fork.To <= before.Epoch {
		return ""
	}
	return fmt.Sprintf("%d of %d members, without a majority", fork.Kept, len(before.Members))
}

// logLeader logs at INFO which member leads from now on.
func (l *loop) logLeader(id gossip.NodeID, v *gossip.View) {
	m := v.Member(id)
	if m == nil {
		return
	}
	l.n.cfg.Logger.LogAttrs(l.n.ctx, slog.LevelInfo, "the cluster has a new leader", slog.String("node", l.n.self.Name),
		slog.String("leader", m.Name), slog.Bool("this_node", id == l.n.self.ID), slog.String("epoch", v.Epoch.String()))
}
