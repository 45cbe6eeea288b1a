package coordinator

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// TestDefaultsOfTheSettings checks the settings that a Config leaves out, and the bounds of the number of
// shards.
func TestDefaultsOfTheSettings(t *testing.T) {
	want := Config{
		Strategy: strategy.LeastShards{}, Shards: 1, MinMembers: 1, Resend: 200 * time.Millisecond, BeginTimeout: 5 * time.Second,
		StopTimeout: 10 * time.Second, Rebalance: 2 * time.Second, RemoveAfter: 2 * time.Second, RetryWrite: 50 * time.Millisecond,
		Calm: 10 * time.Minute,
	}
	if got := New(Config{}).cfg; !reflect.DeepEqual(got, want) {
		t.Errorf("defaults %+v, want %+v", got, want)
	}
	set := Config{
		Strategy: strategy.External{}, Shards: 7, MinMembers: 3, Resend: 1, BeginTimeout: 2, StopTimeout: 3, Rebalance: 4,
		RemoveAfter: 5, RetryWrite: 6, Calm: 7,
	}
	if got := New(set).cfg; !reflect.DeepEqual(got, set) {
		t.Errorf("settings %+v, want %+v", got, set)
	}
	if n := New(Config{Shards: protocol.ShardsMax + 1}).cfg.Shards; n != protocol.ShardsMax {
		t.Errorf("%d shards, want %d at most", n, protocol.ShardsMax)
	}
}

// TestWhoIsSilent checks that a member is silent if the shell reports it, or once it has owed an answer for
// as long as until a retransmission. This node never is.
func TestWhoIsSilent(t *testing.T) {
	const resend = 50 * time.Millisecond
	now := clock.Instant(1).Add(time.Hour)
	for name, c := range map[string]struct {
		node   gossip.NodeID
		silent bool
		peer   *peer
		want   bool
	}{
		"it owes nothing":             {2, false, &peer{}, false},
		"not met yet":                 {2, false, nil, false},
		"reported":                    {2, true, &peer{}, true},
		"reported, and not met yet":   {2, true, nil, true},
		"it owes an answer":           {2, false, &peer{owed: now.Add(-resend + 1)}, false},
		"it owes one since a resend":  {2, false, &peer{owed: now.Add(-resend)}, true},
		"it owes one for longer":      {2, false, &peer{owed: now.Add(-2 * resend)}, true},
		"this node, reported":         {1, true, &peer{}, false},
		"this node, owing an answer":  {1, false, &peer{owed: 1}, false},
		"another than the one listed": {3, true, &peer{}, false},
	} {
		ms := members{env: &env{cfg: Config{Self: 1, Resend: resend}, now: now}, peers: map[gossip.NodeID]*peer{}}
		if c.peer != nil {
			ms.peers[c.node] = c.peer
		}
		if c.silent {
			ms.silent = []gossip.NodeID{min(c.node, 2)}
		}
		if got := ms.isSilent(c.node); got != c.want {
			t.Errorf("%s: silent %v, want %v", name, got, c.want)
		}
	}
}

// TestWhoMayTakeTheShardsOfADrain checks for which other members a drain waits: regions that do not leave,
// and members of the role that have not registered and were not refused.
func TestWhoMayTakeTheShardsOfADrain(t *testing.T) {
	refused := protocol.Conflict{Setting: "x"}
	for name, c := range map[string]struct {
		role   string
		status gossip.Status
		peer   *peer
		want   bool
	}{
		"a region":                 {back, gossip.Up, &peer{registered: true, hosts: true}, true},
		"a proxy":                  {back, gossip.Up, &peer{registered: true}, false},
		"not met yet":              {back, gossip.Up, nil, true},
		"asked, without an answer": {back, gossip.Up, &peer{asked: true}, true},
		"refused":                  {back, gossip.Up, &peer{refused: refused}, false},
		"refused, once a region":   {back, gossip.Up, &peer{refused: refused, hosts: true}, false},
		"a region that drains":     {back, gossip.Up, &peer{registered: true, hosts: true, draining: true}, false},
		"a region that leaves":     {back, gossip.Leaving, &peer{registered: true, hosts: true}, false},
		"joining":                  {back, gossip.Joining, nil, true},
		"of another role":          {"other", gossip.Up, nil, false},
		"a region of another role": {"other", gossip.Up, &peer{registered: true, hosts: true}, false},
	} {
		v := &gossip.View{Members: []gossip.Member{
			{Node: gossip.Node{ID: 1, Roles: []string{back}}, Status: gossip.Leaving},
			{Node: gossip.Node{ID: 2, Roles: []string{c.role}}, Status: c.status},
		}}
		ms := members{env: &env{cfg: Config{Self: 1, Role: back}, view: v}, peers: map[gossip.NodeID]*peer{}}
		if c.peer != nil {
			ms.peers[2] = c.peer
		}
		if got := ms.elsewhere(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestMembersThatLeaveTogetherAreDroppedInOrder checks that the effects of a view are the same each time: the
// members that it lacks are dropped in the order of their ids.
func TestMembersThatLeaveTogetherAreDroppedInOrder(t *testing.T) {
	ids := []gossip.NodeID{1, 12, 3, 10, 5, 8, 7, 6, 9, 4, 11, 2}
	b := newBench(t, Config{Shards: 1}, ids...).settle(nil, nil)
	var gone []gossip.NodeID
	for _, e := range b.view(1).trace {
		if e.Kind == TraceGone {
			gone = append(gone, e.Node)
		}
	}
	want := []gossip.NodeID{2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	if !slices.Equal(gone, want) || !slices.Equal(b.c.writes.gone, want) {
		t.Errorf("traced %v, to be written %v, want %v", gone, b.c.writes.gone, want)
	}
}

// TestAMemberThatHasObeyedGetsTheShardsThatWait checks that shards which wait for a silent member are placed in
// the step in which its last order is obeyed, also if no answer has come.
func TestAMemberThatHasObeyedGetsTheShardsThatWait(t *testing.T) {
	tok := func(seq uint64) protocol.Token { return protocol.Token{Term: 5, Seq: seq} }
	b := newBench(t, Config{Shards: 2}, 1, 2)
	b.step(ReadDone{ID: b.c.census.readID, Result: OK})
	b.receive(1, &protocol.CensusReport{Head: b.head()})
	b.receive(2, &protocol.CensusReport{Head: b.head(), Hosts: true, Claims: []protocol.Claim{{Token: tok(8)}, {Token: tok(7)}}})
	for _, w := range find[Write](b) {
		b.step(WriteDone{ID: w.ID, Result: OK})
	}
	for range 3 {
		b.now = b.c.table.nextResend
		b.step(Tick{})
	}
	b.receive(1, &protocol.GetHome{Head: b.head(), Shards: []protocol.ShardID{1}}).none(count[Write])
	b.stopped(2, tok(7), 0)
	if w := one[Write](b); len(w.Records) != 1 || w.Records[0].Shard != 1 || w.Records[0].Home != 2 {
		t.Errorf("written %+v, want shard 1 at 2", w.Records)
	}
}

// TestAShardOfARefusedHomeStays checks that neither the strategy nor a drain moves a shard off a region that
// was registered once and is refused now.
func TestAShardOfARefusedHomeStays(t *testing.T) {
	tok := protocol.Token{Term: 5, Seq: 1}
	home := gossip.NodeID(1)
	b := newBench(t, Config{Shards: 2, Strategy: homeAt{node: &home}}, 1, 2).settle(nil, map[gossip.NodeID][]protocol.Claim{2: {{Token: tok}}})
	b.register(2, 8, 0)
	b.step(Rebalance{}).none(count[*protocol.Begin])
	b.drain(2).none(count[*protocol.Begin])
	b.receive(2, &protocol.Register{Head: b.head(), Hosts: true})
	if s := &b.c.table.shards[0]; s.phase != closing || s.move.target != 1 {
		t.Errorf("registered again, its shard is %v", s.phase)
	}
	stamp := b.c.table.shards[0].move.stamp
	if b.step(Rebalance{}); b.c.table.shards[0].move.stamp != stamp {
		t.Error("a move begins anew")
	}
}

// noted is a strategy that keeps what it was asked.
type noted struct {
	strategy.LeastShards
	states     *[]strategy.State
	requesters *[]gossip.NodeID
}

func (n noted) Allocate(st *strategy.State, id protocol.ShardID, requester gossip.NodeID) gossip.NodeID {
	was := *st
	was.Regions = slices.Clone(st.Regions)
	for i := range was.Regions {
		was.Regions[i].Shards = slices.Clone(st.Regions[i].Shards)
	}
	*n.states, *n.requesters = append(*n.states, was), append(*n.requesters, requester)
	return n.LeastShards.Allocate(st, id, requester)
}

// TestTheStrategySeesWhatIsTrue checks that a strategy is given the first node that asked for a shard, and the
// same state whether the counts were kept since the last placement or made anew.
func TestTheStrategySeesWhatIsTrue(t *testing.T) {
	var states []strategy.State
	var requesters []gossip.NodeID
	b := newBench(t, Config{Shards: 12, Strategy: noted{states: &states, requesters: &requesters}}, 1, 2, 3).settle(nil, nil)
	next := protocol.ShardID(0)
	place := func(name string) {
		t.Helper()
		b.c.now = b.now
		want := b.c.table.chooser.state()
		states, requesters = nil, nil
		b.ask(3, next)
		if len(states) != 1 || !reflect.DeepEqual(states[0], *want) {
			t.Fatalf("%s: the strategy sees %+v, want %+v", name, states, *want)
		}
		if !slices.Equal(requesters, []gossip.NodeID{3}) {
			t.Errorf("%s: requested by %v, want 3", name, requesters)
		}
		b.step(WriteDone{ID: one[Write](b).ID, Result: OK}).started()
		next++
	}
	for range 4 {
		place("nothing moves")
	}
	b.drain(b.c.table.shards[0].home)
	place("a shard moves")
	place("it still moves")
	for id := range next {
		if s := &b.c.table.shards[id]; s.phase == closing {
			b.begun(&protocol.Begin{Shards: []protocol.ShardToken{{Shard: id, Token: s.move.stamp}}}, 1, 2, 3)
			b.receive(s.home, &protocol.Stopped{Head: b.head(), Shards: []protocol.ShardToken{{Shard: id, Token: s.token}}})
			b.step(WriteDone{ID: one[Write](b).ID, Result: OK}).started()
		}
	}
	if st := b.c.table.chooser.state(); st.Moving != 0 || len(st.Moved) == 0 {
		t.Fatalf("after the moves %d shards move, and %v have moved", st.Moving, st.Moved)
	}
	place("a shard has moved lately")
	place("it still counts")
	b.now = b.now.Add(b.c.cfg.Calm)
	place("its moves are forgotten")
	place("nothing moves again")
	b.step(LeaseChanged{})
	b.ask(2, next).ask(3, next).ask(1, next)
	requesters = nil
	if b.step(LeaseChanged{Valid: true}); len(requesters) == 0 || requesters[0] != 2 {
		t.Errorf("requested by %v, want the first of three", requesters)
	}
}

// TestARefusedMemberTakesNoPart checks that a member with other settings is sent no homes, joins no move, and is not
// written into the records.
func TestARefusedMemberTakesNoPart(t *testing.T) {
	b, tok, _, begin := leaver(t)
	b.with(gossip.Member{Node: gossip.Node{ID: 5}, Status: gossip.Up}).register(5, 8, 0).none(count[*protocol.Begin])
	h := b.head()
	h.Term--
	b.receive(5, &protocol.Register{Head: h, Hosts: true, Settings: protocol.Settings{Shards: 8}}).none(count[*protocol.Homes])
	b.with(gossip.Member{Node: gossip.Node{ID: 6}, Status: gossip.Up}).register(6, 2, 0)
	if to := b.beginsTo(); !slices.Equal(to, []gossip.NodeID{6}) {
		t.Errorf("routes are closed at %v, too, want 6", to)
	}
	b.begun(begin, 1, 2, 3, 4, 6).stopped(2, tok, 0)
	w := one[Write](b)
	if !slices.Equal(w.Regions, []gossip.NodeID{6}) || len(w.Proxies) != 0 {
		t.Errorf("written as regions %v and proxies %v, want 6 as a region", w.Regions, w.Proxies)
	}
	b.step(WriteDone{ID: w.ID, Result: OK}).started()
	if to := b.homesOf(0); !slices.Equal(to, []gossip.NodeID{1, 2, 3, 4, 6}) {
		t.Errorf("the new home is sent to %v, want all but 5", to)
	}
}

// TestAClusterThatYieldsPlacesNothing checks that no shard is placed, and none moves, once the cluster has yielded to
// another one.
func TestAClusterThatYieldsPlacesNothing(t *testing.T) {
	for _, verdict := range []gossip.Verdict{gossip.VerdictYields, gossip.VerdictStands} {
		b := newBench(t, Config{Shards: 2}, 1, 2).settle(nil, nil).ask(2, 0)
		b.step(WriteDone{ID: one[Write](b).ID, Result: OK}).started()
		v := *b.c.view
		b.epoch++
		v.Epoch, v.Foreign = b.epoch, []gossip.Contest{{Verdict: verdict}}
		b.step(ViewChanged{View: &v}).none(count[*protocol.Begin])
		if placed := count[Write](b.ask(2, 1)) > 0; placed != (verdict != gossip.VerdictYields) {
			t.Errorf("verdict %v: a shard is placed: %v", verdict, placed)
		}
	}
}

// TestAStrategyThatNamesNoEligibleRegion checks that a shard is placed at an eligible region if the strategy names a
// node without a region, or one that drains.
func TestAStrategyThatNamesNoEligibleRegion(t *testing.T) {
	for _, named := range []gossip.NodeID{9, 2, 3} {
		b := newBench(t, Config{Shards: 1, Strategy: homeAt{node: &named}}, 1, 2, 3).settle(nil, nil).drain(1).drain(2)
		if r := one[Write](b.ask(1, 0)).Records[0]; r.Home != 3 {
			t.Errorf("the strategy names %v: the shard goes to %v, want 3", named, r.Home)
		}
	}
}

// TestWhatUnsettlesACoordinator checks that a coordinator is not settled while an order to a stale claim is out, nor while
// a shard is written whose requester has left.
func TestWhatUnsettlesACoordinator(t *testing.T) {
	tok := func(seq uint64) protocol.Token { return protocol.Token{Term: 5, Seq: seq} }
	b := newBench(t, Config{Shards: 1}, 1, 2, 3).settle(nil, map[gossip.NodeID][]protocol.Claim{2: {{Token: tok(8)}}, 3: {{Token: tok(7)}}})
	if b.c.Settled() {
		t.Error("settled beside a stale claim")
	}
	if b.stopped(3, tok(7), 0); !b.c.Settled() {
		t.Error("not settled although the stale claim has ended")
	}
	b = newBench(t, Config{Shards: 1}, 1, 2, 3).settle(nil, nil).ask(3, 0)
	if r := one[Write](b).Records[0]; r.Home == 3 {
		t.Fatalf("written %+v", r)
	}
	if b.view(1, 2); b.c.Settled() {
		t.Error("settled while a home is written")
	}
}

// A process registers as one that only sends, and as a host once it runs the type. A late copy of the
// first registration, in the same view, leaves it a host.
func TestALateRegistrationLeavesAHost(t *testing.T) {
	b := newBench(t, Config{Shards: 4}, 1, 2, 3).settle(nil, nil)
	h := b.head()
	b.receive(3, &protocol.Register{Head: h, Hosts: false})
	b.receive(3, &protocol.Register{Head: h, Hosts: true})
	b.receive(3, &protocol.Register{Head: h, Hosts: false})
	if !b.c.members.peers[3].hosts {
		t.Error("a late copy of its former registration makes a host a proxy until the view changes")
	}
}
