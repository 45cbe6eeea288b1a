package membership

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/sim/process"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/internal/sim/seed"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

func newTestRun() *run.Run {
	r := run.New(&seed.Options{})
	r.Config = seed.Config{Lease: time.Second, Evidence: gossip.EvidenceFull}
	return r
}

func TestLeasesAreAnnouncedWhenTheyTurn(t *testing.T) {
	r := newTestRun()
	p := &process.Process{Run: r, Thread: virtual.NewThread(&r.Time), Clock: virtual.NewClock(1000, 0)}
	var turns []bool
	l := lease{p: p, onTurn: func(valid bool) { turns = append(turns, valid) }}
	until := func(d time.Duration) view.Lease { return view.Lease{Until: clock.Instant(1000).Add(d)} }
	l.setHeld(until(time.Second))
	l.setHeld(until(2 * time.Second)) // renewed
	r.Until(virtual.Instant(1500 * time.Millisecond))
	if !slices.Equal(turns, []bool{true}) || !l.isValid() {
		t.Fatalf("turned %v before the end", turns)
	}
	r.Until(virtual.Instant(3 * time.Second))
	if !slices.Equal(turns, []bool{true, false}) || l.trueEnd() != virtual.Instant(2*time.Second) {
		t.Fatalf("turned %v by the end %d", turns, l.trueEnd())
	}
	l.setHeld(until(2500 * time.Millisecond)) // given too late
	if l.window != virtual.Instant(2*time.Second) {
		t.Errorf("a lease that was never valid moves the window to %d", l.window)
	}
	l.holds++
	l.setHeld(until(time.Minute))
	if l.isValid() || len(turns) != 2 {
		t.Errorf("a lease that is held back is valid, turned %v", turns)
	}
	l.endHold()
	if !l.isValid() || !slices.Equal(turns, []bool{true, false, true}) {
		t.Errorf("turned %v after the hold", turns)
	}
}

func TestIsolationEndsWithADeadView(t *testing.T) {
	i := isolation{lostSince: virtual.Never, deadSince: virtual.Never}
	at := func(d time.Duration) virtual.Instant { return virtual.Instant(d) }
	yes, no := func() bool { return true }, func() bool { return false }
	for _, step := range []struct {
		at    time.Duration
		lease bool
		dead  func() bool
		over  bool
	}{
		{0, true, yes, false},
		{time.Second, false, no, false},
		{10 * time.Second, false, yes, false},
		{12 * time.Second, false, no, false}, // one is back: the time starts anew
		{13 * time.Second, false, yes, false},
		{13*time.Second + ReformAfter, false, yes, false},
		{14*time.Second + ReformAfter, false, yes, true},
	} {
		if over := i.update(at(step.at), step.lease, step.dead); over != step.over {
			t.Errorf("at %v: over %v", step.at, over)
		}
	}
	if got := i.lasts(at(21 * time.Second)); got != 20*time.Second {
		t.Errorf("isolated for %v", got)
	}
}

// TestDecisionsNeedQuorums: a view is decided by quorums of its base and of itself. Only a new
// generation may count members that are dead.
func TestDecisionsNeedQuorums(t *testing.T) {
	members := func(ids ...gossip.NodeID) (all []gossip.Member) {
		for _, id := range ids {
			all = append(all, gossip.Member{Node: gossip.Node{ID: id}, Status: gossip.Up})
		}
		return all
	}
	first := gossip.FirstEpoch(1)
	base := &gossip.View{Cluster: 1, Epoch: first, Members: members(1, 2, 3)}
	next := &gossip.View{Cluster: 1, Epoch: first + 1, Members: members(1, 2)}
	takeover := &gossip.View{Cluster: 1, Epoch: gossip.FirstEpoch(2), Members: members(1)}
	j := NewJudge(newTestRun(), func() {})
	for name, c := range map[string]struct {
		next *gossip.View
		acks []gossip.NodeID
		want bool
	}{
		"both":          {next, []gossip.NodeID{1, 2}, true},
		"one of three":  {next, []gossip.NodeID{1}, false},
		"not of itself": {next, []gossip.NodeID{2, 3}, false},
		"alone":         {takeover, []gossip.NodeID{1}, true},
	} {
		acks := map[gossip.NodeID]bool{}
		for _, id := range c.acks {
			acks[id] = true
		}
		if got := j.isRightful(&attempt{base: base, next: c.next, leader: c.acks[0], acks: acks}); got != c.want {
			t.Errorf("%s: decided %v", name, got)
		}
	}
	p := &process.Process{Run: j.run, Thread: virtual.NewThread(&j.run.Time)}
	j.drivers[3] = &Driver{p: p}
	if j.isRightful(&attempt{base: base, next: takeover, leader: 1, acks: map[gossip.NodeID]bool{1: true}}) {
		t.Error("a takeover is decided although a member lives that did not accept it")
	}
}

// TestViewsOfOneStepAreNoted: a leader that is a quorum by itself decides two views in one step,
// and publishes the second. The first is decided as well, if the leader could decide it alone.
func TestViewsOfOneStepAreNoted(t *testing.T) {
	member := func(id gossip.NodeID, s gossip.Status) gossip.Member {
		return gossip.Member{Node: gossip.Node{ID: id}, Status: s}
	}
	first := gossip.FirstEpoch(1)
	one := []gossip.Member{member(1, gossip.Up)}
	three := []gossip.Member{member(1, gossip.Up), member(2, gossip.Up), member(4, gossip.Up)}
	joined := []gossip.Member{member(1, gossip.Up), member(3, gossip.Joining)}
	for name, c := range map[string]struct {
		before []gossip.Member
		base   *gossip.View
		want   bool
	}{
		"alone":                {one, &gossip.View{Cluster: 1, Epoch: first + 1, Members: joined}, true},
		"one of three":         {three, &gossip.View{Cluster: 1, Epoch: first + 1, Members: three}, false},
		"of another cluster":   {one, &gossip.View{Cluster: 2, Epoch: first + 1, Members: joined}, false},
		"not before its view":  {one, &gossip.View{Cluster: 1, Epoch: first + 2, Members: joined}, false},
		"not after the former": {one, &gossip.View{Cluster: 1, Epoch: first, Members: joined}, false},
		"with a second quorum": {one, &gossip.View{Cluster: 1, Epoch: first + 1, Members: three}, false},
		"of the same members":  {one, &gossip.View{Cluster: 1, Epoch: first + 1, Members: one}, true},
	} {
		j := NewJudge(newTestRun(), func() {})
		p := &process.Process{Run: j.run, Thread: virtual.NewThread(&j.run.Time), Node: gossip.Node{ID: 1}}
		leader := &Driver{p: p, before: &gossip.View{Cluster: 1, Epoch: first, Members: c.before}, view: &gossip.View{Cluster: 1, Epoch: first + 2, Members: joined}}
		j.noteUnpublished(leader, c.base)
		if got := j.checked[lineageEpochOf(c.base)]; got != c.want {
			t.Errorf("%s: noted %v", name, got)
		}
	}
}

// TestProofsOfATakeoverComeInTime checks that a takeover needs the proofs of the members that it rests on
// before its leader could have been removed. A later proof of a node outside its views does not matter
// (TestSeeds, seed 1610711).
func TestProofsOfATakeoverComeInTime(t *testing.T) {
	const lease = time.Second
	first := gossip.FirstEpoch(1)
	member := func(id gossip.NodeID) gossip.Member {
		return gossip.Member{Node: gossip.Node{ID: id}, Status: gossip.Up}
	}
	a := &attempt{
		base:   &gossip.View{Cluster: 1, Epoch: first, Members: []gossip.Member{member(1), member(2)}},
		next:   &gossip.View{Cluster: 1, Epoch: gossip.FirstEpoch(2), Members: []gossip.Member{member(1)}},
		leader: 1, acks: map[gossip.NodeID]bool{1: true},
	}
	for _, c := range []struct {
		subject gossip.NodeID
		came    time.Duration
		want    bool
	}{{2, lease / 2, true}, {2, 2 * lease, false}, {3, 2 * lease, true}} {
		j := NewJudge(newTestRun(), func() {})
		j.run.Config.Lease = lease
		p := &process.Process{Run: j.run, Thread: virtual.NewThread(&j.run.Time), Clock: virtual.NewClock(1000, 0)}
		d := &Driver{p: p, links: links{p: p, peers: map[gossip.NodeID]*link{}}}
		d.links.peer(c.subject).certainAt = j.run.Now().Add(c.came)
		j.drivers[1] = d
		if got := j.inTime(a); got != c.want {
			t.Errorf("the proof of %d came after %v: in time %v", c.subject, c.came, got)
		}
	}
}

// The last view of a cluster that has ended may reach a member after the next cluster has formed.
func TestALateViewOfAnEndedClusterIsNotTheNewest(t *testing.T) {
	j := NewJudge(newTestRun(), func() {})
	node := func(id gossip.NodeID, s gossip.Status) gossip.Member {
		return gossip.Member{Node: gossip.Node{ID: id}, Status: s}
	}
	for id := range gossip.NodeID(4) {
		j.drivers[id] = &Driver{p: &process.Process{Run: j.run, Thread: virtual.NewThread(&j.run.Time)}}
	}
	former := &gossip.View{Cluster: 1, Epoch: gossip.FirstEpoch(1) + 1, Members: []gossip.Member{node(1, gossip.Up), node(2, gossip.Joining)}}
	next := &gossip.View{Cluster: 2, Epoch: gossip.FirstEpoch(2), Members: []gossip.Member{node(3, gossip.Up)}}
	if !j.isNewest(former) {
		t.Error("the first view is not the newest")
	}
	j.newest = former
	if !j.isNewest(next) {
		t.Error("the view of a new cluster is not the newest")
	}
	j.newest = next
	if !j.isNewest(former) {
		t.Error("the view of another cluster with a voter that lives is not the newest")
	}
	j.drivers[1].p.Thread.End()
	if j.isNewest(former) {
		t.Error("the view of a cluster without a voter replaces that of the living one")
	}
	if later := *next; j.isNewest(&later) {
		t.Error("a view replaces itself")
	}
}

// packedProposal returns a proposal of node 1, packed on its base: node 2 becomes a voter.
func packedProposal(t *testing.T) *view.Accept {
	t.Helper()
	now, fx := clock.Instant(1), view.Effects{}
	cfg := view.Config{
		Self: gossip.Node{ID: 1}, Ping: 100 * time.Millisecond, Lease: time.Second, RemoveAfter: 2 * time.Second, PackFrom: 1,
	}
	core := view.New(cfg, now)
	core.Step(now, view.Form{Generation: 1}, &fx)
	events := []view.Event{view.Received{From: 2, Msg: &view.JoinRequest{Node: gossip.Node{ID: 2}}}}
	for range 20 {
		now = now.Add(cfg.Ping)
		fx.Reset()
		for _, ev := range append(events, view.Tick{}) {
			core.Step(now, ev, &fx)
		}
		events = nil
		for _, s := range fx.Send {
			switch m := s.Msg.(type) {
			case *view.Accept:
				if m.Base.Packed() && m.Next.Packed() {
					return m
				}
			case *view.Ping:
				pong := &view.Pong{Ballot: m.Ballot, Epoch: m.Epoch, Round: m.Round, T0: int64(now)}
				events = append(events, view.Received{From: 2, Msg: pong})
			}
		}
	}
	t.Fatal("no packed proposal")
	return nil
}

// TestAProposalOnAViewOfTheSameStep plays a step in which a node learns another leader's view, leads in
// it, and holds its own. The driver then holds neither that view nor the one before.
func TestAProposalOnAViewOfTheSameStep(t *testing.T) {
	m := packedProposal(t)
	one, two := gossip.Member{Node: gossip.Node{ID: 1}, Status: gossip.Up}, gossip.Member{Node: gossip.Node{ID: 2}, Status: gossip.Joining}
	base := *m.Base.Header()
	one.Joined, two.Joined = base.Epoch-1, base.Epoch
	base.Members = []gossip.Member{one, two}
	before := &gossip.View{Cluster: base.Cluster, Epoch: base.Epoch - 1, Members: []gossip.Member{one}}
	for name, c := range map[string]struct {
		leader gossip.NodeID
		acks   map[gossip.NodeID]bool
		fails  bool
	}{
		"decided, of another leader":     {3, map[gossip.NodeID]bool{1: true}, false},
		"not decided, of another leader": {3, map[gossip.NodeID]bool{3: true}, true},
		"its own":                        {1, nil, false},
	} {
		j := NewJudge(newTestRun(), func() {})
		d := &Driver{p: &process.Process{Run: j.run, Node: gossip.Node{ID: 1}, Thread: virtual.NewThread(&j.run.Time)}, view: before}
		j.attempts.byEpoch[base.Epoch] = []*attempt{{base: before, next: &base, leader: c.leader, acks: c.acks}}
		func() {
			defer func() {
				if failed := recover() != nil; failed != c.fails {
					t.Errorf("%s: failed %v", name, failed)
				}
			}()
			if a := j.onAccept(d, m); !invariant.SameView(a.base, &base) || a.next.Member(2).Status != gossip.Up {
				t.Errorf("%s: from %+v to %+v", name, a.base, a.next)
			}
		}()
	}
}
