package membership

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/transport"
)

// town is a simulated network of forming machines on virtual time. Its view core is
// trivial: a node that forms is in a view of one, and a node that learns of a cluster is
// admitted immediately.
type town struct {
	t     *testing.T
	rng   *rand.Rand
	now   clock.Instant
	queue []happening
	seq   int
	nodes map[string]*townNode
	// slow is the maximum delay of a message.
	slow time.Duration
	// cut reports whether two nodes cannot talk.
	cut func(a, b string) bool
	// full makes clusters admit no node.
	full bool
	// formed lists the nodes that formed a cluster, with the time.
	formed []string
}

type happening struct {
	at  clock.Instant
	seq int
	do  func()
}

type townNode struct {
	town *town
	f    *forming
	peer transport.Peer
	up   bool
	view *gossip.View
	// joinedAt is when it was first in a view.
	joinedAt clock.Instant
	// warned and logged are the lines of its log at Warn and Info.
	warned, logged []string
	over           string
}

func newTown(t *testing.T, seed uint64) *town {
	return &town{t: t, rng: rand.New(rand.NewPCG(seed, 0)), now: 1, nodes: map[string]*townNode{},
		slow: 5 * time.Millisecond, cut: func(string, string) bool { return false }}
}

func (w *town) after(d time.Duration, do func()) {
	w.seq++
	w.queue = append(w.queue, happening{w.now.Add(d), w.seq, do})
}

// travel runs do after a random delay.
func (w *town) travel(do func()) { w.after(time.Duration(w.rng.Int64N(int64(w.slow)+1)), do) }

// start starts a node after d.
func (w *town) start(d time.Duration, addr string, cfg Config) *townNode {
	cfg = cfg.withDefaults()
	cfg.Seed = w.rng.Uint64()
	n := &townNode{town: w, peer: transport.Peer{ID: gossip.NodeID(w.rng.Uint64() | 1), Name: addr, Addr: addr}}
	w.after(d, func() {
		n.f = newForming(gossip.Node{ID: n.peer.ID, Name: addr, Addr: addr}, &cfg, func() time.Time { return time.Unix(7, 0) })
		n.up = true
		w.nodes[addr] = n
		n.do(func(a *actions) { n.f.resolve(w.now, cfg.Join) })
	})
	return n
}

func (w *town) run(d time.Duration) {
	end := w.now.Add(d)
	for {
		i := -1
		for j := range w.queue {
			if i < 0 || w.queue[j].at < w.queue[i].at || w.queue[j].at == w.queue[i].at && w.queue[j].seq < w.queue[i].seq {
				i = j
			}
		}
		next := clock.Never
		if i >= 0 {
			next = w.queue[i].at
		}
		for _, n := range w.sorted() {
			next = clock.Min(next, n.f.nextStepAt())
		}
		if next.After(end) {
			w.now = end
			return
		}
		if next.After(w.now) {
			w.now = next
		} else {
			w.now++ // a deadline in the past must not stop time
		}
		if i >= 0 && !w.queue[i].at.After(w.now) {
			h := w.queue[i]
			w.queue = slices.Delete(w.queue, i, i+1)
			h.do()
		}
		for _, n := range w.sorted() {
			if !n.f.nextStepAt().After(w.now) {
				n.do(func(*actions) {})
			}
		}
	}
}

func (w *town) sorted() []*townNode {
	var out []*townNode
	for _, n := range w.nodes {
		if n.up {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b *townNode) int { return strings.Compare(a.peer.Addr, b.peer.Addr) })
	return out
}

// do applies an input to the machine, steps it, and performs its requests.
func (n *townNode) do(what func(*actions)) {
	if !n.up {
		return
	}
	var a actions
	what(&a)
	n.f.stepForming(n.town.now, &a)
	for !a.isEmpty() {
		b := a
		a = actions{}
		n.carryOut(&b, &a)
	}
}

func (n *townNode) carryOut(b, a *actions) {
	w := n.town
	for _, ev := range b.core {
		switch ev := ev.(type) {
		case view.Form:
			w.formed = append(w.formed, fmt.Sprintf("%s at %v", n.peer.Addr, time.Duration(w.now)))
			n.enter(&gossip.View{Cluster: uint64(n.peer.ID), Origin: ev.Origin, Epoch: gossip.FirstEpoch(ev.Generation),
				Members: []gossip.Member{{Node: n.f.self, Status: gossip.Up}}}, a)
		case view.Contacts:
			if n.view == nil {
				to := ev.Nodes[0]
				w.travel(func() { n.join(to) })
			}
		}
	}
	for _, o := range b.send {
		w.travel(func() { w.deliver(n, o) })
	}
	for _, addr := range b.probe {
		w.travel(func() { w.probe(n, addr) })
	}
	for _, x := range b.notes {
		switch x.level {
		case slog.LevelWarn:
			n.warned = append(n.warned, x.kind+": "+x.detail)
		case slog.LevelInfo:
			n.logged = append(n.logged, x.kind+": "+x.detail)
		}
	}
	if b.over != "" {
		n.over = b.over
		n.up = false
	}
}

func (n *townNode) enter(v *gossip.View, a *actions) {
	n.view, n.joinedAt = v, n.town.now
	n.f.onView(n.town.now, v, a)
	n.f.onLease(n.town.now, true)
}

func (n *townNode) join(to gossip.Node) {
	host := n.town.nodes[to.Addr]
	if n.town.full || n.view != nil || host == nil || !host.up || host.view == nil || n.town.cut(n.peer.Addr, to.Addr) {
		return
	}
	n.do(func(a *actions) { n.enter(host.view, a) })
}

func (w *town) deliver(from *townNode, o outgoing) {
	for _, to := range w.nodes {
		if to.peer.ID != o.to || !to.up || w.cut(from.peer.Addr, to.peer.Addr) {
			continue
		}
		m, err := decodeMessage(appendMessage(nil, o.msg))
		if err != nil {
			w.t.Fatal(err)
		}
		to.do(func(a *actions) {
			switch m := m.(type) {
			case *contact:
				to.f.onContact(w.now, from.peer.ID, m, a)
			case *bootstrapClaim:
				to.f.onClaim(w.now, from.peer.ID, m, a)
			case *claimVote:
				to.f.onVote(w.now, from.peer.ID, m, a)
			}
		})
		return
	}
}

func (w *town) probe(n *townNode, addr string) {
	to := w.nodes[addr]
	w.travel(func() {
		n.do(func(a *actions) {
			switch {
			case w.cut(n.peer.Addr, addr):
				n.f.onProbe(w.now, addr, transport.Peer{}, errors.New("time-out"), a)
			case to == nil || !to.up:
				n.f.onProbe(w.now, addr, transport.Peer{}, syscall.ECONNREFUSED, a)
			default:
				n.f.onProbe(w.now, addr, to.peer, nil, a)
			}
		})
	})
}

func addrsOf(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("10.0.0.%d:7101", i+1))
	}
	return out
}

// oneCluster fails the test unless all nodes are in one cluster.
func (w *town) oneCluster() {
	w.t.Helper()
	if len(w.formed) != 1 {
		w.t.Fatalf("clusters were formed by %v", w.formed)
	}
	for _, n := range w.sorted() {
		if n.view == nil {
			w.t.Fatalf("%s stands in no view; formed %v; warned %q", n.peer.Addr, w.formed, n.warned)
		}
	}
}

// TestNodesThatStartTogetherFormOneCluster plays in a model of time, beside the tests that wait for real processes.
func TestNodesThatStartTogetherFormOneCluster(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 2, 3, 5, 10, 30} {
		for _, spread := range []time.Duration{0, 10 * time.Millisecond, 300 * time.Millisecond, 3 * time.Second} {
			var worst time.Duration
			for seed := range uint64(max(3, 20-size)) {
				w := newTown(t, seed)
				all := addrsOf(size)
				points := all[:min(size, []int{3, 5, size}[seed%3])]
				for _, addr := range all {
					w.start(time.Duration(w.rng.Int64N(int64(spread)+1)), addr, Config{Join: points})
				}
				w.run(spread + 6*time.Second)
				w.oneCluster()
				for _, n := range w.nodes {
					worst = max(worst, time.Duration(n.joinedAt))
				}
			}
			t.Logf("%2d nodes within %4v: all in one cluster after %v at most", size, spread, worst)
			if spread == 0 && size > 1 && worst > 400*time.Millisecond {
				t.Errorf("%d nodes took %v", size, worst)
			}
		}
	}
}

// The nodes have different lists: each lists only its neighbour. The lists spread, and
// the lowest of all forms the cluster.
func TestContactPointsSpread(t *testing.T) {
	for seed := range uint64(30) {
		w := newTown(t, seed)
		all := addrsOf(5)
		for i, addr := range all {
			w.start(0, addr, Config{Join: []string{all[(i+1)%len(all)]}})
		}
		w.run(5 * time.Second)
		w.oneCluster()
	}
}

func TestNoClusterIsFormedByFewerThanExpected(t *testing.T) {
	w := newTown(t, 1)
	all := addrsOf(5)
	for _, addr := range all[:2] {
		w.start(0, addr, Config{Join: all})
	}
	w.run(15 * time.Second)
	if len(w.formed) != 0 {
		t.Fatalf("2 of 5 formed: %v", w.formed)
	}
	if got := w.nodes[all[0]].warned; !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "2 of the contact points") }) {
		t.Errorf("the operator is not told: %q", got)
	}
	w.start(0, all[2], Config{Join: all})
	w.run(6 * time.Second)
	w.oneCluster() // a majority of 3 suffices after it has settled
}

// TestAWarningOfManyContactPointsIsShort checks that a node that waits for a long list of contact points
// names the first of them, and counts the rest: a line for each of fifty would hide the others.
func TestAWarningOfManyContactPointsIsShort(t *testing.T) {
	w := newTown(t, 1)
	all := addrsOf(50)
	w.start(0, all[0], Config{Join: all})
	w.run(15 * time.Second)
	got := w.nodes[all[0]].warned
	i := slices.IndexFunc(got, func(s string) bool { return strings.Contains(s, "of the contact points") })
	if i < 0 || !strings.Contains(got[i], all[4]+", 45 more answer, 26 are expected") || !strings.Contains(got[i], "; 44 more)") || len(got[i]) > 1000 {
		t.Errorf("warnings %q", got)
	}
}

// TestManyNodesAreAskedLessOften checks that 24 nodes that start together form one cluster, and
// that a node asks many contact points less often than few, yet more than twice while an answer counts.
func TestManyNodesAreAskedLessOften(t *testing.T) {
	for n, want := range map[int]time.Duration{1: askEvery, askedOften: askEvery, 2 * askedOften: 2 * askEvery, 200: askSeldom} {
		f := &forming{points: newPointTable("10.0.0.1:1")}
		for i := range n {
			f.points.findOrAdd(pointsNow, fmt.Sprintf("10.1.0.%d:1", i))
		}
		if got := f.askInterval(); got != want || 3*got > freshFor {
			t.Errorf("%d contact points are asked every %v, want %v", n, got, want)
		}
	}
	w := newTown(t, 1)
	all := addrsOf(24)
	for _, addr := range all {
		w.start(0, addr, Config{Join: all})
	}
	w.run(2 * time.Second)
	w.oneCluster()
}

// Both sides of a split have contact points; only the side with more than half of
// them forms, and the other joins it when the network heals.
func TestASplitAtTheFirstStartFormsOneCluster(t *testing.T) {
	for seed := range uint64(20) {
		w := newTown(t, seed)
		all := addrsOf(5)
		split := true
		w.cut = func(a, b string) bool { return split && (a <= all[1]) != (b <= all[1]) }
		for _, addr := range all {
			w.start(0, addr, Config{Join: all})
		}
		w.run(10 * time.Second)
		if len(w.formed) != 1 {
			t.Fatalf("formed %v", w.formed)
		}
		split = false
		w.run(5 * time.Second)
		w.oneCluster()
	}
}

// One node can reach both sides, which cannot reach each other: in any order of messages it
// promises only one side.
func TestAPromiseIsExclusive(t *testing.T) {
	for seed := range uint64(200) {
		w := newTown(t, seed)
		w.slow = 300 * time.Millisecond
		all := addrsOf(3)
		w.cut = func(a, b string) bool { return a != b && a != all[2] && b != all[2] }
		for _, addr := range all {
			w.start(time.Duration(w.rng.Int64N(int64(2*time.Second))), addr, Config{Join: all, SettleAfter: 50 * time.Millisecond})
		}
		w.run(20 * time.Second)
		if len(w.formed) > 1 {
			t.Fatalf("seed %d: formed %v", seed, w.formed)
		}
	}
}

func TestALateNodeJoinsAndFormsNothing(t *testing.T) {
	w := newTown(t, 3)
	all := addrsOf(4)
	for _, addr := range all[1:] {
		w.start(0, addr, Config{Join: all})
	}
	w.run(3 * time.Second)
	w.start(0, all[0], Config{Join: all}) // the lowest of all
	w.run(2 * time.Second)
	w.oneCluster()
}

func TestOneClearLinePerCause(t *testing.T) {
	w := newTown(t, 4)
	n := w.start(0, "10.0.0.1:1", Config{Join: []string{"10.0.0.9:1"}})
	w.run(2 * time.Second)
	if len(n.logged) > 0 {
		t.Errorf("logged %q after two seconds", n.logged)
	}
	w.run(7 * time.Second)
	if len(n.warned) > 0 {
		t.Errorf("warned %q of a node that may start soon", n.warned)
	}
	w.run(41 * time.Second)
	if len(n.logged) != 1 || !strings.HasPrefix(n.logged[0], "waiting for other nodes: ") || !strings.Contains(n.logged[0], "10.0.0.9:1: nothing listens there") {
		t.Errorf("a person who watches the start read %q", n.logged)
	}
	if len(n.warned) != 1 || !strings.Contains(n.warned[0], "10.0.0.9:1: nothing listens there") {
		t.Errorf("warned %q", n.warned)
	}
	var a actions
	err := &transport.RefusedError{Addr: "10.0.0.9:1", Reason: `cluster name is "a" there, "b" here`}
	n.f.onProbe(w.now, "10.0.0.9:1", transport.Peer{}, err, &a)
	n.f.onProbe(w.now, "10.0.0.9:1", transport.Peer{}, err, &a)
	if len(a.notes) != 1 || !strings.Contains(a.notes[0].detail, "cluster name is") {
		t.Errorf("noted %v", a.notes)
	}
}

// A former node that other nodes list is not one of our contact points.
func TestLearnedAddressesMayBeEmpty(t *testing.T) {
	w := newTown(t, 4)
	w.start(0, "10.0.0.2:1", Config{Join: []string{"10.0.0.2:1", "10.0.0.8:1"}})
	w.run(3 * time.Second)
	n := w.start(0, "10.0.0.3:1", Config{Join: []string{"10.0.0.2:1"}})
	w.run(3 * time.Second)
	if len(n.warned) > 0 {
		t.Errorf("warned %q", n.warned)
	}
}

func TestALiveClusterDrawsInANodeWithoutQuorum(t *testing.T) {
	w := newTown(t, 5)
	a := w.start(0, "10.0.0.1:1", Config{Bootstrap: true, ForeignClusters: gossip.ForeignWarn})
	b := w.start(0, "10.0.0.2:1", Config{Bootstrap: true, Join: []string{"10.0.0.1:1"}, ForeignClusters: gossip.ForeignWarn})
	w.run(5 * time.Second)
	if b.over != "" || !slices.ContainsFunc(b.warned, func(s string) bool { return strings.Contains(s, "another cluster of the same name") }) {
		t.Fatalf("two live clusters: over %q, warned %q", b.over, b.warned)
	}
	b.f.onLease(w.now, false)
	w.run(6 * time.Second)
	if b.over == "" || a.over != "" {
		t.Errorf("over: %q and %q", a.over, b.over)
	}
}

func TestReformAfterTheWholeViewIsDead(t *testing.T) {
	w := newTown(t, 6)
	n := w.start(0, "10.0.0.1:1", Config{Bootstrap: true, ReformAfter: 5 * time.Second})
	w.run(time.Second)
	n.f.beyondHelp(w.now, true) // ignored with a lease
	w.run(10 * time.Second)
	n.f.onLease(w.now, false)
	n.f.beyondHelp(w.now, true)
	w.run(4 * time.Second)
	if n.over != "" {
		t.Fatalf("over too early: %q", n.over)
	}
	w.run(2 * time.Second)
	if n.over == "" {
		t.Error("it never formed anew")
	}
}
