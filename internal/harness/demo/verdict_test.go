package demo

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/fleet"
	"github.com/peerage-go/peerage/internal/harness/machine"
	"github.com/peerage-go/peerage/internal/history"
)

func TestSettingsOutOfRangeAreAllReported(t *testing.T) {
	good := Config{Nodes: 5, Counters: 200, Shards: 64, Every: 10 * time.Millisecond, WarmUp: time.Second, Between: time.Second}
	if err := good.Validate(); err != nil {
		t.Errorf("%+v: %v", good, err)
	}
	for _, edge := range []Config{
		{Nodes: 2, Counters: 1, Shards: 1, Every: time.Millisecond, WarmUp: 100 * time.Millisecond, Between: 100 * time.Millisecond},
		{Nodes: 9, Counters: 10_000, Shards: 4096, Every: time.Second, WarmUp: 20 * time.Second, Between: 20 * time.Second},
	} {
		if err := edge.Validate(); err != nil {
			t.Errorf("%+v: %v", edge, err)
		}
	}
	for _, bad := range []Config{
		{Nodes: 1, Counters: 0, Shards: 0, Every: time.Microsecond, WarmUp: time.Millisecond, Between: 0},
		{Nodes: 10, Counters: 10_001, Shards: 4097, Every: time.Minute, WarmUp: time.Minute, Between: time.Minute},
	} {
		err := bad.Validate()
		for _, flag := range []string{"--nodes is ", "--counters is ", "--shards is ", "--every is ", "--warm-up is ", "--between is "} {
			if err == nil || !strings.Contains(err.Error(), flag) {
				t.Errorf("%+v: %q is missing in %v", bad, flag, err)
			}
		}
	}
}

const second = clock.Instant(time.Second)

// twoKills is a run of three processes, of which a and b were killed: c answered at last.
func twoKills() *Verdict {
	return &Verdict{
		cfg:   Config{Nodes: 3, Counters: 3, Enforce: true, Command: "peerage"},
		kills: []kill{{names: []string{"a"}, at: 10 * second}, {names: []string{"b"}, at: 20 * second, emergency: true}},
		failovers: []history.Failover{
			{Moved: 1, Times: []time.Duration{harness.BoundMajority}},
			{Moved: 2, Times: []time.Duration{time.Millisecond, harness.BoundEmergency}},
		},
		load: harness.Totals{Answered: 9}, survivor: "c", survivorShards: 3, shards: 3,
	}
}

func printed(v *Verdict) (text string, ok bool) {
	var out strings.Builder
	ok = v.Print(&out)
	return out.String(), ok
}

func TestARunWithinItsBoundsPasses(t *testing.T) {
	text, ok := printed(twoKills())
	if !ok || !strings.HasPrefix(text, "\nPASS in ") {
		t.Fatalf("passed %v:\n%s", ok, text)
	}
	for _, want := range []string{
		"2 of 3 killed, no counter ever lived twice", "9 answered, 0 given up\n",
		"Answered again after   300, 500 ms (bounds 300, 500 ms: met)",
		"c alone serves         3 of 3 shards, 3 of 3 counters", "Counters living twice  0, in ",
		"Akka and Pekko expect 45 s", "19 s", "pekko.apache.org", "peerage demo --at-once",
		"  peerage chaos --preset n-1 --rounds 3 --report out.html\n      the same", "docs/GUIDE.md",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
	for _, not := range []string{"died with", "repeated"} { // there were none
		if strings.Contains(text, not) {
			t.Errorf("%q is there:\n%s", not, text)
		}
	}
}

func TestTheResultHasTheFiguresOfTheVerdict(t *testing.T) {
	r := twoKills().Result()
	if r.Verdict != "PASS" || r.Answered != 9 || len(r.Kills) != 2 || r.Survivor != "c" || r.Failures != nil {
		t.Errorf("%+v", r)
	}
	if k := r.Kills[1]; k.Moved != 2 || k.P50 != 1 || k.P99 != 500 || k.Max != 500 || k.BoundMS != 500 || !k.Met || !k.Emergency {
		t.Errorf("%+v", k)
	}
	v := twoKills()
	v.doubles, v.unserved = []history.Double{{Entity: 7}}, []uint32{2}
	if r := v.Result(); r.Verdict != "FAIL" || r.Doubles != 1 || len(r.Failures) != 2 {
		t.Errorf("%+v", r)
	}
}

func TestEachBrokenPromiseFailsTheVerdict(t *testing.T) {
	for want, spoil := range map[string]func(*Verdict){
		"1 doubles: a counter had two live instances":                func(v *Verdict) { v.doubles = []history.Double{{Entity: 7}} },
		"the survivor had no answer from 1 counters: [2]":            func(v *Verdict) { v.unserved = []uint32{2} },
		"the survivor serves 2 shards, the counters live in 3":       func(v *Verdict) { v.survivorShards = 2 },
		"4 requests were given up":                                   func(v *Verdict) { v.load.GaveUp = 4 },
		"nothing was ever answered":                                  func(v *Verdict) { v.load.Answered = 0 },
		"no killed process hosted a counter: the run shows nothing":  func(v *Verdict) { v.failovers[0].Moved, v.failovers[1].Moved = 0, 0 },
		"after the kill of [b] no survivor had an answer from":       func(v *Verdict) { v.failovers[1].Unanswered = []uint32{1} },
		"after the kill of [a] the p99 of first answers is 300.1ms,": func(v *Verdict) { v.failovers[0].Times[0] += 100 * time.Microsecond },
	} {
		v := twoKills()
		spoil(v)
		if text, ok := printed(v); ok || !strings.HasPrefix(text, "\nFAIL in ") || !strings.Contains(text, "What failed\n  "+want) {
			t.Errorf("passed %v, want %q:\n%s", ok, want, text)
		}
	}
	v := twoKills()
	v.cfg.Enforce = false
	v.failovers[0].Times[0] = time.Second
	if text, ok := printed(v); !ok || !strings.Contains(text, "1,000, 500 ms (bounds 300, 500 ms: not met)") {
		t.Errorf("without --enforce a late answer fails the run, or is not shown:\n%s", text)
	}
	v = twoKills()
	for i := range 9 {
		v.doubles = append(v.doubles, history.Double{Entity: uint32(i)})
	}
	if text, _ := printed(v); strings.Count(text, "    entity ") != 5 || !strings.Contains(text, "Counters living twice  9, in ") {
		t.Errorf("nine doubles are not counted, or more than five are shown:\n%s", text)
	}
}

// TestABusyMachineIsNamed checks that the verdict names an overloaded machine beside late answers,
// which then say little about the cluster.
func TestABusyMachineIsNamed(t *testing.T) {
	const words = "The machine was busy   6 of 9 seconds; other programs had 70 % of it"
	v := twoKills()
	v.cfg.Enforce = false
	v.machine = machine.Summary{Windows: 9, Starved: 6, Others: 0.7, Overloaded: true}
	if text, _ := printed(v); strings.Contains(text, "busy") {
		t.Errorf("a run within its bounds calls the machine busy:\n%s", text)
	}
	v.failovers[0].Times[0] = time.Second
	if text, ok := printed(v); !ok || !strings.Contains(text, words) || !v.Result().Machine.Overloaded {
		t.Errorf("%q is missing, or the result lacks it:\n%s", words, text)
	}
}

// Only answers that a process had which was not killed, after the last kill, serve a counter.
func TestTalliesComeFromTheRecords(t *testing.T) {
	const killed, survivor = 1, 2
	v := twoKills()
	v.load = harness.Totals{Asked: 1, Answered: 1, GaveUp: 1} // what the processes reported last
	records := []history.Record{
		{Op: history.Asked, Node: killed}, {Op: history.Asked, Node: survivor}, {Op: history.Asked, Node: survivor}, {Op: history.Asked, Node: survivor}, {Op: history.Asked, Node: survivor},
		{Op: history.Handled, Node: killed}, {Op: history.Handled, Node: survivor}, {Op: history.HandlerStarted, Node: survivor},
		{Op: history.Answered, Node: survivor, Entity: 0, Start: 21 * second},
		{Op: history.Answered, Node: survivor, Entity: 1, Start: 19 * second},
		{Op: history.Answered, Node: killed, Entity: 2, Start: 21 * second},
		{Op: history.Failed, Node: survivor, Entity: 2},
	}
	v.countRecords(records, map[uint64]bool{killed: true}, 3)
	if !slices.Equal(v.unserved, []uint32{1, 2}) {
		t.Errorf("the survivor had no answer from %v, want 1 and 2", v.unserved)
	}
	if v.handled != 2 || v.lost != 1 || v.load.Asked != 5 || v.load.Answered != 3 || v.load.GaveUp != 1 {
		t.Errorf("handled %d, lost %d, %+v", v.handled, v.lost, v.load)
	}
}

// TestAStoryGoesOnOnceAllCountersAnswer checks that the wait after a kill ends with an answer from each
// counter, also from one that the survivor hosted before.
func TestAStoryGoesOnOnceAllCountersAnswer(t *testing.T) {
	const dead, survivor, at = 1, 2, 10 * second
	c := &cluster{cfg: Config{Counters: 2}}
	for i, name := range []string{"a", "b"} {
		c.nodes = append(c.nodes, &fleet.Process{Name: name, History: filepath.Join(t.TempDir(), name), Ids: map[uint64]bool{uint64(i + dead): true}})
	}
	write := func(node uint64, records ...history.Record) {
		h, err := history.Create(c.nodes[node-dead].History)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			r.Node = node
			h.Write(r)
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write(dead, history.Record{Op: history.Handled, Start: at - 3, End: at - 2})
	again := []history.Record{{Op: history.Handled, Start: at + 1, End: at + 3}, {Op: history.Answered, Start: at + 1, End: at + 4}}
	write(survivor, again...)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if f, err := c.awaitAnswers(ended, kill{names: []string{"a"}, at: at}); err == nil || f.Moved != 1 || len(f.Times) != 1 {
		t.Errorf("it does not wait for an answer from the other counter: %+v, %v", f, err)
	}
	if err := os.Remove(c.nodes[1].History); err != nil {
		t.Fatal(err)
	}
	write(survivor, append(again, history.Record{Op: history.Answered, Entity: 1, Start: at + 1, End: at + 2})...)
	if _, err := c.awaitAnswers(ended, kill{names: []string{"a"}, at: at}); err != nil {
		t.Errorf("all counters have answered: %v", err)
	}
}

// TestTheSurvivorIsJudgedByAReportWithAllShards checks that a report from before the last answers does
// not decide, and that the wait for a newer one ends.
func TestTheSurvivorIsJudgedByAReportWithAllShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		newest := func() harness.Report { return harness.Report{Shards: int(time.Since(began) / time.Second)} }
		if r := awaitShards(t.Context(), 3, newest); r.Shards != 3 {
			t.Errorf("%d shards, want 3", r.Shards)
		}
		if r := awaitShards(t.Context(), 100, newest); r.Shards < 15 || time.Since(began) > time.Minute {
			t.Errorf("%d shards after %v, want those at the end of the patience", r.Shards, time.Since(began))
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if r := awaitShards(ended, 100, newest); r.Shards > 30 {
			t.Errorf("%d shards: the wait outlives its context", r.Shards)
		}
	})
}

func TestOnlyShardsOfCountersAreCounted(t *testing.T) {
	for _, c := range []struct{ counters, shards, least, most int }{{1, 64, 1, 1}, {10_000, 16, 16, 16}, {200, 64, 50, 64}} {
		n, err := usedShards(Config{Counters: c.counters, Shards: c.shards})
		if err != nil || n < c.least || n > c.most {
			t.Errorf("%d counters live in %d of %d shards: %v", c.counters, n, c.shards, err)
		}
	}
}

func TestAKillIsAnEmergencyWithoutAMajority(t *testing.T) {
	for _, c := range []struct {
		n, left   int
		emergency bool
	}{{1, 5, false}, {1, 3, false}, {1, 2, true}, {4, 5, true}, {2, 4, false}, {2, 3, true}} {
		k, err := (&cluster{}).killSenior(c.n, c.left)
		if err != nil || k.emergency != c.emergency {
			t.Errorf("%d of %d: emergency %v: %v", c.n, c.left, k.emergency, err)
		}
		want := harness.BoundMajority
		if c.emergency {
			want = harness.BoundEmergency
		}
		if k.bound() != want {
			t.Errorf("%d of %d: the bound is %v, want %v", c.n, c.left, k.bound(), want)
		}
	}
}
