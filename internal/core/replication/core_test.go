package replication

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/replicator"
)

var majority = replicator.Majority(0, 0)

func TestUpdateIsReadBackEverywhere(t *testing.T) {
	w := newWorld(t, 1, 5, nil)
	if r := w.reply(1, w.update(1, majority, replicator.Fence{}, addTo(1, "users", "ada"), count(1, "hits", 3))); r.Err != nil {
		t.Fatal(r.Err)
	}
	for _, id := range w.order {
		r := w.reply(id, w.read(id, majority, replicator.Fence{}, "users", "hits", "none"))
		if r.Err != nil || !slices.Equal(elements(r.Values[0]), []string{"ada"}) || r.Values[1].(*crdt.GCounter).Count() != 3 || r.Values[2] != nil {
			t.Errorf("node %v read %v, %v", id, r.Values, r.Err)
		}
	}
}

func TestMajorityWriteTakesOneRoundTrip(t *testing.T) {
	w := newWorld(t, 1, 5, nil)
	w.run(time.Second)
	w.delayMax = 1 // every hop takes 1 ns
	start := w.now
	rid := w.update(1, majority, replicator.Fence{}, addTo(1, "k", "e"))
	w.run(10)
	if _, ok := w.nodes[1].replies[rid]; !ok {
		t.Errorf("not answered %v after it began, at 1 ns a hop", w.now.Sub(start))
	}
}

func TestUnreachedLevelIsOutcomeUnknown(t *testing.T) {
	w := newWorld(t, 1, 5, nil)
	w.cut = func(a, b gossip.NodeID) bool { return (a <= 2) != (b <= 2) }
	r := w.reply(1, w.update(1, majority, replicator.Fence{}, addTo(1, "k", "e")))
	var q *replicator.Error
	if !errors.Is(r.Err, replicator.ErrOutcomeUnknown) || !errors.As(r.Err, &q) {
		t.Fatalf("err = %v", r.Err)
	}
	if q.Need != 3 || q.Got != 2 || !slices.Equal(q.Missing, []gossip.NodeID{3, 4, 5}) {
		t.Errorf("%+v", q)
	}
	if got := elements(w.nodes[1].core.Value("k")); !slices.Equal(got, []string{"e"}) {
		t.Errorf("the change does not stand here: %v", got)
	}
	w.cut = nil
	w.settle(3 * time.Second)
	// The same change again has no effect here, and yet answers for the level.
	if r := w.reply(1, w.update(1, majority, replicator.Fence{}, setIn(1, "m", "a", "b", 1, 1))); r.Err != nil {
		t.Fatal(r.Err)
	}
}

func TestRepeatedWriteWithoutEffectIsConfirmedAtTheLevel(t *testing.T) {
	w := newWorld(t, 1, 3, func(c *Config) { c.NoGossip = true })
	w.cut = func(a, b gossip.NodeID) bool { return a == 1 || b == 1 }
	op := setIn(1, "m", "k", "v", 7, 1)
	if r := w.reply(1, w.update(1, majority, replicator.Fence{}, op)); !errors.Is(r.Err, replicator.ErrOutcomeUnknown) {
		t.Fatal(r.Err)
	}
	if r := w.reply(1, w.update(1, majority, replicator.Fence{}, op)); !errors.Is(r.Err, replicator.ErrOutcomeUnknown) {
		t.Fatalf("a write that nobody else has was confirmed: %v", r.Err)
	}
	w.cut = nil
	if r := w.reply(1, w.update(1, majority, replicator.Fence{}, op)); r.Err != nil {
		t.Fatal(r.Err)
	}
	w.crash(1)
	r := w.reply(2, w.read(2, majority, replicator.Fence{}, "m"))
	if v, _ := r.Values[0].(*crdt.LWWMap[string, string]).Get("k"); v != "v" {
		t.Errorf("read %q", v)
	}
}

func TestImpossibleLevelsFailAtOnce(t *testing.T) {
	w := newWorld(t, 1, 3, nil)
	for _, level := range []replicator.Level{replicator.To(4)} {
		rid := w.update(1, level, replicator.Fence{}, addTo(1, "k", "e"))
		if r := w.nodes[1].replies[rid]; !errors.Is(r.Err, replicator.ErrTooFewMembers) {
			t.Errorf("%v: %v", level, r.Err)
		}
	}
	if w.nodes[1].core.Value("k") != nil {
		t.Error("something was written")
	}
	lone := w.start(9)
	for _, level := range []replicator.Level{majority, replicator.All, replicator.To(2)} {
		rid := w.read(9, level, replicator.Fence{}, "k")
		if r := lone.replies[rid]; !errors.Is(r.Err, replicator.ErrTooFewMembers) {
			t.Errorf("without a view, %v: %v", level, r.Err)
		}
	}
	if r := lone.replies[w.update(9, replicator.Local, replicator.Fence{}, addTo(9, "k", "e"))]; r.Err != nil {
		t.Error(r.Err)
	}
}

func TestReadRepairsBothSidesBeforeItAnswers(t *testing.T) {
	w := newWorld(t, 1, 3, func(c *Config) { c.NoStream, c.NoGossip = true, true })
	w.update(3, replicator.Local, replicator.Fence{}, addTo(3, "k", "e"))
	w.cut = func(a, b gossip.NodeID) bool { return a == 2 || b == 2 }
	if r := w.reply(1, w.read(1, majority, replicator.Fence{}, "k")); r.Err != nil || len(elements(r.Values[0])) != 1 {
		t.Fatalf("%v %v", r.Values, r.Err)
	}
	w.cut = func(a, b gossip.NodeID) bool { return a == 3 || b == 3 }
	if r := w.reply(1, w.read(1, majority, replicator.Fence{}, "k")); r.Err != nil || len(elements(r.Values[0])) != 1 {
		t.Fatalf("%v %v", r.Values, r.Err)
	}
	if got := elements(w.nodes[2].core.Value("k")); len(got) != 1 {
		t.Error("the stale replica that was counted has not been repaired")
	}
}

func TestLostPeerMakesARequestTurnToOthersAtOnce(t *testing.T) {
	w := newWorld(t, 1, 5, func(c *Config) { c.BatchEvery = time.Hour; c.SpreadMax = time.Hour })
	w.run(2 * time.Second)
	w.crash(2)
	w.crash(3)
	rid := w.update(1, majority, replicator.Fence{}, addTo(1, "k", "e"))
	w.run(5 * time.Millisecond)
	if _, ok := w.nodes[1].replies[rid]; ok {
		t.Fatal("answered without the most senior two")
	}
	w.step(1, PeerLost{ID: 2})
	w.run(5 * time.Millisecond)
	if r, ok := w.nodes[1].replies[rid]; !ok || r.Err != nil {
		t.Errorf("not answered after a peer was lost: %v", r.Err)
	}
}

func TestErrorInOneOpChangesNothing(t *testing.T) {
	w := newWorld(t, 1, 1, nil)
	bad := errors.New("no")
	rid := w.update(1, replicator.Local, replicator.Fence{}, addTo(1, "a", "e"), operation.Op{Key: "b", Kind: crdt.KindGSet, Plan: func(crdt.Value) (operation.Plan, error) { return operation.Plan{}, bad }})
	if r := w.nodes[1].replies[rid]; !errors.Is(r.Err, bad) || !errors.Is(r.Err, replicator.ErrPlan) {
		t.Errorf("err = %v", r.Err)
	}
	w.update(1, replicator.Local, replicator.Fence{}, addTo(1, "c", "e"))
	rid = w.update(1, replicator.Local, replicator.Fence{}, addTo(1, "a", "e"), count(1, "c", 1))
	if r := w.nodes[1].replies[rid]; !errors.Is(r.Err, replicator.ErrKind) {
		t.Errorf("err = %v", r.Err)
	}
	if got := w.nodes[1].core.Keys(""); !slices.Equal(got, []string{"c"}) {
		t.Errorf("keys = %q", got)
	}
}

func TestLimitsRefuseWritersAndKeepRemovalsPossible(t *testing.T) {
	w := newWorld(t, 1, 1, func(c *Config) {
		c.Limits = Limits{Keys: 2, ValueBytes: 200, TotalBytes: 10000, KeyBytes: 10, RequestOps: 2}
	})
	do := func(ops ...operation.Op) error {
		return w.nodes[1].replies[w.update(1, replicator.Local, replicator.Fence{}, ops...)].Err
	}
	for i, c := range []struct {
		ops  []operation.Op
		what string
	}{
		{[]operation.Op{addTo(1, "a", "1234567890")}, ""},
		{[]operation.Op{addTo(1, "a", string(make([]byte, 190)))}, "ValueBytes"},
		{[]operation.Op{addTo(1, "a-long-name-", "x")}, "KeyBytes"},
		{[]operation.Op{addTo(1, "b", "x"), addTo(1, "c", "x")}, "Keys"},
		{[]operation.Op{addTo(1, "a", "x"), addTo(1, "a", "y"), addTo(1, "a", "z")}, "RequestOps"},
		{[]operation.Op{removeFrom("a", "1234567890")}, ""},
	} {
		err := do(c.ops...)
		var l *replicator.Error
		if c.what == "" && err != nil || c.what != "" && (!errors.As(err, &l) || l.Limit != c.what || !errors.Is(err, replicator.ErrLimit)) {
			t.Errorf("%d: %v, want %q", i, err, c.what)
		}
	}
}

// Two writers that do not see each other make a value that is larger than either may
// write: it stands at both, and can be made smaller.
func TestValueAboveTheLimitCanBeMadeSmaller(t *testing.T) {
	w := newWorld(t, 1, 2, func(c *Config) { c.Limits = Limits{ValueBytes: 200} })
	w.cut = func(a, b gossip.NodeID) bool { return true }
	for _, id := range w.order {
		if r := w.reply(id, w.update(id, replicator.Local, replicator.Fence{}, addTo(id, "k", fmt.Sprint(uint64(id), strings.Repeat("x", 130))))); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	w.cut = nil
	w.settle(5 * time.Second)
	if n := w.nodes[1].core.Key("k").Bytes; n <= 200 {
		t.Fatalf("%d bytes: not the situation that this test is about", n)
	}
	if r := w.reply(1, w.update(1, replicator.Local, replicator.Fence{}, addTo(1, "k", "y"))); !errors.Is(r.Err, replicator.ErrLimit) {
		t.Errorf("grows on: %v", r.Err)
	}
	if r := w.reply(1, w.update(1, replicator.All, replicator.Fence{}, removeFrom("k", fmt.Sprint(2, strings.Repeat("x", 130))))); r.Err != nil {
		t.Errorf("cannot be made smaller: %v", r.Err)
	}
}

// Every limit of a writer is its own typed error, counted, and leaves everything as it
// was; and what others send beyond twice a limit is refused, and counted too.
func TestEveryLimitIsTypedAndCounted(t *testing.T) {
	w := newWorld(t, 1, 3, func(c *Config) {
		c.Limits = Limits{Keys: 8, ValueBytes: 4000, TotalBytes: 9000, KeyBytes: 10, RequestOps: 3, RequestBytes: 5000, Pending: 2, FenceGroups: 1}
	})
	w.reply(1, w.update(1, replicator.All, replicator.Fence{}, addTo(1, "a", strings.Repeat("x", 3000)), addTo(1, "b", strings.Repeat("x", 1500))))
	w.cut = func(a, b gossip.NodeID) bool { return true }
	before := w.nodes[1].core.Digest()
	n := uint64(0)
	refused := func(what string, level replicator.Level, fence replicator.Fence, ops ...operation.Op) {
		t.Helper()
		var l *replicator.Error
		err := w.nodes[1].replies[w.update(1, level, fence, ops...)].Err
		if !errors.As(err, &l) || l.Limit != what || !errors.Is(err, replicator.ErrLimit) {
			t.Errorf("%v, want %s", err, what)
		}
		if n++; w.nodes[1].core.Stats().LimitErrors != n {
			t.Errorf("%s was not counted", what)
		}
	}
	refused("KeyBytes", replicator.Local, replicator.Fence{}, addTo(1, "a-long-name", "x"))
	refused("ValueBytes", replicator.Local, replicator.Fence{}, addTo(1, "a", strings.Repeat("y", 1000)))
	refused("RequestOps", replicator.Local, replicator.Fence{}, addTo(1, "c", "x"), addTo(1, "d", "x"), addTo(1, "e", "x"), addTo(1, "f", "x"))
	refused("RequestBytes", replicator.Local, replicator.Fence{}, addTo(1, "c", strings.Repeat("y", 3000)), addTo(1, "d", strings.Repeat("y", 3000)))
	refused("TotalBytes", replicator.Local, replicator.Fence{}, addTo(1, "c", strings.Repeat("y", 2000)), addTo(1, "d", strings.Repeat("y", 2900)))
	if got := w.nodes[1].core.Digest(); got != before {
		t.Error("a refused write has changed something")
	}
	w.update(1, replicator.Local, replicator.Fence{Group: "g", Term: 1}, addTo(1, "a", "y"))
	refused("FenceGroups", replicator.Local, replicator.Fence{Group: "h", Term: 1}, addTo(1, "a", "z"))
	for i := range 6 {
		w.update(1, replicator.Local, replicator.Fence{}, addTo(1, fmt.Sprint("k", i), ""))
	}
	refused("Keys", replicator.Local, replicator.Fence{}, addTo(1, "more", ""))
	w.update(1, replicator.All, replicator.Fence{}, addTo(1, "a", "p"))
	w.update(1, replicator.All, replicator.Fence{}, addTo(1, "a", "q"))
	refused("Pending", replicator.All, replicator.Fence{}, addTo(1, "a", "r"))
	large := &crdt.ORSet[string]{}
	large.Add(2, strings.Repeat("x", 9000))
	w.step(1, Received{From: 2, Msg: &Deltas{Epoch: w.view.Epoch, From: 1, Entries: []*Entry{{Items: []Item{{Key: "a", Kind: crdt.KindORSet, Bytes: large.Append(nil)}}}}}})
	if s := w.nodes[1].core.Stats(); s.Refused != 1 {
		t.Errorf("%d refused of what others send", s.Refused)
	}
}

func TestDeleteEndsAKeyAndItMayComeAgain(t *testing.T) {
	w := newWorld(t, 1, 3, nil)
	w.reply(1, w.update(1, replicator.All, replicator.Fence{}, addTo(1, "k", "old")))
	// Node 3 adds while the deletion cannot reach it: the deletion wins.
	w.cut = func(a, b gossip.NodeID) bool { return a == 3 || b == 3 }
	w.update(3, replicator.Local, replicator.Fence{}, addTo(3, "k", "late"))
	w.reply(1, w.update(1, majority, replicator.Fence{}, operation.Op{Key: "k", Delete: true}))
	w.cut = nil
	w.settle(5 * time.Second)
	if v := w.nodes[3].core.Value("k"); v != nil {
		t.Errorf("the key lives on with %v", elements(v))
	}
	w.reply(2, w.update(2, replicator.All, replicator.Fence{}, addTo(2, "k", "new")))
	w.settle(5 * time.Second)
	if got := elements(w.nodes[1].core.Value("k")); !slices.Equal(got, []string{"new"}) {
		t.Errorf("created again: %v", got)
	}
}

// Nobody has to say that a link is up again: a peer whose connection was lost is
// tried again, and its own messages show that it is there.
func TestPeerThatWasLostIsStillFedWithoutBeingToldUp(t *testing.T) {
	w := newWorld(t, 1, 2, func(c *Config) { c.NoGossip = true })
	w.step(1, PeerLost{ID: 2})
	w.update(1, replicator.Local, replicator.Fence{}, addTo(1, "k", "e"))
	w.settle(3 * time.Second)
	if w.nodes[1].core.members.byID[2].down {
		t.Error("still down after it has answered")
	}
}
