package coordinator

import (
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// TestMessagesAreTrueWhenTheyLeave checks, for each phase, which nodes an order or a home may still be sent
// to: its shard may have gone on since it was queued.
func TestMessagesAreTrueWhenTheyLeave(t *testing.T) {
	view := &gossip.View{}
	for id := gossip.NodeID(1); id <= 4; id++ {
		view.Members = append(view.Members, gossip.Member{Node: gossip.Node{ID: id}, Status: gossip.Up})
	}
	for p := free; p <= asking; p++ {
		s := shard{phase: p}
		if p != free {
			s.home = 2
		}
		if p.moves() {
			s.move = &shardMove{target: 4}
		}
		if p == closing {
			s.move.closers = []gossip.NodeID{3}
		}
		e := &env{cfg: Config{Self: 1}, view: view}
		ms := &members{env: e}
		o := outbox{env: e, members: ms, table: &table{env: e, shards: []shard{s}}}
		for n := gossip.NodeID(1); n <= 5; n++ {
			_, begin := o.beginEntry(n, 0)
			_, handOff := o.handOffEntry(n, 0)
			_, host := o.hostEntry(n, 0)
			_, home := o.homeEntry(n, 0)
			got := [...]bool{begin, handOff, host, home}
			want := [...]bool{p == closing && n == 3, p == stopping && n == 2, (p == starting || p == asking) && n == 2, (p == hosted || p == claimed) && n <= 4}
			if got != want {
				t.Errorf("%v, node %v: Begin, HandOff, HostShards, Homes: %v, want %v", p, n, got, want)
			}
		}
	}
}

// TestWhatKeepsADrainingNode checks which shards count as left at a node, and which as on their way to it or
// off it.
func TestWhatKeepsADrainingNode(t *testing.T) {
	ended := protocol.Token{Term: 5, Seq: 1}
	for name, c := range map[string]struct {
		collects bool
		alone    bool // all members drain
		shard    shard
		left     uint32
		going    bool
	}{
		"it is hosted":                     {false, false, shard{phase: hosted, home: 2}, 1, false},
		"it is hosted elsewhere":           {false, false, shard{phase: hosted, home: 3}, 0, false},
		"it lives nowhere":                 {false, false, shard{}, 0, false},
		"it is written":                    {false, false, shard{phase: writing, home: 2}, 0, true},
		"it starts":                        {false, false, shard{phase: starting, home: 2}, 0, true},
		"it stops":                         {false, false, shard{phase: stopping, home: 2, move: &shardMove{target: 3}}, 0, true},
		"it comes":                         {false, false, shard{phase: stopping, home: 3, move: &shardMove{target: 2}}, 0, true},
		"it moves between others":          {false, false, shard{phase: stopping, home: 3, move: &shardMove{target: 1}}, 0, false},
		"its state waits here":             {false, false, shard{wait: &shardWait{from: 3, ended: ended, prefer: 2}}, 0, true},
		"its state waits elsewhere":        {false, false, shard{wait: &shardWait{from: 3, ended: ended, prefer: 1}}, 0, false},
		"it is to go here, stateless":      {false, false, shard{wait: &shardWait{prefer: 2}}, 0, false},
		"its next home is not on record":   {false, false, shard{phase: writing, home: 3, wait: &shardWait{from: 2, ended: ended}}, 0, true},
		"its next home is on record":       {false, false, shard{phase: starting, home: 3, wait: &shardWait{from: 2, ended: ended}}, 0, false},
		"another's state is not on record": {false, false, shard{phase: writing, home: 3, wait: &shardWait{from: 1, ended: ended}}, 0, false},
		"its next home collects":           {true, false, shard{phase: starting, home: 3, wait: &shardWait{from: 2, ended: ended}}, 0, true},
		"its next home collects, once":     {true, false, shard{phase: starting, home: 3, wait: &shardWait{were: []gossip.NodeID{1, 2}}}, 0, true},
		"its next home collects, alone":    {true, true, shard{phase: starting, home: 3, wait: &shardWait{from: 2, ended: ended}}, 0, false},
		"it was never here":                {true, false, shard{phase: starting, home: 3, wait: &shardWait{were: []gossip.NodeID{1}}}, 0, false},
		"it was here, and is not needed":   {false, false, shard{phase: starting, home: 3, wait: &shardWait{were: []gossip.NodeID{2}}}, 0, false},
		"its next home has collected":      {true, false, shard{phase: hosted, home: 3, wait: &shardWait{were: []gossip.NodeID{2}}}, 0, false},
	} {
		b := newBench(t, Config{Shards: 1, Collects: c.collects}, 1, 2, 3).settle(nil, nil)
		b.c.table.shards[0] = c.shard
		b.c.members.peerOf(1).draining, b.c.members.peerOf(2).draining, b.c.members.peerOf(3).draining = c.alone, true, c.alone
		if left, going := b.c.table.tenants(2, b.c.members.peerOf(2)); left != c.left || going != c.going {
			t.Errorf("%s: %d left, going %v, want %d and %v", name, left, going, c.left, c.going)
		}
	}
}

// TestTheShardOnItsWayIsLookedAtFirst checks that a node whose shards are on their way is asked about the
// one of them that was found last, before a pass over all shards: a drain of many shards would be quadratic.
func TestTheShardOnItsWayIsLookedAtFirst(t *testing.T) {
	b := newBench(t, Config{Shards: 5}, 1, 2, 3).settle(nil, nil)
	p := b.c.members.peerOf(2)
	for i, s := range []shard{{phase: hosted, home: 2}, {phase: hosted, home: 3}, {phase: stopping, home: 2, move: &shardMove{target: 3}}, {phase: hosted, home: 2}, {phase: starting, home: 2}} {
		b.c.table.shards[i] = s
	}
	for _, want := range []protocol.ShardID{2, 2} {
		if _, going := b.c.table.tenants(2, p); !going || p.going != want {
			t.Errorf("going %v, shard %v, want %v", going, p.going, want)
		}
	}
	b.c.table.shards[2] = shard{phase: hosted, home: 3}
	if _, going := b.c.table.tenants(2, p); !going || p.going != 4 {
		t.Errorf("going %v, shard %v, want 4", going, p.going)
	}
	b.c.table.shards[4] = shard{}
	if left, going := b.c.table.tenants(2, p); left != 2 || going {
		t.Errorf("%d left, going %v, want 2 and none", left, going)
	}
}

// TestHostedShardsAreCountedByHome checks the counts of hosted shards by home that spare a pass over
// all shards: they follow each change of a phase.
func TestHostedShardsAreCountedByHome(t *testing.T) {
	b := newBench(t, Config{Shards: 3}, 1, 2, 3).settle(nil, nil)
	table := &b.c.table
	for i := range table.shards {
		table.shards[i].home = 2
		table.setPhase(&table.shards[i], hosted)
	}
	if table.hosted[2] != 3 || table.hosted.atLeaving(table.members) {
		t.Errorf("counts %v, at leaving members %v", table.hosted, table.hosted.atLeaving(table.members))
	}
	b.c.members.peerOf(2).draining = true
	if !table.hosted.atLeaving(table.members) {
		t.Error("three shards are at a member that drains")
	}
	for i := range table.shards {
		table.setPhase(&table.shards[i], stopping)
	}
	if len(table.hosted) != 0 || table.hosted.atLeaving(table.members) {
		t.Errorf("counts %v of shards that stop", table.hosted)
	}
}

// TestWhereAShardGoesWhenItsHomeIsLost checks that a shard whose home leaves the view goes to the new home of
// its move if it may have stopped, and with its state if that home is here.
func TestWhereAShardGoesWhenItsHomeIsLost(t *testing.T) {
	for _, c := range []struct {
		phase phase
		stay  []gossip.NodeID
		want  bool
	}{
		{hosted, []gossip.NodeID{1, 3, 4}, false}, {closing, []gossip.NodeID{1, 3, 4}, false}, {stopping, []gossip.NodeID{1, 3, 4}, true},
		{asking, []gossip.NodeID{1, 3, 4}, true}, {stopping, []gossip.NodeID{1}, false}, {asking, []gossip.NodeID{1}, false},
	} {
		b, _ := inPhase(t, c.phase)
		tok, target := b.c.table.shards[0].token, b.c.table.shards[0].moveOf().target
		b.step(LeaseChanged{}).view(c.stay...) // nothing is placed
		s := &b.c.table.shards[0]
		w := s.waitOf()
		if s.phase != free || c.want != (w.from == 2) || c.want != (w.ended == tok) || c.want != (w.prefer == target && target != 0) {
			t.Errorf("%v, %v stay: %v, the state of %v under %v waits at %v", c.phase, c.stay, s.phase, w.from, w.ended, w.prefer)
		}
	}
}

// TestTheLastRouterLeaves checks that a move goes on in the step in which the last member that has not closed its
// route leaves the view, and not before.
func TestTheLastRouterLeaves(t *testing.T) {
	b, _, to, begin := leaver(t)
	other := 7 - to
	b.begun(begin, 1, 2, to).none(count[*protocol.HandOff])
	b.with(gossip.Member{Node: gossip.Node{ID: 5}, Status: gossip.Up}).none(count[*protocol.HandOff])
	if o := one[*protocol.HandOff](b.view(1, 2, to)).Shards; len(o) != 1 || o[0].To != to {
		t.Errorf("without %v ordered %+v, want the state sent to %v", other, o, to)
	}
}

// TestARequestEndsWithItsNode checks that a shard which only a member that has left asked for is not placed.
func TestARequestEndsWithItsNode(t *testing.T) {
	for _, stays := range []bool{false, true} {
		b := newBench(t, Config{Shards: 1}, 1, 2, 3).settle(nil, nil).step(LeaseChanged{}).ask(3, 0)
		if stays {
			b.ask(2, 0)
		}
		b.view(1, 2).step(LeaseChanged{Valid: true})
		if placed := count[Write](b) > 0; placed != stays {
			t.Errorf("another node waits: %v, the shard is placed: %v", stays, placed)
		}
	}
}

// TestOrdersToStraysEnd checks what ends an order to stop a stale claim: a Stopped of its node and shard under its
// token or a higher one, and the end of its node.
func TestOrdersToStraysEnd(t *testing.T) {
	tok := func(seq uint64) protocol.Token { return protocol.Token{Term: 5, Seq: seq} }
	for name, c := range map[string]struct {
		node gossip.NodeID
		stop protocol.ShardToken
		want bool
	}{
		"its token":        {3, protocol.ShardToken{Shard: 1, Token: tok(5)}, true},
		"a higher token":   {3, protocol.ShardToken{Shard: 1, Token: tok(6)}, true},
		"a lower token":    {3, protocol.ShardToken{Shard: 1, Token: tok(4)}, false},
		"of another shard": {3, protocol.ShardToken{Shard: 0, Token: tok(6)}, false},
		"of another node":  {2, protocol.ShardToken{Shard: 1, Token: tok(6)}, false},
		"no node left":     {0, protocol.ShardToken{}, false},
		"its node has":     {9, protocol.ShardToken{}, true},
	} {
		b := newBench(t, Config{Shards: 2}, 1, 2, 3).settle(nil, map[gossip.NodeID][]protocol.Claim{
			2: {{Shard: 1, Token: tok(8)}}, 3: {{Shard: 1, Token: tok(5)}},
		})
		if !b.c.waiting() {
			t.Fatalf("%s: no order is out", name)
		}
		switch c.node {
		case 0:
			b.with(gossip.Member{Node: gossip.Node{ID: 4}, Status: gossip.Up})
		case 9:
			b.view(1, 2)
		default:
			b.receive(c.node, &protocol.Stopped{Head: b.head(), Shards: []protocol.ShardToken{c.stop}})
		}
		if ended := len(b.c.table.strays.list) == 0; ended != c.want {
			t.Errorf("%s: the order has ended: %v, want %v", name, ended, c.want)
		}
	}
}

// TestStoredMembersThatHaveLeftAreRemoved checks that regions and proxies which the read shows, and the view
// lacks, are removed from the records.
func TestStoredMembersThatHaveLeftAreRemoved(t *testing.T) {
	b := newBench(t, Config{Shards: 1}, 1, 2)
	b.step(ReadDone{ID: b.c.census.readID, Result: OK, Regions: []gossip.NodeID{8, 1, 2}, Proxies: []gossip.NodeID{9}})
	if gone := b.c.writes.gone; !slices.Equal(gone, []gossip.NodeID{8, 9}) {
		t.Errorf("to be removed: %v, want 8 and 9", gone)
	}
	b.settle(nil, nil)
	b.now = b.c.nextRebalance
	if w := one[Write](b.step(Tick{})); !slices.Equal(w.Gone, []gossip.NodeID{8, 9}) {
		t.Errorf("written %+v", w)
	}
}

// TestWhoIsToldWhenTheRecordsNameIt checks that homes are sent to a proxy that has registered once the records name
// it, and not again; not to one that has not registered, nor to a region, which has them.
func TestWhoIsToldWhenTheRecordsNameIt(t *testing.T) {
	for name, c := range map[string]struct {
		node       gossip.NodeID
		registered bool
		want       int
	}{"a proxy": {3, true, 1}, "a proxy that has not registered": {3, false, 0}, "a region": {2, true, 0}} {
		b := outside(t)
		b.step(ReadDone{ID: b.c.census.readID, Result: OK})
		b.role(protocol.Claim{Token: protocol.Token{Term: 5, Seq: 1}})
		if c.registered && c.node == 3 {
			b.receive(3, &protocol.Register{Head: b.head(), Settings: protocol.Settings{Shards: 1, Role: "host"}}).none(count[*protocol.Homes])
		}
		for _, want := range []int{c.want, 0} {
			b.c.writes.flying = append(b.c.writes.flying, Write{ID: 1000, Regions: []gossip.NodeID{2}})
			if c.node == 3 {
				b.c.writes.flying = []Write{{ID: 1000, Proxies: []gossip.NodeID{3, 9}}}
			}
			b.step(WriteDone{ID: 1000, Result: OK})
			if n := count[*protocol.Homes](b); n != want {
				t.Errorf("%s: homes are sent %d times, want %d", name, n, want)
			}
		}
	}
}

// TestAClusterThatHasPlacedAShardIsLargeEnough checks that a coordinator which finds a record or a claim need not
// wait for the minimum of members.
func TestAClusterThatHasPlacedAShardIsLargeEnough(t *testing.T) {
	tok := protocol.Token{Term: 5, Seq: 1}
	for name, c := range map[string]struct {
		records []protocol.Record
		claims  map[gossip.NodeID][]protocol.Claim
		want    bool
	}{
		"neither":  {nil, nil, false},
		"a record": {[]protocol.Record{{Home: 9, Token: tok}}, nil, true},
		"a claim":  {nil, map[gossip.NodeID][]protocol.Claim{2: {{Token: tok}}}, true},
	} {
		b := newBench(t, Config{Shards: 2, MinMembers: 3}, 1, 2).settle(c.records, c.claims)
		for _, w := range find[Write](b) {
			b.step(WriteDone{ID: w.ID, Result: OK})
		}
		if placed := count[Write](b.ask(1, 1)) > 0; placed != c.want {
			t.Errorf("%s: another shard is placed: %v, want %v", name, placed, c.want)
		}
	}
}

// TestTheShortestWaitForAStartCounts checks that of several shards that wait after failed starts, the first is
// placed in time, in whatever order they are looked at.
func TestTheShortestWaitForAStartCounts(t *testing.T) {
	for _, at := range [][2]clock.Instant{{100, 200}, {200, 100}, {100, 100}} {
		tb := table{env: &env{now: 50}}
		for _, retry := range at {
			if !tb.delaysStart(&shard{wait: &shardWait{retryAt: retry}}) {
				t.Errorf("a shard that waits until %d is placed at %d", retry, tb.now)
			}
		}
		if tb.retryStart != 100 {
			t.Errorf("waits until %v: the table looks at %d, want 100", at, tb.retryStart)
		}
		if tb.now = 100; tb.delaysStart(&shard{wait: &shardWait{retryAt: 100}}) || tb.delaysStart(&shard{}) {
			t.Error("a shard waits for longer than it must")
		}
	}
}

// TestOtherSettingsWithoutShardsHoldNothingUp checks that a node with other settings stops placement only if it
// reports shards.
func TestOtherSettingsWithoutShardsHoldNothingUp(t *testing.T) {
	for claims, want := range map[int]bool{0: true, 1: false} {
		b := newBench(t, Config{Shards: 4}, 1, 2)
		b.step(ReadDone{ID: b.c.census.readID, Result: OK})
		b.receive(1, &protocol.CensusReport{Head: b.head(), Hosts: true})
		report := &protocol.CensusReport{Head: b.head(), Hosts: true, Settings: protocol.Settings{Shards: 8}}
		for range claims {
			report.Claims = append(report.Claims, protocol.Claim{Shard: 6, Token: protocol.Token{Term: 1, Seq: 1}})
		}
		b.receive(2, report)
		if placed := count[Write](b.ask(1, 2)) > 0; placed != want {
			t.Errorf("%d claims under other settings: a shard is placed: %v", claims, placed)
		}
	}
}

// TestWhichRecordsAreCurrent checks that a record of unknown outcome is written again while the shard has its home and
// its token.
func TestWhichRecordsAreCurrent(t *testing.T) {
	tok := func(seq uint64) protocol.Token { return protocol.Token{Term: 5, Seq: seq} }
	tb := table{shards: []shard{{phase: writing, home: 2, token: tok(5)}, {token: tok(5)}}}
	for _, c := range []struct {
		r    protocol.Record
		want bool
	}{
		{protocol.Record{Shard: 0, Home: 2, Token: tok(5)}, true}, {protocol.Record{Shard: 0, Home: 2, Token: tok(4)}, false},
		{protocol.Record{Shard: 0, Home: 3, Token: tok(5)}, false}, {protocol.Record{Shard: 1, Home: 2, Token: tok(5)}, false},
	} {
		if got := tb.isCurrent(c.r); got != c.want {
			t.Errorf("%+v: current %v, want %v", c.r, got, c.want)
		}
	}
}

// TestANewOrderDelaysNoOther checks that the next retransmission is due Resend after the first order without an answer,
// be it to a home or to a node with a stale claim, and is not put off by later orders.
func TestANewOrderDelaysNoOther(t *testing.T) {
	for _, stray := range []bool{false, true} {
		claims := map[gossip.NodeID][]protocol.Claim{2: {{Shard: 1, Token: protocol.Token{Term: 5, Seq: 8}}}}
		if stray {
			claims[3] = []protocol.Claim{{Shard: 1, Token: protocol.Token{Term: 5, Seq: 5}}}
		}
		b := newBench(t, Config{Shards: 3}, 1, 2, 3).settle(nil, claims)
		due := b.c.table.nextResend
		b.now = b.now.Add(b.c.cfg.Resend / 4)
		if !stray {
			due = b.now.Add(b.c.cfg.Resend)
		}
		for _, id := range []protocol.ShardID{0, 2} {
			b.ask(1, id)
			for _, w := range slices.Clone(b.c.writes.flying) {
				b.step(WriteDone{ID: w.ID, Result: OK})
			}
			if b.c.table.nextResend != due {
				t.Errorf("stale claim: %v, shard %v: the orders are repeated %v too late", stray, id, b.c.table.nextResend.Sub(due))
			}
			b.now = b.now.Add(b.c.cfg.Resend / 4)
		}
	}
}
