package placement

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// moveLine is a line of the trace: kind, shard and node, at a millisecond.
type moveLine struct {
	ms    int
	kind  string
	shard strategy.ShardID
	node  gossip.NodeID
}

// chosenAgain stands for TraceChosen of a shard that had a home before.
const chosenAgain = "home chosen again"

func playMoves(lines ...moveLine) *moveLog {
	l := &moveLog{}
	playInto(l, lines...)
	return l
}

func playInto(l *moveLog, lines ...moveLine) {
	for _, x := range lines {
		t := traceLine{at: atMillis(x.ms), coordinator: true, kind: x.kind, shard: x.shard, hasShard: true, node: x.node}
		switch x.kind {
		case coordinator.TraceFreed:
			t.detail = "its home left the view"
		case chosenAgain:
			t.kind, t.detail = coordinator.TraceChosen, coordinator.AllocatedBefore
		}
		l.addLine(&t)
	}
}

func atMillis(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }

func TestMovesAfterACrash(t *testing.T) {
	l := playMoves(
		moveLine{10, coordinator.TraceFreed, 1, 7}, moveLine{10, coordinator.TraceFreed, 2, 7},
		moveLine{11, coordinator.TraceChosen, 1, 8}, moveLine{12, coordinator.TraceChosen, 2, 9},
		moveLine{15, coordinator.TraceWritten, 1, 8}, moveLine{16, coordinator.TraceWritten, 2, 9},
		moveLine{17, coordinator.TraceHosted, 1, 8},
	)
	want := Moves{From: 7, Why: "its home left the view", Shards: 2, Hosted: 1, Began: atMillis(10), Chosen: atMillis(12), Written: atMillis(16), Done: atMillis(17)}
	if got := l.listMoves(); len(got) != 1 || got[0] != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if open := l.listOpen(); !slices.Equal(open, []strategy.ShardID{2}) {
		t.Errorf("%v are on their way, want 2", open)
	}
}

func TestMovesByReason(t *testing.T) {
	l := playMoves(
		moveLine{0, coordinator.TraceOffice, 0, 1},
		moveLine{40, chosenAgain, 1, 8}, // after the takeover
		moveLine{60, coordinator.TraceHosted, 1, 8},
		moveLine{9000, coordinator.TraceChosen, 2, 8}, // by its first message
		moveLine{9001, coordinator.TraceHosted, 2, 8},
		moveLine{9002, coordinator.TraceMove, 1, 9}, // rebalancing
		moveLine{9002, coordinator.TraceHandOff, 1, 8},
		moveLine{9003, coordinator.TraceMove, 2, 9},
		moveLine{9004, coordinator.TraceCancel, 2, 9},
		moveLine{9005, coordinator.TraceChosen, 1, 9},
		moveLine{9006, coordinator.TraceHosted, 1, 9},
		moveLine{20000, coordinator.TraceFreed, 2, 8}, // an event of its own, much later
	)
	got := l.listMoves()
	why := []string{WhyTakeover, WhyFirst, WhyRebalanced, "its home left the view"}
	if len(got) != len(why) {
		t.Fatalf("%+v, want one each of %q", got, why)
	}
	for i, g := range got {
		if g.Why != why[i] || g.Shards != 1 {
			t.Errorf("%+v, want one shard, since %q", g, why[i])
		}
	}
	if got[0].Began != atMillis(0) {
		t.Errorf("a takeover began at %v, not with the office", got[0].Began)
	}
	if got[2].From != 8 || got[2].Hosted != 1 {
		t.Errorf("%+v, want one shard of node 8", got[2])
	}
}

func TestMovesAreBounded(t *testing.T) {
	l := &moveLog{}
	for i := range 100 {
		l.addLine(&traceLine{at: atMillis(i * 10000), kind: coordinator.TraceFreed, shard: strategy.ShardID(i % 4), node: gossip.NodeID(i)})
	}
	if got := l.listMoves(); len(got) > movesMax || got[len(got)-1].From != 99 {
		t.Errorf("%d moves, the last %+v", len(got), got[len(got)-1])
	}
	l.addLine(&traceLine{kind: coordinator.TraceOfficeLeft})
	if open := l.listOpen(); len(open) > 0 {
		t.Errorf("%v are on their way at a former coordinator", open)
	}
}

// observed is a phase as moveLog reports it.
type observed struct {
	cause, phase string
	took         time.Duration
}

func TestPhasesOfMoves(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for _, c := range []struct {
		what  string
		lines []moveLine
		want  []observed
	}{
		{"a crash", []moveLine{
			{10, coordinator.TraceFreed, 1, 7}, {11, coordinator.TraceChosen, 1, 8}, {15, coordinator.TraceWritten, 1, 8}, {18, coordinator.TraceHosted, 1, 8},
		}, []observed{{"failure", "write", ms(5)}, {"failure", "start", ms(3)}, {"failure", "total", ms(8)}}},
		{"a handoff", []moveLine{
			{10, coordinator.TraceMove, 1, 8}, {11, coordinator.TraceHandOff, 1, 7}, {31, coordinator.TraceStopped, 1, 7},
			{32, coordinator.TraceChosen, 1, 8}, {35, coordinator.TraceWritten, 1, 8}, {36, coordinator.TraceHosted, 1, 8},
		}, []observed{{"handoff", "stop", ms(21)}, {"handoff", "write", ms(4)}, {"handoff", "start", ms(1)}, {"handoff", "total", ms(26)}}},
		{"a home that dies while it stops", []moveLine{
			{10, coordinator.TraceMove, 1, 8}, {20, coordinator.TraceFreed, 1, 7}, {21, coordinator.TraceChosen, 1, 8},
			{22, coordinator.TraceWritten, 1, 8}, {24, coordinator.TraceHosted, 1, 8},
		}, []observed{{"failure", "write", ms(2)}, {"failure", "start", ms(2)}, {"failure", "total", ms(4)}}},
		{"a takeover, and a shard that is new", []moveLine{
			{0, coordinator.TraceOffice, 0, 1}, {30, coordinator.TraceCensus, 0, 0},
			{31, chosenAgain, 1, 8}, {35, coordinator.TraceWritten, 1, 8}, {36, coordinator.TraceHosted, 1, 8},
			{32, coordinator.TraceChosen, 3, 8}, {35, coordinator.TraceWritten, 3, 8}, {36, coordinator.TraceHosted, 3, 8}, // new, in the first instants of a cluster
			{900, coordinator.TraceChosen, 2, 8}, {905, coordinator.TraceWritten, 2, 8}, {906, coordinator.TraceHosted, 2, 8},
		}, []observed{{"takeover", "write", ms(35)}, {"takeover", "start", ms(1)}, {"takeover", "total", ms(36)}}},
		{"a shard's first home", []moveLine{
			{9000, coordinator.TraceChosen, 1, 8}, {9001, coordinator.TraceWritten, 1, 8}, {9002, coordinator.TraceHosted, 1, 8},
		}, nil},
	} {
		var got []observed
		l := &moveLog{observe: func(cause, phase string, took time.Duration) { got = append(got, observed{cause, phase, took}) }}
		playInto(l, c.lines...)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

func TestShardsOnTheirWayAreCounted(t *testing.T) {
	l := playMoves(
		moveLine{10, coordinator.TraceFreed, 1, 7}, moveLine{10, coordinator.TraceFreed, 2, 7},
		moveLine{11, coordinator.TraceMove, 3, 8}, moveLine{12, coordinator.TraceHosted, 2, 8},
	)
	if homeless, moving := l.countOpen(); homeless != 1 || moving != 1 {
		t.Errorf("%d homeless, %d moving, want one each", homeless, moving)
	}
	playInto(l, moveLine{13, coordinator.TraceOfficeLeft, 0, 0})
	if homeless, moving := l.countOpen(); homeless != 0 || moving != 0 {
		t.Errorf("a former coordinator counts %d homeless, %d moving", homeless, moving)
	}
}

// A rebalance of hundreds of shards is one line of the log, and there is at most one a minute.
func TestMovesAreLoggedInSum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []moveSum
		l := &moveLog{}
		l.report = func(s moveSum) { lines = append(lines, s) }
		pass := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		playInto(l, moveLine{0, coordinator.TraceChosen, 7, 1}, moveLine{1, coordinator.TraceHosted, 7, 1})
		pass(time.Minute)
		if len(lines) > 0 {
			t.Errorf("a first home is logged: %+v", lines)
		}
		for i := range strategy.ShardID(300) {
			playInto(l, moveLine{10, coordinator.TraceMove, i, 2}, moveLine{15, coordinator.TraceHosted, i, 2})
		}
		playInto(l, moveLine{20, coordinator.TraceFreed, 5, 2}, moveLine{60, coordinator.TraceHosted, 5, 1})
		pass(sumAfter)
		first := moveSum{failure: 1, handoff: 300, longest: 40 * time.Millisecond}
		if len(lines) != 1 || lines[0] != first {
			t.Fatalf("%+v, want %+v", lines, first)
		}
		playInto(l, moveLine{80, coordinator.TraceFreed, 5, 2}, moveLine{90, coordinator.TraceHosted, 5, 1})
		pass(sumApart - time.Second)
		if len(lines) != 1 {
			t.Errorf("two lines within a minute: %+v", lines)
		}
		playInto(l, moveLine{100, coordinator.TraceFreed, 6, 2}, moveLine{105, coordinator.TraceHosted, 6, 1})
		pass(time.Second)
		if want := (moveSum{failure: 2, longest: 10 * time.Millisecond}); len(lines) != 2 || lines[1] != want {
			t.Errorf("%+v, want %+v at last", lines, want)
		}
		playInto(l, moveLine{110, coordinator.TraceMove, 6, 2}, moveLine{115, coordinator.TraceHosted, 6, 1})
		l.reportSum() // the driver ends
		if len(lines) != 3 || lines[2].handoff != 1 {
			t.Errorf("%+v: the end reports no rest", lines)
		}
	})
}
