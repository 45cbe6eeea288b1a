package membership

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/view"
)

// history is the log of one process, and when it was killed; clock.Never if it was not.
type history struct {
	name string
	log  []record
	end  clock.Instant
}

// holding is a time during which one node held a lease, as long as the log allows: from
// the decision of the grant to the record of its end.
type holding struct {
	process  string
	node     gossip.NodeID
	leader   bool
	from, to clock.Instant
}

func (h holding) String() string {
	return fmt.Sprintf("%s as %v from %v to %v", h.process, h.node, h.from, h.to)
}

// clockSlack is how far the clocks of two processes of one machine may differ: each
// calibrates its CLOCK_BOOTTIME for itself (internal/clock).
const clockSlack = time.Millisecond

// contradictions compares the processes' logs and returns violations: two leader leases
// at the same time, a lease outside the newest view, two views of one epoch.
func contradictions(all []history) []string {
	var held []holding
	for _, h := range all {
		held = append(held, h.holdings()...)
	}
	return slices.Concat(twoLeaders(held), twoViews(all), outsiders(all, held))
}

// holdings returns the leases of a process's nodes, renewals joined.
func (h history) holdings() []holding {
	var out []holding
	open := map[gossip.NodeID]record{}
	finish := func(r record, at clock.Instant) {
		to := clock.Min(clock.Min(r.Lease.Until, at), h.end)
		if !r.Held || !r.From.Before(to) {
			return
		}
		last := len(out) - 1
		if last >= 0 && out[last].node == r.Node && out[last].leader == r.Lease.Leader && !out[last].to.Before(r.From) {
			out[last].to = to
			return
		}
		out = append(out, holding{h.name, r.Node, r.Lease.Leader, r.From, to})
	}
	for _, r := range h.log {
		if r.Event == recordLease {
			finish(open[r.Node], r.At)
			open[r.Node] = r
		}
	}
	for _, r := range open {
		finish(r, clock.Never)
	}
	return out
}

// twoLeaders finds overlapping leader leases of two nodes.
func twoLeaders(held []holding) []string {
	leaders := slices.DeleteFunc(slices.Clone(held), func(h holding) bool { return !h.leader })
	slices.SortFunc(leaders, func(a, b holding) int { return cmp.Compare(a.from, b.from) })
	var out []string
	for i, a := range leaders {
		for _, b := range leaders[i+1:] {
			if a.node != b.node && b.from.Add(clockSlack).Before(a.to) {
				out = append(out, fmt.Sprintf("two leader leases at the same time: %v; %v", a, b))
			}
		}
	}
	return out
}

// stage is a view, and when a process first recorded it.
type stage struct {
	view *gossip.View
	at   clock.Instant
}

type stageKey struct {
	cluster uint64
	epoch   gossip.Epoch
}

// stages returns all recorded views.
func stages(all []history) map[stageKey]stage {
	out := map[stageKey]stage{}
	for _, h := range all {
		for _, r := range h.log {
			if r.Event != recordView {
				continue
			}
			key := stageKey{r.View.Cluster, r.View.Epoch}
			if s, known := out[key]; !known || r.At.Before(s.at) {
				out[key] = stage{r.View, r.At}
			}
		}
	}
	return out
}

// twoViews finds views of one epoch that differ.
func twoViews(all []history) []string {
	known := stages(all)
	var out []string
	for _, h := range all {
		for _, r := range h.log {
			if r.Event != recordView {
				continue
			}
			s := known[stageKey{r.View.Cluster, r.View.Epoch}]
			if !slices.EqualFunc(s.view.Members, r.View.Members, func(a, b gossip.Member) bool { return a.ID == b.ID && a.Status == b.Status }) {
				out = append(out, fmt.Sprintf("two views %v of cluster %x: %v; %v", r.View.Epoch, r.View.Cluster, s.view.Members, r.View.Members))
			}
		}
	}
	return out
}

// outsiders finds leases of nodes that a view recorded by then has left out.
func outsiders(all []history, held []holding) []string {
	known := stages(all)
	var out []string
	for _, h := range held {
		for key, s := range known {
			if s.view.Member(h.node) == nil && wasIn(known, key, h.node) && s.at.Add(clockSlack).Before(h.to) {
				out = append(out, fmt.Sprintf("view %v left %v out at %v; its lease: %v", key.epoch, h.node, s.at, h))
			}
		}
	}
	return out
}

// wasIn reports whether a node stood in an earlier view of the cluster.
func wasIn(known map[stageKey]stage, key stageKey, id gossip.NodeID) bool {
	for k, s := range known {
		if k.cluster == key.cluster && k.epoch < key.epoch && s.view.Member(id) != nil {
			return true
		}
	}
	return false
}

// The checker must find each kind of violation.
func TestContradictionsAreFound(t *testing.T) {
	lease := func(node gossip.NodeID, from, until int64, leader, held bool) record {
		return record{At: clock.Instant(from * 1e6), From: clock.Instant(from * 1e6), Node: node, Event: recordLease, Held: held,
			Lease: view.Lease{Until: clock.Instant(until * 1e6), Leader: leader}}
	}
	stand := func(node gossip.NodeID, at int64, epoch gossip.Epoch, members ...gossip.NodeID) record {
		v := &gossip.View{Cluster: 1, Epoch: epoch}
		for _, id := range members {
			v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: id}, Status: gossip.Up})
		}
		return record{At: clock.Instant(at * 1e6), Node: node, Event: recordView, View: v}
	}
	for name, test := range map[string]struct {
		a, b []record
		end  int64
		want int
	}{
		"in turn":       {[]record{lease(1, 10, 100, true, true)}, []record{lease(2, 100, 200, true, true)}, 0, 0},
		"overlap":       {[]record{lease(1, 10, 100, true, true)}, []record{lease(2, 90, 200, true, true)}, 0, 1},
		"after renewal": {[]record{lease(1, 10, 50, true, true), lease(1, 40, 100, true, true)}, []record{lease(2, 90, 200, true, true)}, 0, 1},
		"withdrawn":     {[]record{lease(1, 10, 100, true, true), lease(1, 80, 0, false, false)}, []record{lease(2, 90, 200, true, true)}, 0, 0},
		"killed":        {[]record{lease(1, 10, 100, true, true)}, []record{lease(2, 90, 200, true, true)}, 85, 0},
		"members":       {[]record{lease(1, 10, 100, true, true)}, []record{lease(2, 90, 200, false, true)}, 0, 0},
		"left out": {[]record{stand(1, 1, 1, 1, 2), lease(1, 10, 100, true, true)},
			[]record{stand(2, 1, 1, 1, 2), lease(2, 10, 60, false, true), stand(1, 50, 2, 1)}, 0, 1},
		"left out, later": {[]record{stand(1, 1, 1, 1, 2), lease(1, 10, 100, true, true)},
			[]record{stand(2, 1, 1, 1, 2), lease(2, 10, 60, false, true), stand(1, 70, 2, 1)}, 0, 0},
		"not yet in":    {[]record{stand(1, 1, 1, 1), lease(1, 10, 100, true, true)}, []record{stand(2, 20, 2, 1, 2), lease(2, 30, 60, false, true)}, 0, 0},
		"views differ":  {[]record{stand(1, 1, 1, 1, 2)}, []record{stand(2, 2, 1, 1, 3)}, 0, 1},
		"a new cluster": {[]record{stand(1, 1, 1, 1)}, []record{stand(2, 2, 2, 2), lease(2, 3, 60, true, true)}, 0, 0},
	} {
		a := history{"a", test.a, clock.Never}
		if test.end != 0 {
			a.end = clock.Instant(test.end * 1e6)
		}
		if got := contradictions([]history{a, {"b", test.b, clock.Never}}); len(got) != test.want {
			t.Errorf("%s: %d contradictions, want %d: %v", name, len(got), test.want, got)
		}
	}
}
