package coordinator

import (
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// TestOnlyARunningSecondHomeIsTracedAsDouble checks which claims below the highest one are traced as a
// second home: those of another node that runs the shard, beside a home that runs it.
func TestOnlyARunningSecondHomeIsTracedAsDouble(t *testing.T) {
	tok := func(seq uint64) protocol.Token { return protocol.Token{Term: 5, Seq: seq} }
	const runs, starts, stops = protocol.ClaimHosted, protocol.ClaimStarting, protocol.ClaimStopping
	for name, c := range map[string]struct {
		high, low protocol.ClaimState
		lowAt     gossip.NodeID
		want      string
	}{
		"both run":                       {runs, runs, 2, TraceDouble},
		"the home starts":                {starts, runs, 2, TraceClaimStale},
		"the home stops":                 {stops, runs, 2, TraceClaimStale},
		"the second one starts":          {runs, starts, 2, TraceClaimStale},
		"an older claim of the home":     {runs, runs, 3, TraceClaimStale},
		"an older claim beside a start":  {starts, runs, 3, TraceClaimStale},
		"an older claim that had to end": {runs, stops, 3, TraceClaimStale},
	} {
		// Node 3 reports last: the highest claim need not come first.
		claims := map[gossip.NodeID][]protocol.Claim{c.lowAt: {{Shard: 1, Token: tok(7), State: c.low}}}
		claims[3] = append(claims[3], protocol.Claim{Shard: 1, Token: tok(8), State: c.high})
		b := newBench(t, Config{Shards: 2}, 1, 2, 3).settle(nil, claims)
		for _, kind := range []string{TraceDouble, TraceClaimStale} {
			if b.traced(kind) != (kind == c.want) {
				t.Errorf("%s: %q is traced: %v, want %q", name, kind, b.traced(kind), c.want)
			}
		}
		if s := &b.c.table.shards[1]; s.home != 3 || s.token != tok(8) {
			t.Errorf("%s: the shard is at %v under %v, want the highest claim", name, s.home, s.token)
		}
	}
}

// TestAStopEndsTheClaimOfItsOwnShardAlone checks which claims a Stopped during the census voids: those of
// the same shard and node, under its token or a lower one. The other shards keep their homes.
func TestAStopEndsTheClaimOfItsOwnShardAlone(t *testing.T) {
	tok := func(seq uint64) protocol.Token { return protocol.Token{Term: 5, Seq: seq} }
	for name, c := range map[string]struct {
		node gossip.NodeID
		stop protocol.ShardToken
		want bool
	}{
		"its token":        {2, protocol.ShardToken{Shard: 1, Token: tok(8)}, false},
		"a higher token":   {2, protocol.ShardToken{Shard: 1, Token: tok(9)}, false},
		"a lower token":    {2, protocol.ShardToken{Shard: 1, Token: tok(7)}, true},
		"of another shard": {2, protocol.ShardToken{Shard: 0, Token: tok(9)}, true},
		"of another node":  {3, protocol.ShardToken{Shard: 1, Token: tok(9)}, true},
	} {
		b := newBench(t, Config{Shards: 2}, 1, 2, 3)
		b.receive(c.node, &protocol.Stopped{Head: b.head(), Shards: []protocol.ShardToken{c.stop}})
		claim := protocol.Claim{Shard: 1, Token: tok(8), State: protocol.ClaimHosted}
		b.receive(2, &protocol.CensusReport{Head: b.head(), Hosts: true, Claims: []protocol.Claim{claim}})
		if early := b.c.table.shards[1].served(); early != c.want {
			t.Errorf("stopped under %s: the claim is served during the census: %v, want %v", name, early, c.want)
		}
		b.settle(nil, nil)
		lives := slices.ContainsFunc(b.c.Homes(), func(h protocol.Home) bool { return h.Shard == 1 && h.Node == 2 && h.Token == tok(8) })
		if lives != c.want {
			t.Errorf("stopped under %s: the claim counts: %v, want %v", name, lives, c.want)
		}
	}
}

// TestTermsAreOfOneOpening checks that two terms are of one opening of a generation if both lie below the
// epoch of a takeover, or both at or above it.
func TestTermsAreOfOneOpening(t *testing.T) {
	first, takeover := gossip.FirstEpoch(3), gossip.TakeoverEpoch(3)
	for _, c := range []struct {
		a, b gossip.Epoch
		want bool
	}{
		{first, first, true}, {first, takeover - 1, true}, {first, takeover, false}, {first, takeover + 1, false},
		{takeover - 1, takeover, false}, {takeover, takeover, true}, {takeover, takeover + 1, true},
		{first, gossip.FirstEpoch(4), false}, {takeover, gossip.TakeoverEpoch(4), false},
	} {
		if openedAlike(c.a, c.b) != c.want || openedAlike(c.b, c.a) != c.want {
			t.Errorf("%v and %v: %v and %v, want %v", c.a, c.b, openedAlike(c.a, c.b), openedAlike(c.b, c.a), c.want)
		}
	}
}

// TestWhichRecordsOfAReadCount checks that a record of an earlier term is adopted, that one of a later term
// which this node's view has reached ends the office, and that all other records are ignored.
func TestWhichRecordsOfAReadCount(t *testing.T) {
	office := gossip.FirstEpoch(3) + 1
	for name, c := range map[string]struct {
		shard protocol.ShardID
		tok   protocol.Token
		known bool // adopted
		ends  bool // ends the term
		trace string
	}{
		"an earlier term":                 {1, protocol.Token{Term: office - 1, Seq: 9}, true, false, ""},
		"this term, drawn":                {1, protocol.Token{Term: office, Seq: 1}, true, false, ""},
		"this term, not drawn":            {1, protocol.Token{Term: office, Seq: 1000}, false, false, TraceFar},
		"a later term":                    {1, protocol.Token{Term: office + 1, Seq: 1}, false, true, ""},
		"the present view":                {1, protocol.Token{Term: office + 2, Seq: 1}, false, true, ""},
		"a view that has not come":        {1, protocol.Token{Term: office + 3, Seq: 1}, false, false, TraceStale},
		"a view far away":                 {1, protocol.Token{Term: gossip.FirstEpoch(3_000_000), Seq: 1}, false, false, TraceFar},
		"a shard that does not exist":     {2, protocol.Token{Term: office - 1, Seq: 9}, false, false, ""},
		"a shard far from those that are": {200, protocol.Token{Term: office - 1, Seq: 9}, false, false, ""},
	} {
		b := newBench(t, Config{Shards: 2}, 1, 2).view(1, 2).view(1, 2)
		if b.c.Term() != office || b.epoch != office+2 {
			t.Fatalf("term %v in view %v", b.c.Term(), b.epoch)
		}
		b.step(ReadDone{ID: b.c.census.readID, Result: OK, Records: []protocol.Record{{Shard: c.shard, Home: 2, Token: c.tok}}})
		if ended := b.c.Term() != office; ended != c.ends {
			t.Errorf("%s: the term has ended: %v, want %v", name, ended, c.ends)
		} else if !ended && b.c.table.shards[1].known != c.known {
			t.Errorf("%s: adopted: %v, want %v", name, !c.known, c.known)
		}
		for _, kind := range []string{TraceFar, TraceStale} {
			if b.traced(kind) != (kind == c.trace) {
				t.Errorf("%s: %q is traced: %v, want %q", name, kind, b.traced(kind), c.trace)
			}
		}
	}
}

// TestAReadIsAnsweredOnce checks that a second answer to the same read changes nothing.
func TestAReadIsAnsweredOnce(t *testing.T) {
	record := func(id protocol.ShardID) []protocol.Record {
		return []protocol.Record{{Shard: id, Home: 2, Token: protocol.Token{Term: 5, Seq: 1}}}
	}
	b := newBench(t, Config{Shards: 2}, 1, 2)
	b.step(ReadDone{ID: b.c.census.readID, Result: OK, Records: record(0)})
	b.step(ReadDone{ID: b.c.census.readID, Result: OK, Records: record(1)})
	if s := b.c.table.shards; !s[0].known || s[1].known {
		t.Errorf("adopted: shard 0 %v, shard 1 %v, want shard 0 alone", s[0].known, s[1].known)
	}
	b.step(ReadDone{ID: b.c.census.readID, Result: Unknown})
	if b.c.census.retry != 0 {
		t.Error("a read that was answered is repeated")
	}
}

// TestWhichReportsCount checks that a member reports once, to this term's request, and that a claim of a
// later term ends the office.
func TestWhichReportsCount(t *testing.T) {
	hosted := func(id protocol.ShardID, tok protocol.Token) []protocol.Claim {
		return []protocol.Claim{{Shard: id, Token: tok, State: protocol.ClaimHosted}}
	}
	office := gossip.FirstEpoch(3) + 1
	earlier := protocol.Token{Term: 5, Seq: 1}
	for name, c := range map[string]struct {
		reports int
		term    gossip.Epoch
		claims  []protocol.Claim
		want    int // claims that are noted
		ends    bool
	}{
		"one":                         {1, office, hosted(1, earlier), 1, false},
		"two":                         {2, office, hosted(1, earlier), 1, false},
		"to an earlier term":          {1, office - 1, hosted(1, earlier), 0, false},
		"a claim of this term":        {1, office, hosted(1, protocol.Token{Term: office, Seq: 1}), 1, false},
		"a claim of a later term":     {1, office, hosted(1, protocol.Token{Term: office + 1, Seq: 1}), 0, true},
		"a shard that does not exist": {1, office, hosted(2, earlier), 0, false},
	} {
		b := newBench(t, Config{Shards: 2}, 1, 2, 3).view(1, 2, 3)
		b.c.census.unheard = []gossip.NodeID{2, 3}
		for range c.reports {
			m := &protocol.CensusReport{Head: b.head(), Hosts: true, Claims: c.claims, Held: []protocol.Held{{Shard: 2}, {Shard: 1, Token: earlier, From: 3}}}
			m.Term = c.term
			b.receive(2, m)
		}
		if ended := b.c.Term() != office; ended != c.ends {
			t.Errorf("%s: the term has ended: %v, want %v", name, ended, c.ends)
		}
		if c.ends {
			continue
		}
		cn, heard := &b.c.census, c.term == office
		if len(cn.claims) != c.want || len(cn.held) == 1 != heard || slices.Contains(cn.unheard, 2) == heard || slices.Contains(cn.heard, 2) != heard {
			t.Errorf("%s: %d claims, %d states, unheard %v, heard %v", name, len(cn.claims), len(cn.held), cn.unheard, cn.heard)
		}
	}
}

// TestHomesAfterTheCensusSupersedeThoseBefore checks that a home which is published after the census has a
// higher number than one that was served on a claim alone, during the census.
func TestHomesAfterTheCensusSupersedeThoseBefore(t *testing.T) {
	tok := protocol.Token{Term: 5, Seq: 1}
	b := newBench(t, Config{Shards: 1}, 1, 2)
	b.step(ReadDone{ID: b.c.census.readID, Result: OK, Records: []protocol.Record{{Home: 2, Token: tok}}}).ask(1, 0)
	b.receive(2, &protocol.CensusReport{Head: b.head(), Hosts: true, Claims: []protocol.Claim{{Token: tok, State: protocol.ClaimHosted}}})
	early := one[*protocol.Homes](b).Seq
	b.receive(1, &protocol.CensusReport{Head: b.head(), Hosts: true})
	homes := find[*protocol.Homes](b)
	if len(homes) != 2 {
		t.Fatalf("the home is sent to %d nodes, want both", len(homes))
	}
	for _, h := range homes {
		if h.Seq <= early {
			t.Errorf("the home is published with number %d, and was served with %d", h.Seq, early)
		}
	}
}

// TestTheRecordOfAShardThatStartsNamesItsState checks that the order to start is repeated with the state that
// the record names, if the record is of the very allocation.
func TestTheRecordOfAShardThatStartsNamesItsState(t *testing.T) {
	was, is := protocol.Token{Term: 5, Seq: 1}, protocol.Token{Term: 5, Seq: 2}
	for name, c := range map[string]struct {
		record protocol.Record
		want   bool
	}{
		"its record":             {protocol.Record{Home: 3, Token: is, From: 2, Ended: was}, true},
		"of another home":        {protocol.Record{Home: 2, Token: is, From: 2, Ended: was}, false},
		"of an older allocation": {protocol.Record{Home: 3, Token: was, From: 2, Ended: protocol.Token{Term: 5}}, false},
	} {
		b := newBench(t, Config{Shards: 1}, 1, 2, 3)
		b.settle([]protocol.Record{c.record}, map[gossip.NodeID][]protocol.Claim{3: {{Token: is, State: protocol.ClaimStarting}}})
		o := one[*protocol.HostShards](b).Shards[0]
		if got := o.From == 2 && o.Ended == was; got != c.want || !got && o.From != 0 || o.Token != is {
			t.Errorf("%s: ordered %+v, want its state named: %v", name, o, c.want)
		}
		if rewritten := count[Write](b) > 0; rewritten == c.want {
			t.Errorf("%s: the record is written again: %v, want %v", name, rewritten, !c.want)
		}
	}
}

// TestAMoveWhoseNewHomeLeftDuringTheCensusIsTurned checks that a shard which stops, and whose state was sent to
// a node that has left since, gets another new home when the census ends.
func TestAMoveWhoseNewHomeLeftDuringTheCensusIsTurned(t *testing.T) {
	tok := protocol.Token{Term: 5, Seq: 1}
	b := newBench(t, Config{Shards: 1}, 1, 2, 3)
	b.receive(2, &protocol.CensusReport{Head: b.head(), Hosts: true, Claims: []protocol.Claim{{Token: tok, State: protocol.ClaimStopping, To: 3}}})
	b.view(1, 2).step(ReadDone{ID: b.c.census.readID, Result: OK})
	b.receive(1, &protocol.CensusReport{Head: b.head(), Hosts: true})
	if o := one[*protocol.HandOff](b).Shards; len(o) != 1 || o[0].To != 1 || o[0].Token != tok {
		t.Errorf("ordered %+v, want the state sent to 1", o)
	}
	if turned := b.c.table.shards[0].move.turned; turned == 0 {
		t.Error("an answer to the former order would count")
	}
}
