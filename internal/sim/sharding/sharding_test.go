package sharding

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/sim/datapath"
	"github.com/peerage-go/peerage/internal/sim/membership"
	"github.com/peerage-go/peerage/internal/sim/process"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/internal/sim/seed"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

func TestRecordsAreDecodedAsTheyWereEncoded(t *testing.T) {
	want := protocol.Record{
		Shard: 5, Home: 6, Token: protocol.Token{Term: 7, Seq: 8}, State: 1, From: 9, Ended: protocol.Token{Term: 3, Seq: 4}, Moves: 2, Since: 10,
	}
	v, err := crdt.New(crdt.KindLWWMap)
	if err != nil {
		t.Fatal(err)
	}
	v.(*crdt.LWWMap[string, string]).Set(shardKey(want.Shard), encodeRecord(want), crdt.Stamp{Time: 1})
	if got := decodeRecords(v); len(got) != 1 || got[0] != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := decodeRecords(nil); got != nil {
		t.Errorf("got %+v of nothing", got)
	}
}

// stops reports whether do stops the run.
func stops(do func()) (stopped bool) {
	defer func() { _, stopped = recover().(run.Failure) }()
	do()
	return false
}

// TestOrdersWaitForTheirWrite: S8.
func TestOrdersWaitForTheirWrite(t *testing.T) {
	inv := NewInvariants(run.New(&seed.Options{Nodes: 1}), nil, nil)
	checks, token := inv.types[0], protocol.Token{Term: 1, Seq: 2}
	order := &protocol.HostShards{Shards: []protocol.HostOrder{{Shard: 3, Token: token}}}
	if !stops(func() { checks.checkOrder("a", order) }) {
		t.Error("an order leaves before its allocation is acknowledged")
	}
	checks.noteWritten(coordinator.Write{Records: []protocol.Record{{Shard: 3, Token: token}}})
	if stops(func() { checks.checkOrder("a", order) }) {
		t.Error("an order must not leave after its allocation is acknowledged")
	}
}

// TestEndingsOfTheNewestInstanceCount: what happens to an older instance explains no loss.
func TestEndingsOfTheNewestInstanceCount(t *testing.T) {
	inv := NewInvariants(run.New(&seed.Options{Nodes: 1}), nil, nil)
	checks := inv.types[0]
	older, newer := protocol.ShardToken{Shard: 3, Token: protocol.Token{Term: 1, Seq: 1}}, protocol.ShardToken{Shard: 3, Token: protocol.Token{Term: 1, Seq: 2}}
	checks.endings[3] = ending{node: 1, token: newer.Token, how: "not at all"}
	checks.noteEnding(1, older, 2, endedInOrder)
	checks.noteStopped(older)
	checks.noteNotTransferred(older)
	if e := checks.endings[3]; e.how != "not at all" || e.stopped {
		t.Errorf("ended %+v", e)
	}
	checks.noteEnding(1, newer, 2, endedInOrder)
	checks.noteStopped(newer)
	if e := checks.endings[3]; e.how != endedInOrder || !e.stopped || e.to != gossip.NodeID(2) {
		t.Errorf("ended %+v", e)
	}
}

// TestALateDrainIsMarked checks that a process which leaves before it has handed everything over is
// marked: its handlers may still run, so S1 in its strict form does not hold of it (TestSeeds, seed 1633008).
func TestALateDrainIsMarked(t *testing.T) {
	r := run.New(&seed.Options{Nodes: 1})
	r.Config = seed.Config{Drain: true, Lease: time.Second, RemoveAfter: 2 * time.Second}
	for _, handed := range []bool{false, true} {
		p := &process.Process{Run: r, Thread: virtual.NewThread(&r.Time)}
		d, left := draining{site: &site{p: p}}, false
		d.startDrain(nil, func() { left = true })
		d.done = handed
		r.Until(r.Now().Add(2 * r.Config.DrainPatience()))
		if !left || d.late == handed {
			t.Errorf("handed over %v: left %v, late %v", handed, left, d.late)
		}
	}
}

// TestDamagedFramesAreCopies: the sender may send the same message again.
func TestDamagedFramesAreCopies(t *testing.T) {
	f := &pathFrame{0, &datapath.Frame{Msg: &datapath.Message{Seq: 1}}}
	if g := f.Flip().(*pathFrame); g.Msg.Seq == 1 || f.Msg.Seq != 1 {
		t.Errorf("sequence numbers %d and %d", f.Msg.Seq, g.Msg.Seq)
	}
	empty := &pathFrame{0, &datapath.Frame{}}
	if empty.Flip() != any(empty) {
		t.Error("a frame without a message was changed")
	}
}

// newest is a World whose newest view is given.
type newest struct {
	World
	view gossip.View
}

func (w *newest) Newest() *gossip.View { return &w.view }

// TestAsksThatAreLostWithAMember checks when the outcome of an ask may be unknown in an orderly run: if
// the newest view has left out the asker or the node that has the request, and that node was not leaving
// (seed 1206304 of TestSeeds), or a coordinator there had reported a member, and the leader removed the
// former although it was draining (seed 7024830 of TestOrderly).
func TestAsksThatAreLostWithAMember(t *testing.T) {
	const asker, home gossip.NodeID = 1, 2
	for _, c := range []struct {
		name    string
		members []gossip.NodeID
		leaves  bool
		reports bool
		how     invariant.Outcome
		allowed bool
	}{
		{"both are members", []gossip.NodeID{asker, home}, false, false, invariant.Unknown, false},
		{"the home was removed", []gossip.NodeID{asker}, false, false, invariant.Unknown, true},
		{"the asker was removed", []gossip.NodeID{home}, false, false, invariant.Unknown, true},
		{"the home has left", []gossip.NodeID{asker}, true, false, invariant.Unknown, false},
		{"the home was removed for its report while it left", []gossip.NodeID{asker}, true, true, invariant.Unknown, true},
		{"the ask was refused there", []gossip.NodeID{asker}, true, true, invariant.Refused, false},
		{"the ask was refused", []gossip.NodeID{asker}, false, false, invariant.Refused, false},
		{"the ask timed out", []gossip.NodeID{asker}, false, false, invariant.TimedOut, false},
	} {
		r, w := run.New(&seed.Options{Nodes: 2, Orderly: true}), &newest{}
		for _, id := range c.members {
			w.view.Members = append(w.view.Members, gossip.Member{Node: gossip.Node{ID: id}})
		}
		inv := NewInvariants(r, nil, w)
		for _, id := range []gossip.NodeID{asker, home} {
			inv.addNode(&Node{site: site{p: &process.Process{Run: r, Slot: int(id) - 1, Node: gossip.Node{ID: id}}, inv: inv, member: &membership.Driver{}}})
		}
		if c.leaves {
			inv.byID[home].member.StartLeaving()
		}
		if c.reports {
			inv.noteReport(home, asker)
		}
		at := &inv.byID[asker].site
		m := &base{site: at, p: at.p, run: r, spec: &r.Config.Types[0], checks: inv.types[0]}
		s := &calls{m: m, open: map[uint64]*call{7: {at: home, hosted: true, begun: 1}}}
		m.checks.asks.Begun(invariant.Ask{Asker: asker, Call: 7})
		if stopped := stops(func() { s.endAsk(7, c.how) }); stopped == c.allowed {
			t.Errorf("%s: the ask stops the run: %v", c.name, stopped)
		}
	}
}
