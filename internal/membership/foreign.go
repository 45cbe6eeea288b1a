package membership

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/view"
)

// How a node handles other clusters of the same name. The view core decides which of two
// stands (package view, foreign.go). This file reports such clusters to the core and its
// decisions to operators and subscribers, and ends the incarnations of the cluster that
// yields.

const (
	// foreignMax bounds the other clusters that are counted.
	foreignMax = 64
	// foreignFor is how long one counts after its last message.
	foreignFor = 15 * time.Second
	// dissolveAfter is how long the layers above may take to stop once the cluster has
	// yielded; then the incarnation ends without them.
	dissolveAfter = time.Minute
)

// foreigners holds the other clusters that sent messages recently.
type foreigners struct {
	heard map[uint64]clock.Instant
	// warned is the last one that was logged.
	warned uint64
}

// noteSeen records a message of another cluster, and reports whether it is a new one.
func (f *foreigners) noteSeen(now clock.Instant, cluster uint64) (news bool) {
	if f.heard == nil {
		f.heard = map[uint64]clock.Instant{}
	}
	if _, known := f.heard[cluster]; known || len(f.heard) < foreignMax {
		f.heard[cluster] = now
	}
	news = f.warned != cluster
	f.warned = cluster
	return news
}

// countRecent returns how many clusters sent messages recently.
func (f *foreigners) countRecent(now clock.Instant, pace time.Duration) int {
	for id, at := range f.heard { // order-free: each is checked by itself
		if now.Sub(at) > max(foreignFor, 5*pace) {
			delete(f.heard, id)
		}
	}
	return len(f.heard)
}

// onForeign handles a message of another cluster that can act.
func (f *forming) onForeign(now clock.Instant, m *contact, a *actions) {
	news := f.foreign.noteSeen(now, m.Cluster)
	if f.cfg.ForeignClusters == gossip.ForeignMerge {
		if f.live {
			nodes := append([]gossip.Node{m.From}, m.Members...)
			a.core = append(a.core, view.ForeignSeen{Cluster: m.Cluster, Nodes: nodes})
		}
		return
	}
	if news {
		a.addWarning("another cluster of the same name", "at "+m.From.Addr+"; ForeignClusters is warn, so both remain: stop the nodes of one of them")
	}
}

// checkDissolve ends the incarnation when the layers above have not done so in time.
func (f *forming) checkDissolve(now clock.Instant, a *actions) {
	switch {
	case f.view.Yields() == nil:
	case f.yieldedAt == 0:
		f.yieldedAt = now
	case now.Sub(f.yieldedAt) >= dissolveAfter:
		a.over, a.outranked = reasonYielded, true
	}
}

// Reasons for ends after which another cluster continues.
const (
	reasonYielded   = "its cluster has yielded to another one of the same name"
	reasonOvertaken = "this node lost its quorum and found a live cluster of the same name at "
)

// Dissolve ends this incarnation after its cluster has yielded to another one
// (ForeignCluster). Otherwise it does nothing. It does not wait for the end; Removed
// reports it.
func (n *Node) Dissolve() {
	n.inbox.Put(call(func(l *loop) {
		if l.n.View().Yields() != nil {
			l.endIncarnation(l.n.clock.Now(), gossip.Removed{Reason: reasonYielded, Outranked: true})
		}
	}))
}

// contestDiff returns the changes of contests between two views, of which the first may
// be nil.
func contestDiff(before, after *gossip.View) []gossip.Event {
	var out []gossip.Event
	for i := range after.Foreign {
		f := &after.Foreign[i]
		if was := before.Contest(f.Cluster); was == nil || was.Verdict != f.Verdict {
			out = append(out, gossip.ForeignCluster{Cluster: f.Cluster, Nodes: f.Nodes, Verdict: f.Verdict, Epoch: after.Epoch})
		}
	}
	for i := 0; before != nil && i < len(before.Foreign); i++ {
		if f := &before.Foreign[i]; after.Contest(f.Cluster) == nil {
			out = append(out, gossip.ForeignCluster{Cluster: f.Cluster, Nodes: f.Nodes, Epoch: after.Epoch})
		}
	}
	return out
}

// noteForeign logs the changes of contests.
func (l *loop) noteForeign(before, after *gossip.View) {
	for _, ev := range contestDiff(before, after) {
		f := ev.(gossip.ForeignCluster)
		var addrs []string
		for i := range f.Nodes {
			addrs = append(addrs, f.Nodes[i].Addr)
		}
		level, kind, detail := slog.LevelError, "another cluster of the same name", ""
		switch was := before.Contest(f.Cluster); {
		case f.Verdict == gossip.VerdictContested && was == nil:
			l.n.counters.contests.Add(1)
			detail = "not ready until one of the two has yielded; this happens when nodes have formed two clusters: check contact points and BootstrapExpect"
		case f.Verdict == gossip.VerdictStands:
			level, detail = slog.LevelWarn, "this cluster stands; the other one should yield, and its nodes join this one; no action is needed"
		case f.Verdict == gossip.VerdictYields:
			kind = "this cluster yields to another one of the same name"
			detail = "entities here are stopped, states are not merged, this node joins the other cluster"
		case f.Verdict == 0 && was != nil && was.Verdict == gossip.VerdictStands && after.Epoch.Generation() > before.Epoch.Generation():
			level, kind, detail = slog.LevelWarn, "another cluster of the same name has yielded", "its nodes join this one; their states are not merged"
		case f.Verdict == 0:
			detail = "undecided: both clusters continue and are ready; the contest begins again later; see the leader's log for the reason"
		default:
			continue
		}
		l.n.recordEvent(kind, 0, after.Epoch, detail, slog.LevelDebug)
		l.n.cfg.Logger.LogAttrs(l.n.ctx, level, kind, slog.String("node", l.n.self.Name), slog.String("cluster", clusterName(f.Cluster)),
			slog.Any("addrs", addrs), slog.String("epoch", after.Epoch.String()), slog.String("detail", detail))
	}
}

// countForeign updates the gauge: the clusters that sent messages recently, and at least
// those in contest.
func (l *loop) countForeign(now clock.Instant) {
	n := l.forming.foreign.countRecent(now, l.forming.askInterval())
	if v := l.n.View(); v != nil {
		for i := range v.Foreign {
			if _, heard := l.forming.foreign.heard[v.Foreign[i].Cluster]; !heard {
				n++
			}
		}
	}
	l.n.counters.foreign.Store(int64(n))
}

// foreignStatus lists the other clusters for Status.
func (l *loop) foreignStatus() []string {
	var out []string
	for id := range l.forming.foreign.heard { // order-free: sorted below
		verdict := "seen"
		if f := l.n.View().Contest(id); f != nil {
			verdict = f.Verdict.String()
		}
		out = append(out, fmt.Sprintf("%s: %s", clusterName(id), verdict))
	}
	slices.Sort(out)
	return out
}

// clusterName writes a cluster's id without losing digits in JSON.
func clusterName(id uint64) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprintf("%016x", id)
}
