package coordinator

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// bench steps one core, on node 1, and keeps what it did.
type bench struct {
	t     *testing.T
	c     *Core
	now   clock.Instant
	epoch gossip.Epoch
	did   []Effect
	trace []TraceEvent
}

func newBench(t *testing.T, cfg Config, members ...gossip.NodeID) *bench {
	cfg.Self, cfg.Type = 1, "counter"
	b := &bench{t: t, c: New(cfg), now: 1, epoch: gossip.FirstEpoch(3)}
	b.step(LeaseChanged{Valid: true})
	b.view(members...)
	return b
}

func (b *bench) step(ev Event) *bench {
	b.t.Helper()
	var out Effects
	b.c.Step(b.now, ev, &out)
	b.did, b.trace = out.Do, out.Trace
	if err := b.c.Check(); err != nil {
		b.t.Fatalf("after %T %+v: %v", ev, ev, err)
	}
	return b
}

func (b *bench) view(ids ...gossip.NodeID) *bench {
	b.t.Helper()
	b.epoch++
	v := &gossip.View{Epoch: b.epoch}
	for _, id := range ids {
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: id, Name: fmt.Sprint(id)}, Status: gossip.Up})
	}
	return b.step(ViewChanged{View: v})
}

func (b *bench) head() protocol.Head {
	return protocol.Head{Type: "counter", Term: b.c.term, View: b.epoch}
}

func (b *bench) receive(from gossip.NodeID, m protocol.Message) *bench {
	b.t.Helper()
	return b.step(Received{From: from, Msg: m})
}

// settle answers the read and the census with what is given.
func (b *bench) settle(records []protocol.Record, claims map[gossip.NodeID][]protocol.Claim) *bench {
	b.t.Helper()
	b.step(ReadDone{ID: b.c.census.readID, Result: OK, Records: records})
	for _, m := range b.c.view.Members {
		b.receive(m.ID, &protocol.CensusReport{Head: b.head(), Hosts: true, Claims: claims[m.ID]})
	}
	return b
}

// find returns the effects and messages of type T of the last step.
func find[T any](b *bench) (found []T) {
	for _, e := range b.did {
		if x, is := any(e).(T); is {
			found = append(found, x)
		}
		if s, is := e.(Send); is {
			if x, is := any(s.Msg).(T); is {
				found = append(found, x)
			}
		}
	}
	return found
}

func one[T any](b *bench) T {
	b.t.Helper()
	all := find[T](b)
	if len(all) != 1 {
		b.t.Fatalf("%d of %T, want 1, in %+v", len(all), *new(T), b.did)
	}
	return all[0]
}

func (b *bench) none(kinds ...func(*bench) int) *bench {
	b.t.Helper()
	for i, count := range kinds {
		if n := count(b); n > 0 {
			b.t.Fatalf("%d of the unwanted kind %d in %+v", n, i, b.did)
		}
	}
	return b
}

func count[T any](b *bench) int { return len(find[T](b)) }

func (b *bench) traced(kind string) bool {
	return slices.ContainsFunc(b.trace, func(t TraceEvent) bool { return t.Kind == kind })
}

func (b *bench) ask(from gossip.NodeID, shards ...protocol.ShardID) *bench {
	b.t.Helper()
	return b.receive(from, &protocol.GetHome{Head: b.head(), Hosts: true, Shards: shards})
}

// started answers every HostShards of the last step.
func (b *bench) started() *bench {
	b.t.Helper()
	for _, e := range b.did {
		if s, ok := e.(Send); ok {
			if m, ok := s.Msg.(*protocol.HostShards); ok {
				answer := &protocol.ShardsHosted{Head: b.head()}
				answer.Seq = m.Seq
				for _, o := range m.Shards {
					answer.Shards = append(answer.Shards, protocol.ShardToken{Shard: o.Shard, Token: o.Token})
				}
				b.receive(s.To, answer)
			}
		}
	}
	return b
}

func all(n int) []protocol.ShardID {
	var out []protocol.ShardID
	for i := range n {
		out = append(out, protocol.ShardID(i))
	}
	return out
}

// A28: a thousand shards of ten nodes are one write, and one order and one answer per
// node: what all of it says per shard and node does not grow with either.
func TestAllocationsTravelInBulk(t *testing.T) {
	per := func(nodes, shards int) int {
		var ids []gossip.NodeID
		for i := range nodes {
			ids = append(ids, gossip.NodeID(i+1))
		}
		b := newBench(t, Config{Shards: shards}, ids...).settle(nil, nil)
		bytes := 0
		said := func() {
			for _, e := range b.did {
				if s, ok := e.(Send); ok {
					bytes += len(protocol.Append(nil, s.Msg))
				}
			}
		}
		b.ask(2, all(shards)...)
		w := one[Write](b)
		if len(w.Records) != shards {
			t.Fatalf("%d records in the write", len(w.Records))
		}
		for _, id := range ids {
			b.ask(id, all(shards)...).none(count[Write], count[*protocol.HostShards])
			bytes += len(protocol.Append(nil, &protocol.GetHome{Head: b.head(), Hosts: true, Shards: all(shards)}))
		}
		b.step(WriteDone{ID: w.ID, Result: OK})
		said()
		orders := find[*protocol.HostShards](b)
		if len(orders) != nodes {
			t.Fatalf("%d orders to %d nodes", len(orders), nodes)
		}
		told := 0
		for _, m := range orders {
			if len(m.Shards) != shards/nodes {
				t.Errorf("an order of %d shards", len(m.Shards))
			}
			answer := &protocol.ShardsHosted{Head: b.head()}
			for _, o := range m.Shards {
				answer.Shards = append(answer.Shards, protocol.ShardToken{Shard: o.Shard, Token: o.Token})
			}
			bytes += len(protocol.Append(nil, answer))
			b.receive(b.c.table.shards[m.Shards[0].Shard].home, answer)
			said()
			for _, h := range find[*protocol.Homes](b) {
				told += len(h.Homes)
			}
		}
		if told != shards*nodes {
			t.Errorf("%d homes told of %d shards to %d nodes", told, shards, nodes)
		}
		t.Logf("%d shards, %d nodes: %d bytes, %d per shard and node", shards, nodes, bytes, bytes/shards/nodes)
		return bytes / shards / nodes
	}
	if most := max(per(4, 1000), per(10, 1000), per(10, 500)); most > 30 {
		t.Errorf("%d bytes per shard and node", most)
	}
}

// A dead member's shards are placed again in the very step that brings the view.
func TestShardsOfTheDeadAreReplacedInTheSameStep(t *testing.T) {
	b := newBench(t, Config{Shards: 90}, 1, 2, 3).settle(nil, nil).ask(2, all(90)...)
	b.step(WriteDone{ID: one[Write](b).ID, Result: OK}).started()
	b.view(1, 2)
	if w := one[Write](b); len(w.Records) != 30 || slices.ContainsFunc(w.Records, func(r protocol.Record) bool { return r.Home == 3 }) {
		t.Errorf("writes %+v", w.Records)
	}
}

// A takeover allocates in the step that completes its census.
func TestTakeoverPlacesTheShardsOfTheDead(t *testing.T) {
	b := newBench(t, Config{Shards: 4}, 1, 2)
	r := func(s protocol.ShardID, home gossip.NodeID, seq uint64) protocol.Record {
		return protocol.Record{Shard: s, Home: home, Token: protocol.Token{Term: 5, Seq: seq}, State: protocol.Allocated}
	}
	claim := protocol.Claim{Shard: 1, Token: protocol.Token{Term: 5, Seq: 2}, State: protocol.ClaimHosted}
	b.settle([]protocol.Record{r(0, 9, 1), r(1, 2, 2), r(2, 2, 3)}, map[gossip.NodeID][]protocol.Claim{2: {claim}})
	var placed []protocol.ShardID
	for _, rec := range one[Write](b).Records {
		placed = append(placed, rec.Shard)
	}
	// 0 was at a dead node; 2 was recorded, and its home does not know of it; 1 lives.
	if !slices.Equal(placed, []protocol.ShardID{0, 2}) {
		t.Errorf("placed again: %v, want 0 and 2", placed)
	}
}

// A record is served from the moment in which its home says that it has the shard,
// while the census still waits for others; and nothing is allocated. Before, it is
// only known: a predecessor that left in the middle of a move leaves records of
// homes that never started, and what was sent there could not always be put back
// in order (G9; the simulator's TestOrderly showed it).
func TestTheCensusServesWhatItsHomeConfirms(t *testing.T) {
	b := newBench(t, Config{Shards: 4}, 1, 2, 3)
	tok := protocol.Token{Term: 5, Seq: 2}
	told := func() (found bool) {
		for _, m := range find[*protocol.Homes](b) {
			found = found || slices.ContainsFunc(m.Homes, func(h protocol.Home) bool { return h.Shard == 1 && h.Node == 2 })
		}
		return found
	}
	b.step(ReadDone{ID: b.c.census.readID, Result: OK, Records: []protocol.Record{{Shard: 1, Home: 2, Token: tok}}})
	b.ask(3, 0, 1)
	if told() {
		t.Errorf("a home that has confirmed nothing is told: %+v", b.did)
	}
	b.receive(2, &protocol.CensusReport{Head: b.head(), Hosts: true, Claims: []protocol.Claim{{Shard: 1, Token: tok, State: protocol.ClaimHosted}}})
	if !told() {
		t.Errorf("the confirmed home is not told: %+v", b.did)
	}
	b.none(count[Write], count[*protocol.HostShards])
	b.receive(2, &protocol.Stopped{Head: b.head(), Shards: []protocol.ShardToken{{Shard: 1, Token: tok}}})
	b.ask(3, 1)
	if told() {
		t.Errorf("a home that has stopped is told: %+v", b.did)
	}
}

// A shard that its home is starting takes no message yet. The census neither serves it nor places
// it again: the order to start is repeated, and its home is published once the shard runs.
func TestTheCensusAwaitsWhatStarts(t *testing.T) {
	tok := protocol.Token{Term: 5, Seq: 2}
	record := protocol.Record{Shard: 1, Home: 2, Token: tok, State: protocol.Allocated}
	for name, records := range map[string][]protocol.Record{"on record": {record}, "without a record": nil} {
		b := newBench(t, Config{Shards: 4}, 1, 2, 3)
		b.settle(records, map[gossip.NodeID][]protocol.Claim{2: {{Shard: 1, Token: tok, State: protocol.ClaimStarting}}})
		if o := one[*protocol.HostShards](b); len(o.Shards) != 1 || o.Shards[0].Token != tok {
			t.Errorf("%s: orders %+v", name, o.Shards)
		}
		b.none(count[*protocol.Homes])
		b.ask(3, 1)
		b.none(count[*protocol.Homes])
		b.receive(2, &protocol.ShardsHosted{Head: b.head(), Shards: []protocol.ShardToken{{Shard: 1, Token: tok}}})
		if s := &b.c.table.shards[1]; s.home != 2 || s.token != tok || !s.served() || count[*protocol.Homes](b) == 0 {
			t.Errorf("%s: once it runs: %+v, did %+v", name, s, b.did)
		}
	}
}

// A shard that its home is stopping is told to nobody.
func TestTheCensusDoesNotServeWhatStops(t *testing.T) {
	b := newBench(t, Config{Shards: 4}, 1, 2, 3)
	claims := []protocol.Claim{{Shard: 1, Token: protocol.Token{Term: 5, Seq: 2}, State: protocol.ClaimStopping}}
	b.ask(3, 1)
	b.receive(2, &protocol.CensusReport{Head: b.head(), Hosts: true, Claims: claims}).none(count[*protocol.Homes])
}

// Two hosts claim one shard: the higher token wins, and the other host is ordered to stop
// until it has confirmed it.
func TestTheHighestClaimWins(t *testing.T) {
	b := newBench(t, Config{Shards: 4}, 1, 2, 3)
	claim := func(seq uint64) []protocol.Claim {
		return []protocol.Claim{{Shard: 1, Token: protocol.Token{Term: 5, Seq: seq}, State: protocol.ClaimHosted}}
	}
	b.settle(nil, map[gossip.NodeID][]protocol.Claim{2: claim(8), 3: claim(7)})
	if h := b.c.Homes(); len(h) != 1 || h[0].Node != 2 {
		t.Fatalf("homes %v", h)
	}
	if !b.traced(TraceDouble) {
		t.Error("nobody is told that shard 1 lives twice")
	}
	b.now = b.now.Add(time.Second)
	b.step(Tick{})
	if o := one[*protocol.HandOff](b); o.Shards[0].Token.Seq != 7 {
		t.Errorf("told to stop %+v", o.Shards)
	}
	b.receive(3, &protocol.Stopped{Head: b.head(), Shards: []protocol.ShardToken{{Shard: 1, Token: protocol.Token{Term: 5, Seq: 7}}}})
	one[*protocol.StoppedAck](b)
	b.now = b.now.Add(time.Second)
	b.step(Tick{}).none(count[*protocol.HandOff])
	if h := b.c.Homes(); len(h) != 1 || h[0].Node != 2 {
		t.Errorf("homes %v", h)
	}
}

// A host that is still stopping the shard under a lower token is no second home. It is
// ordered to stop as well.
func TestAClaimThatStopsIsNoSecondHome(t *testing.T) {
	b := newBench(t, Config{Shards: 4}, 1, 2, 3)
	claim := func(seq uint64, state protocol.ClaimState) []protocol.Claim {
		return []protocol.Claim{{Shard: 1, Token: protocol.Token{Term: 5, Seq: seq}, State: state}}
	}
	b.settle(nil, map[gossip.NodeID][]protocol.Claim{2: claim(8, protocol.ClaimHosted), 3: claim(7, protocol.ClaimStopping)})
	if h := b.c.Homes(); len(h) != 1 || h[0].Node != 2 {
		t.Fatalf("homes %v", h)
	}
	if b.traced(TraceDouble) || !b.traced(TraceClaimStale) {
		t.Error("the claim of a host that stops is not ignored")
	}
	b.now = b.now.Add(time.Second)
	b.step(Tick{})
	if o := one[*protocol.HandOff](b); o.Shards[0].Token.Seq != 7 {
		t.Errorf("told to stop %+v", o.Shards)
	}
}

// Stopped overtakes the report that claims the shard.
func TestStoppedOvertakesTheReport(t *testing.T) {
	b := newBench(t, Config{Shards: 4}, 1, 2)
	tok := protocol.Token{Term: 5, Seq: 8}
	b.receive(2, &protocol.Stopped{Head: b.head(), Shards: []protocol.ShardToken{{Shard: 1, Token: tok}}})
	b.settle(nil, map[gossip.NodeID][]protocol.Claim{2: {{Shard: 1, Token: tok, State: protocol.ClaimHosted}}})
	if w := one[Write](b); w.Records[0].Shard != 1 || !tok.Less(w.Records[0].Token) {
		t.Errorf("wrote %+v", w.Records)
	}
}

// A record that the read missed is written again; nobody waits for it.
func TestMissingRecordsAreWrittenAgain(t *testing.T) {
	b := newBench(t, Config{Shards: 4}, 1, 2)
	tok := protocol.Token{Term: 5, Seq: 8}
	b.settle(nil, map[gossip.NodeID][]protocol.Claim{2: {{Shard: 1, Token: tok, State: protocol.ClaimHosted}}})
	if w := one[Write](b); len(w.Records) != 1 || w.Records[0].Token != tok || w.Records[0].Home != 2 {
		t.Errorf("wrote %+v", w.Records)
	}
}

func TestUnknownWritesAreRepeatedWithTheSameRecords(t *testing.T) {
	b := newBench(t, Config{Shards: 4}, 1, 2).settle(nil, nil).ask(2, 1, 2)
	first := one[Write](b)
	b.step(WriteDone{ID: first.ID, Result: Unknown}).none(count[Write], count[*protocol.HostShards])
	b.now = b.c.Deadline()
	b.step(Tick{})
	again := one[Write](b)
	if again.ID == first.ID || !slices.Equal(again.Records, first.Records) {
		t.Errorf("wrote %+v, then %+v", first, again)
	}
	// The first one's late end means nothing.
	b.step(WriteDone{ID: first.ID, Result: OK}).none(count[*protocol.HostShards])
	b.step(WriteDone{ID: again.ID, Result: OK})
	if count[*protocol.HostShards](b) == 0 {
		t.Error("nothing is hosted after the second write")
	}
}

// A shard whose allocation is superseded before its write ends is not hosted.
func TestOvertakenWritesHostNothing(t *testing.T) {
	b := newBench(t, Config{Shards: 1}, 1, 2, 3)
	b.settle(nil, nil).ask(2, 0)
	first := one[Write](b)
	b.c.table.shards[0].home = 3
	first.Records[0].Home = 3
	b.view(1, 2)
	second := one[Write](b)
	b.step(WriteDone{ID: first.ID, Result: OK}).none(count[*protocol.HostShards])
	b.step(WriteDone{ID: second.ID, Result: OK})
	one[*protocol.HostShards](b)
}

func TestAFencedWriteEndsTheTerm(t *testing.T) {
	b := newBench(t, Config{Shards: 4}, 1, 2).settle(nil, nil).ask(2, 1)
	term := b.c.Term()
	b.step(WriteDone{ID: one[Write](b).ID, Result: Fenced, Higher: b.epoch + 1})
	if b.c.Term() != 0 {
		t.Fatal("still in office")
	}
	// The view that explains it comes later; with it office can be held again.
	b.view(1, 2)
	if b.c.Term() != b.epoch || b.c.Term() <= term {
		t.Errorf("term %v after %v", b.c.Term(), term)
	}
	one[Read](b)
}

func TestANewGenerationIsANewTerm(t *testing.T) {
	b := newBench(t, Config{Shards: 4}, 1, 2).settle(nil, nil)
	b.view(1, 2).none(count[Read])
	b.epoch = gossip.FirstEpoch(4)
	b.view(1, 2)
	one[Read](b)
	if n := count[*protocol.CensusRequest](b); n != 2 {
		t.Errorf("%d census requests", n)
	}
}

func TestLeavingCoordinatorHandsItsOfficeOn(t *testing.T) {
	b := newBench(t, Config{Shards: 4}, 1, 2).settle(nil, nil)
	b.epoch++
	v := *b.c.view
	v.Epoch, v.Members = b.epoch, slices.Clone(v.Members)
	v.Members[0].Status = gossip.Leaving
	b.step(ViewChanged{View: &v})
	if b.c.Term() != 0 {
		t.Error("a leaving member holds on to its office although another is up")
	}
}

// Nothing is allocated without a lease; with it, at once.
func TestWithoutALeaseNothingIsAllocated(t *testing.T) {
	b := newBench(t, Config{Shards: 4}, 1, 2).settle(nil, nil)
	b.step(LeaseChanged{}).ask(2, 1).none(count[Write])
	b.step(LeaseChanged{Valid: true})
	one[Write](b)
}

// Regions often hear of a view before the coordinator that it elects does.
func TestMessagesFromALaterViewWait(t *testing.T) {
	b := newBench(t, Config{Shards: 4}, 1, 2).settle(nil, nil)
	h := b.head()
	h.View++
	b.receive(2, &protocol.GetHome{Head: h, Hosts: true, Shards: []protocol.ShardID{1}}).none(count[Write])
	b.view(1, 2)
	one[Write](b)
}

func TestOutsidersAreIgnored(t *testing.T) {
	b := newBench(t, Config{Shards: 4}, 1, 2).settle(nil, nil)
	b.ask(9, 1).none(count[Write])
	if !b.traced(TraceStale) {
		t.Error("no trace of it")
	}
}

// A9: members that join, are silent or differ in version keep shards in place.
func TestNoRebalanceAtABadTime(t *testing.T) {
	b := newBench(t, Config{Shards: 4, Rebalance: time.Second}, 1)
	b.settle(nil, nil).ask(1, all(4)...)
	b.step(WriteDone{ID: one[Write](b).ID, Result: OK}).started()
	// 2 could take shards at any time; it is 3 that is new, silent, or not yet there.
	b.view(1, 2, 3)
	b.receive(2, &protocol.Register{Head: b.head(), Hosts: true})
	b.receive(3, &protocol.Register{Head: b.head(), Hosts: true})
	member := func(change func(m *gossip.Member)) {
		b.epoch++
		v := *b.c.view
		v.Epoch, v.Members = b.epoch, slices.Clone(v.Members)
		change(&v.Members[2])
		b.step(ViewChanged{View: &v})
	}
	quiet := func(why string) {
		t.Helper()
		early := count[*protocol.Begin](b) // in the step that brought the news
		b.now = b.now.Add(5 * time.Second)
		b.step(Tick{})
		early += count[*protocol.Begin](b)
		if b.step(Rebalance{}); early+count[*protocol.Begin](b) > 0 {
			t.Errorf("moves shards although %s", why)
		}
	}
	member(func(m *gossip.Member) { m.AppVersion = "2" })
	quiet("versions are mixed")
	member(func(m *gossip.Member) { m.AppVersion = "" })
	b.step(Silent{Nodes: []gossip.NodeID{3}})
	quiet("a member is silent")
	b.step(Silent{})
	v := *b.c.view
	b.epoch++
	v.Epoch, v.Members = b.epoch, append(slices.Clone(v.Members), gossip.Member{Node: gossip.Node{ID: 4}, Status: gossip.Joining})
	b.step(ViewChanged{View: &v})
	quiet("a member is joining")
	b.view(1, 2, 3)
	if b.step(Rebalance{}); count[*protocol.Begin](b) == 0 {
		t.Error("moves nothing at a good time")
	}
}

// A10: new shards go to the newest version only.
func TestNewShardsGoToTheNewestVersion(t *testing.T) {
	b := newBench(t, Config{Shards: 9}, 1, 2, 3)
	v := *b.c.view
	b.epoch++
	v.Epoch, v.Members = b.epoch, slices.Clone(v.Members)
	v.Members[2].AppVersion = "2"
	b.step(ViewChanged{View: &v}).settle(nil, nil).ask(1, all(9)...)
	for _, r := range one[Write](b).Records {
		if r.Home != 3 {
			t.Errorf("shard %v goes to %v", r.Shard, r.Home)
		}
	}
}

// The OR-sets of regions and proxies travel with the records.
func TestRegistrationsAreWrittenAlong(t *testing.T) {
	b := newBench(t, Config{Shards: 4}, 1, 2, 3).settle(nil, nil)
	b.view(1, 2, 3, 4)
	b.receive(4, &protocol.Register{Head: b.head(), Hosts: false})
	b.ask(2, 1)
	w := one[Write](b)
	if !slices.Equal(w.Regions, []gossip.NodeID{1, 2, 3}) || !slices.Equal(w.Proxies, []gossip.NodeID{4}) {
		t.Errorf("regions %v, proxies %v", w.Regions, w.Proxies)
	}
	b.view(1, 2, 3)
	b.now = b.now.Add(time.Minute)
	b.step(Tick{})
	for _, w := range find[Write](b) {
		if slices.Equal(w.Gone, []gossip.NodeID{4}) {
			return
		}
	}
	t.Errorf("3 stays in the sets: %+v", b.did)
}

func ExampleCore() {
	c := New(Config{Self: 1, Type: "counter", Shards: 8})
	var out Effects
	v := &gossip.View{Epoch: 1, Members: []gossip.Member{{Node: gossip.Node{ID: 1}, Status: gossip.Up}}}
	c.Step(1, LeaseChanged{Valid: true}, &out)
	c.Step(2, ViewChanged{View: v}, &out)
	h := protocol.Head{Type: "counter", Term: 1, View: 1}
	c.Step(3, Received{From: 1, Msg: &protocol.CensusReport{Head: h, Hosts: true}}, &out)
	c.Step(4, ReadDone{ID: 1, Result: OK}, &out)
	c.Step(5, Received{From: 1, Msg: &protocol.GetHome{Head: h, Hosts: true, Shards: []protocol.ShardID{5}}}, &out)
	for _, e := range out.Do {
		switch e := e.(type) {
		case Read:
			fmt.Println("read")
		case Send:
			fmt.Println("send", protocol.Name(e.Msg))
		case Write:
			fmt.Printf("write shard %v at %v\n", e.Records[0].Shard, e.Records[0].Home)
		}
	}
	// Output:
	// read
	// send CensusRequest
	// write shard 5 at 0000000000000001
}
