package coordinator_test

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// The scenarios of SCENARIOS.md that concern the two cores, each as one script.

// script is a world whose failure ends the test with the log's tail.
type script struct {
	*world
	t *testing.T
}

func play(t *testing.T, p plan) *script {
	t.Helper()
	s := &script{newWorld(1, p), t}
	s.loud = true
	t.Cleanup(func() {
		if s.check.err != nil {
			t.Errorf("%v\n%s", s.check.err, s.tail(60))
		} else if t.Failed() {
			t.Log(s.tail(60))
		}
	})
	s.run(20 * time.Millisecond)
	return s
}

func (s *script) ms(n int) *script {
	s.run(time.Duration(n) * time.Millisecond)
	return s
}

func (s *script) expect(ok bool, format string, args ...any) {
	s.t.Helper()
	if !ok {
		s.t.Errorf(format, args...)
	}
}

// home returns who hosts a shard in truth, zero if nobody does.
func (s *script) home(shard protocol.ShardID) gossip.NodeID {
	for _, n := range s.nodes {
		if n.alive && n.tenants[shard] != nil {
			return n.id
		}
	}
	return 0
}

func (s *script) homes() []gossip.NodeID {
	var out []gossip.NodeID
	for i := range s.plan.shards {
		out = append(out, s.home(protocol.ShardID(i)))
	}
	return out
}

// fill has every shard allocated, asked for by node 1.
func (s *script) fill() *script {
	for i := range s.plan.shards {
		s.node(1).tell(protocol.ShardID(i))
	}
	return s.ms(30)
}

// settled heals, waits, and checks that everything lives.
func (s *script) settled() *script {
	s.ms(600)
	s.check.live()
	return s
}

func (s *script) starts(shard protocol.ShardID) int {
	n := 0
	for st := range s.check.owner {
		if st.Shard == shard {
			n++
		}
	}
	return n
}

func TestA1FirstMessages(t *testing.T) {
	s := play(t, directed(3))
	for range 5 {
		s.node(2).tell(3)
	}
	s.expect(s.check.done == 0, "handled before the shard was allocated")
	s.ms(20).settled()
	s.expect(s.check.done == 5 && s.starts(3) == 1, "%d of 5 messages handled, %d starts", s.check.done, s.starts(3))
}

// An allocation is a majority write and a round trip: no tick is in between.
func TestA1NoTimerIsInvolved(t *testing.T) {
	p := directed(3)
	p.coordinator.Resend, p.coordinator.Rebalance = time.Hour, time.Hour
	s := play(t, p)
	s.node(3).tell(0)
	s.ms(8) // GetHome, write and ack, HostShards, start, ShardsHosted, Homes: 7 hops of 1 ms at most
	s.expect(s.check.done == 1, "not handled within 8 ms")
}

func TestA2OneInstance(t *testing.T) {
	s := play(t, directed(3))
	for range 10 {
		s.node(1).tell(2)
		s.node(2).tell(2)
		s.ms(1)
	}
	s.settled()
	s.expect(s.check.done == 20 && s.starts(2) == 1, "%d of 20 handled, %d starts", s.check.done, s.starts(2))
}

func TestA3ProxyCountsInHandoff(t *testing.T) {
	p := directed(2)
	p.proxies = 1
	s := play(t, p)
	proxy := s.node(3)
	s.fill()
	for i := range 6 {
		proxy.tell(protocol.ShardID(i))
	}
	s.ms(10)
	// Hold back what the proxy answers to Begin: nothing may stop meanwhile.
	ordered := 0
	s.hook = func(from, _ gossip.NodeID, m protocol.Message) (int, time.Duration) {
		if _, ok := m.(*protocol.HandOff); ok {
			ordered++
		}
		if _, ok := m.(*protocol.BeginAck); ok && from == proxy.id {
			return 0, 0
		}
		return 1, 0
	}
	s.node(2).drain()
	s.ms(100)
	s.expect(ordered == 0, "HandOff left before the proxy's BeginAck")
	s.hook = nil
	s.ms(100)
	s.expect(s.home(0) == 1 && s.node(2).drained, "homes %v, drained %v", s.homes(), s.node(2).drained)
	s.expect(len(proxy.tenants) == 0 && proxy.coord == nil, "the proxy hosts %v", proxy.tenants)
	s.expect(s.check.dropped == 0, "%d messages lost", s.check.dropped)
}

// A4: a node without the role is nobody's coordinator, however senior.
func TestA4WithoutTheRole(t *testing.T) {
	p := directed(2)
	s := play(t, p)
	v := *s.cur
	v.Epoch++
	outsider := s.newNode(false)
	v.Members = append([]gossip.Member{outsider.member(gossip.Up)}, v.Members...)
	s.commit(&v)
	s.ms(10)
	outsider.tell(1)
	s.ms(20).settled()
	s.expect(s.check.done == 1 && s.inOffice().id == 1, "in office: %d", s.inOffice().id)
}

func TestA5MinimumMembers(t *testing.T) {
	p := directed(2)
	p.minMembers = 3
	s := play(t, p).fill()
	s.expect(len(s.check.owner) == 0, "allocated with two members")
	s.join(true)
	s.ms(60)
	n := map[gossip.NodeID]int{}
	for _, h := range s.homes() {
		n[h]++
	}
	s.expect(n[1] == 2 && n[2] == 2 && n[3] == 2, "spread is %v", n)
	// It is met for good: losing two of three does not stop the third.
	s.node(1).leave("crash")
	s.node(2).leave("crash")
	s.remove(true, 1, 2)
	s.ms(60)
	s.expect(s.home(0) == 3, "homes %v", s.homes())
}

func TestA15RegionDiesBeforeBeginAck(t *testing.T) {
	p := directed(3)
	p.coordinator.BeginTimeout = time.Hour
	s := play(t, p).fill()
	s.hook = func(from, _ gossip.NodeID, m protocol.Message) (int, time.Duration) {
		if _, ok := m.(*protocol.BeginAck); ok && from == 3 {
			return 0, 0
		}
		return 1, 0
	}
	s.node(2).drain()
	s.ms(50)
	s.expect(!s.node(2).drained, "drained without an answer of 3")
	s.node(3).leave("crash")
	s.remove(false, 3)
	s.ms(30)
	s.expect(s.node(2).drained, "the death of 3 is no answer")
	s.settled()
}

func TestA16OwnerDiesBeforeStopped(t *testing.T) {
	p := directed(3)
	p.stopDelay = time.Hour
	s := play(t, p).fill()
	s.node(2).drain()
	s.ms(30)
	s.expect(s.check.marks["handoff ordered"] > 0, "no handoff")
	s.node(2).leave("crash")
	s.remove(false, 2)
	s.ms(20)
	s.expect(!slices.Contains(s.homes(), 0), "homes %v", s.homes())
	s.settled()
}

func TestA17LateStopped(t *testing.T) {
	p := directed(2)
	s := play(t, p).fill()
	s.plan.slowStop = 1 // 2 s, the coordinator asks after 1.15 s
	s.node(2).drain()
	s.ms(1900)
	s.expect(s.check.marks["move cancelled"] > 0, "never cancelled")
	s.expect(s.check.marks["shard still served"] == 0, "a stopping shard is said to be served")
	s.ms(300).settled()
	s.expect(s.node(2).drained && s.check.dropped == 0, "drained %v, %d lost", s.node(2).drained, s.check.dropped)
	for i := range protocol.ShardID(6) {
		s.expect(s.starts(i) <= 2, "shard %v started %d times", i, s.starts(i))
	}
}

// A HandOff that never arrives: the owner is asked, says it serves, and routes
// open again where they were.
func TestCancelFindsTheShardServed(t *testing.T) {
	p := directed(2)
	p.coordinator.RemoveAfter = time.Hour
	s := play(t, p).fill()
	before := s.homes()
	s.hook = func(_, _ gossip.NodeID, m protocol.Message) (int, time.Duration) {
		if _, ok := m.(*protocol.HandOff); ok {
			return 0, 0
		}
		return 1, 0
	}
	s.node(2).drain()
	s.ms(100)
	s.node(1).tell(1)
	s.ms(1200)
	s.expect(s.check.marks["shard still served"] > 0, "the question had no answer")
	s.expect(slices.Equal(before, s.homes()), "homes %v were %v", s.homes(), before)
	s.hook = nil
	s.ms(1500).settled()
	s.expect(s.node(2).drained && s.check.dropped == 0, "drained %v, %d lost", s.node(2).drained, s.check.dropped)
}

func TestA18HostShardsLostAndDoubled(t *testing.T) {
	s := play(t, directed(2))
	lost := 0
	s.hook = func(_, _ gossip.NodeID, m protocol.Message) (int, time.Duration) {
		if _, ok := m.(*protocol.HostShards); ok {
			if lost++; lost < 3 {
				return 0, 0
			}
			return 3, 2 * time.Millisecond
		}
		return 1, 0
	}
	s.node(1).tell(4)
	s.ms(100).settled()
	s.expect(s.starts(4) == 1 && s.check.done == 1, "%d starts, %d handled", s.starts(4), s.check.done)
}

func TestA21CoordinatorCrashes(t *testing.T) {
	s := play(t, directed(4)).fill()
	before := s.homes()
	for i := range 6 {
		s.node(4).tell(protocol.ShardID(i))
	}
	s.ms(20)
	done := s.check.done
	s.node(1).leave("crash")
	// Known shards serve on while nobody is in office.
	for i, h := range before {
		if h != 1 {
			s.node(4).tell(protocol.ShardID(i))
			done++
		}
	}
	s.ms(10)
	s.expect(s.check.done == done, "%d handled without a coordinator, want %d", s.check.done, done)
	s.remove(false, 1)
	s.ms(30)
	for i, h := range s.homes() {
		s.expect(h == before[i] || before[i] == 1 && h != 0, "shard %d was at %d and is at %d", i, before[i], h)
	}
	s.settled()
}

// A22, A23 (akka #28856): the write reached a majority that stops as one.
func TestA22WriteDiesWithItsMajority(t *testing.T) { writeDiesWithItsMajority(t, 7, 5) }

func TestA23WriteDiesWithFiftyOf99(t *testing.T) { writeDiesWithItsMajority(t, 99, 50) }

// writeDiesWithItsMajority: allocations are known to the first nodes alone, the holders,
// which then crash together. The rest goes on and no shard gets a second home.
func writeDiesWithItsMajority(t *testing.T, nodes, holders int) {
	p := directed(nodes)
	p.shards = nodes
	s := play(t, p)
	s.loud = nodes < 10
	s.unstored = func(n gossip.NodeID) bool { return int(n) > holders }
	s.fill()
	var dead []gossip.NodeID
	for i := range holders {
		s.node(gossip.NodeID(i + 1)).leave("crash")
		dead = append(dead, gossip.NodeID(i+1))
	}
	before := s.homes()
	kept := 0
	for _, h := range before {
		kept += min(int(h), 1)
	}
	s.expect(kept > 0 && kept < nodes, "%d of %d shards live with the survivors: nothing is shown", kept, nodes)
	s.unstored = nil
	s.remove(true, dead...)
	s.ms(60)
	// What the dead alone knew is placed when it is asked for, the rest is not
	// touched.
	for i := range p.shards {
		s.node(gossip.NodeID(nodes)).tell(protocol.ShardID(i))
	}
	s.ms(30)
	for i, h := range before {
		s.expect(h == 0 || s.home(protocol.ShardID(i)) == h, "shard %d was at %d", i, h)
	}
	s.expect(!slices.Contains(s.homes(), 0), "homes %v", s.homes())
	s.settled()
}

func TestA24SlowNode(t *testing.T) {
	s := play(t, directed(5))
	s.hook = func(from, to gossip.NodeID, _ protocol.Message) (int, time.Duration) {
		if from == 5 || to == 5 {
			return 1, 100 * time.Millisecond
		}
		return 1, 0
	}
	for i := range 4 {
		s.node(1).tell(protocol.ShardID(i))
	}
	s.ms(15)
	s.expect(s.check.done == 4, "%d of 4 handled within 15 ms", s.check.done)
}

func TestA25DeadNodeNotYetRemoved(t *testing.T) {
	for _, n := range []int{3, 5, 8} {
		p := directed(n)
		p.shards = 2 * n
		s := play(t, p)
		last := gossip.NodeID(n)
		s.node(last).leave("crash")
		for _, x := range s.nodes {
			x.stepCoordinator(coordinator.Silent{Nodes: []gossip.NodeID{last}})
		}
		for i := range p.shards {
			s.node(1).tell(protocol.ShardID(i))
		}
		s.ms(15)
		s.expect(s.check.done == p.shards, "%d nodes: %d of %d handled within 15 ms", n, s.check.done, p.shards)
	}
}

// A replicator that has not started: the read is made again until it has.
func TestA26ReadWithoutReplicas(t *testing.T) {
	s := &script{newWorld(1, directed(3)), t}
	s.unstored = func(n gossip.NodeID) bool { return n != 1 }
	s.ms(200)
	s.node(2).tell(0)
	s.ms(200)
	s.expect(s.check.done == 0, "allocated without a read")
	s.unstored = nil
	s.ms(100).settled()
	s.expect(s.check.done == 1, "not allocated afterwards")
}

// The old coordinator's orders reach nodes that have answered the new one's
// census: they are refused, and it learns that it is out of office.
func TestA27ReplacedCoordinatorsOrders(t *testing.T) {
	s := play(t, directed(3)).fill()
	s.hook = func(_, _ gossip.NodeID, m protocol.Message) (int, time.Duration) {
		if h, ok := m.(*protocol.HostShards); ok && h.Term == gossip.FirstEpoch(7) {
			return 2, 60 * time.Millisecond
		}
		return 1, 0
	}
	s.plan.stopDelay = time.Millisecond
	s.node(2).drain()
	s.ms(12)
	s.expect(s.check.marks["allocation written"] > 6, "nothing is on its way")
	s.status(1, gossip.Leaving)
	s.ms(50)
	s.expect(s.inOffice().id == 2, "in office: %d", s.inOffice().id)
	s.ms(100)
	s.expect(s.check.marks["stale term refused"] > 0, "no order came late")
	s.status(1, gossip.Leaving)
	s.settled()
}

func TestA29QuickRestart(t *testing.T) {
	s := play(t, directed(3)).fill()
	s.node(3).leave("crash")
	s.remove(false, 3)
	s.joinAs("", "n3") // 20 ms later the address answers again
	again := s.nodes[len(s.nodes)-1]
	s.expect(again.name == "n3" && again.id != 3, "%s is %d again", again.name, again.id)
	s.ms(40)
	for i, h := range s.homes() {
		s.expect(h != 0 && s.starts(protocol.ShardID(i)) <= 2, "shard %d lives at %d after %d starts", i, h, s.starts(protocol.ShardID(i)))
		again.tell(protocol.ShardID(i))
	}
	done := s.check.done
	s.ms(10)
	s.expect(s.check.done == done+6, "%d of 6 messages of the new one are handled", s.check.done-done)
	s.settled()
	s.ms(500) // rounds of rebalancing: it is a region like any other
	s.expect(slices.Contains(s.homes(), again.id), "the new one hosts nothing: %v", s.homes())
}

// A56: a doubled HostShards comes after the HandOff that ended its allocation.
func TestA56HandOffOvertakesHostShards(t *testing.T) {
	s := play(t, directed(2))
	s.hook = func(from, to gossip.NodeID, m protocol.Message) (int, time.Duration) {
		if _, ok := m.(*protocol.HostShards); ok {
			s.hook = nil
			s.world.at(50*time.Millisecond, func() { s.node(to).receive(from, m) })
		}
		return 1, 0
	}
	s.node(1).tell(0)
	s.ms(15)
	owner := s.home(0)
	s.node(owner).drain()
	s.ms(25)
	s.expect(s.home(0) == 3-owner, "home %d after the move from %d", s.home(0), owner)
	s.ms(50)
	s.expect(s.check.marks["stale token refused"] > 0, "the late order was not refused")
	s.expect(s.starts(0) == 2, "%d starts", s.starts(0))
}

func TestA57CoordinatorCannotReachAMember(t *testing.T) {
	p := directed(3)
	s := play(t, p)
	s.cut[[2]gossip.NodeID{1, 3}] = true
	for i := range 6 {
		s.node(1).tell(protocol.ShardID(i))
	}
	s.ms(250)
	s.expect(len(s.node(1).yields) == 0, "yields after less than RemoveAfter")
	s.ms(150)
	s.expect(slices.Equal(s.node(1).yields, []gossip.NodeID{3}), "yields %v, want 3 once", s.node(1).yields)
}

// A shard whose home is slow to stop is no reason to part from it.
func TestSlowStopIsNoSilence(t *testing.T) {
	s := play(t, directed(3)).fill()
	s.plan.slowStop = 1
	s.node(3).drain()
	s.ms(1000)
	s.expect(len(s.node(1).yields) == 0, "yields %v", s.node(1).yields)
}

// A region that restarts inside a living process leaves no ghost (A20).
func TestA20RegionRestarts(t *testing.T) {
	s := play(t, directed(2)).fill()
	before := s.homes()
	old := s.node(2).tenants[1]
	s.expect(slices.Contains(before, 2) && before[1] == 2, "homes %v: nothing is shown", before)
	s.node(2).restartRegion()
	s.ms(100)
	for i, h := range s.homes() {
		again := 1
		if before[i] == 2 {
			again = 2
		}
		s.expect(h != 0 && s.starts(protocol.ShardID(i)) == again, "shard %d was at %d, lives at %d after %d starts", i, before[i], h, s.starts(protocol.ShardID(i)))
		s.node(1).tell(protocol.ShardID(i))
		s.node(2).tell(protocol.ShardID(i))
	}
	done := s.check.done
	s.ms(10)
	s.expect(s.check.done == done+12, "%d of 12 messages handled afterwards", s.check.done-done)
	// The former region's allocations are over: an order of them is refused.
	late := protocol.Head{Type: typeName, Term: old.token.Term, View: s.cur.Epoch, Seq: old.token.Seq}
	s.node(2).receive(1, &protocol.HostShards{Head: late, Shards: []protocol.HostOrder{{Shard: 1, Token: old.token}}})
	s.ms(10)
	s.expect(s.check.marks["stale token refused"] > 0, "an order from before the restart was taken")
	s.settled()
}

// A19, as far as the cores go: the last node's drain ends at once.
func TestA19DrainOfTheLastNode(t *testing.T) {
	s := play(t, directed(1)).fill()
	s.node(1).drain()
	s.ms(10)
	s.expect(s.node(1).drained && s.home(0) == 0, "drained %v", s.node(1).drained)
}

// The coordinator's own node drains: it stays in office until it leaves, and the
// next one finds everything placed.
func TestA19DrainOfTheCoordinator(t *testing.T) {
	p := directed(3)
	p.traffic, p.keep = time.Millisecond, true
	s := play(t, p).fill()
	s.node(1).drain()
	s.ms(50)
	s.calm = true
	s.ms(10)
	s.expect(s.check.done == s.check.sent && s.check.done > 50, "%d of %d messages handled", s.check.done, s.check.sent)
	s.expect(s.node(1).drained && !slices.Contains(s.homes(), 1), "drained %v, homes %v", s.node(1).drained, s.homes())
	before := s.homes()
	s.node(1).leave("left")
	s.remove(false, 1)
	s.ms(50)
	s.expect(slices.Equal(before, s.homes()), "homes %v were %v", s.homes(), before)
	s.settled()
}

// All but one drain at once, the coordinator among them: each shard moves once, to the
// one that stays, and no message is lost meanwhile.
func TestA19AllButOneDrainAtOnce(t *testing.T) {
	p := directed(4)
	p.shards, p.traffic, p.keep = 16, time.Millisecond, true
	s := play(t, p).fill()
	for id := gossip.NodeID(1); id < 4; id++ {
		s.node(id).drain()
	}
	s.ms(100)
	for i, h := range s.homes() {
		s.expect(h == 4 && s.starts(protocol.ShardID(i)) <= 2, "shard %d is at %d after %d starts", i, h, s.starts(protocol.ShardID(i)))
	}
	for id := gossip.NodeID(1); id < 4; id++ {
		s.expect(s.node(id).drained, "%d is not drained", id)
		s.node(id).leave("left")
	}
	s.remove(false, 1, 2, 3)
	s.calm = true
	s.ms(60)
	s.expect(s.inOffice().id == 4 && !slices.Contains(s.homes(), 0), "in office %d, homes %v", s.inOffice().id, s.homes())
	s.settled()
}

// Two drain at once: nothing goes from one to the other.
func TestA19TwoDrainAtOnce(t *testing.T) {
	p := directed(4)
	p.shards, p.traffic, p.keep = 16, time.Millisecond, true
	s := play(t, p).fill()
	s.node(2).drain()
	s.node(3).drain()
	s.ms(60)
	s.expect(s.node(2).drained && s.node(3).drained, "drained %v %v", s.node(2).drained, s.node(3).drained)
	for i := range protocol.ShardID(16) {
		h := s.home(i)
		s.expect(s.starts(i) <= 2 && (h == 1 || h == 4), "shard %v started %d times, lives at %d", i, s.starts(i), h)
	}
	s.calm = true
	s.ms(20)
	s.expect(s.check.done == s.check.sent && s.check.done > 50, "%d of %d messages handled", s.check.done, s.check.sent)
	s.settled()
}
