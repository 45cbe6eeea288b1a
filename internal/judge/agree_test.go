package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness/chaos"
	"github.com/peerage-go/peerage/internal/harness/faults"
	harnessservice "github.com/peerage-go/peerage/internal/harness/service"
	"github.com/peerage-go/peerage/internal/history"
)

// bothVerdicts returns the verdicts of the checker of chaos and of the judge, by promise.
func bothVerdicts(t *testing.T, g *game) (theirs, ours map[string]string, printed string) {
	t.Helper()
	records := g.inOrder()
	report := chaos.Check(&g.cfg, g.rounds, g.stood, g.machine, records)
	b, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	f, err := parseFacts(b)
	if err != nil {
		t.Fatal(err)
	}
	c := newCourt(f, asSource(records))
	if err := c.judge(limits{batch: 200, slot: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	theirs, ours = map[string]string{}, map[string]string{}
	for _, v := range report.Invariants {
		theirs[v.Name] = v.Verdict
		for _, line := range v.Violations[:min(3, len(v.Violations))] {
			printed += fmt.Sprintf("chaos: %s: %s\n", v.Name, line)
		}
	}
	var out strings.Builder
	for _, p := range c.promises {
		ours[p.name] = string(p.verdict(f.overloaded()))
		p.printPromise(&out, f)
	}
	return theirs, ours, printed + out.String()
}

// compareVerdicts fails if the two differ.
func compareVerdicts(t *testing.T, name string, theirs, ours map[string]string, printed string) {
	t.Helper()
	differ := len(theirs) != len(ours)
	for promise, v := range theirs {
		if ours[promise] != v {
			differ = true
			t.Errorf("%s: %s is %s for chaos, and %s for the judge", name, promise, v, ours[promise])
		}
	}
	if differ {
		t.Logf("%s:\n%s", name, printed)
	}
}

// A run that keeps its promises passes, for the checker of chaos and for the judge.
func TestBothCheckersPassARunThatKeepsItsPromises(t *testing.T) {
	for seed := range uint64(rounds(20)) {
		g := newGame(seed)
		theirs, ours, printed := bothVerdicts(t, g)
		name := fmt.Sprintf("seed %d", seed)
		compareVerdicts(t, name, theirs, ours, printed)
		for promise, v := range ours {
			if v != string(pass) {
				t.Errorf("%s: %s is %s", name, promise, v)
			}
		}
		if t.Failed() {
			t.Fatalf("%s", printed)
		}
	}
}

// planting is a way to break a promise. Plant reports false if the run has no place for it.
type planting struct {
	name   string
	breaks string
	plant  func(g *game) bool
}

// change plants something at a record of an operation.
func change(op history.Op, fits func(history.Record) bool, plant func(g *game, r *history.Record)) func(*game) bool {
	return func(g *game) bool {
		i := g.some(op, fits)
		if i >= 0 {
			r := g.records[i]
			plant(g, &r)
			g.records[i] = r
		}
		return i >= 0
	}
}

var plantings = []planting{
	{"two instances at the same time", oneInstance, change(history.Handled, nil, func(g *game, r *history.Record) {
		g.add(history.Record{Op: history.Handled, Entity: r.Entity, Node: r.Node + 50, Term: r.Term + 1, Seq: 1, Value: 1, Start: r.Start + 100, End: r.End + 100})
	})},
	{"a handler of a killed process, without its end", oneInstance, change(history.Handled, nil, func(g *game, r *history.Record) {
		g.add(history.Record{Op: history.HandlerStarted, Entity: r.Entity, Node: r.Node + 50, Term: 0, Seq: 1, Start: r.Start + 100})
	})},
	{"an answer under a stale token", tokensRise, change(history.Handled, nil, func(g *game, r *history.Record) {
		r.Term, r.Node = 0, r.Node+50
	})},
	{"one token at two nodes", tokensRise, change(history.Handled, nil, func(g *game, r *history.Record) { r.Node += 50 })},
	{"more handlers after a pause than it can hold back", oneInstance, func(g *game) bool {
		for i := range g.rounds {
			r := &g.rounds[i]
			for _, rec := range g.records {
				if r.HeldTo != 0 && rec.Op == history.Handled && rec.Node == r.Nodes[0] && rec.Start < r.From {
					begin := r.HeldTo + 30*ms
					g.add(history.Record{Op: history.Handled, Entity: rec.Entity, Node: rec.Node, Term: 0, Seq: 1, Value: 1, Start: begin, End: begin + 1, Sent: r.HeldFrom})
					g.add(history.Record{Op: history.Handled, Entity: rec.Entity, Node: rec.Node, Term: 0, Seq: 1, Value: 2, Start: begin + 2, End: begin + 3, Sent: r.HeldFrom})
					return true
				}
			}
		}
		return false
	}},
	{"a lost acknowledged count", nothingLost, change(history.Handled, nil, func(g *game, r *history.Record) {
		at, entity := r.Start, r.Entity
		for i := range g.records {
			if f := &g.records[i]; f.Entity == entity && f.Start >= at && (f.Op == history.Handled || f.Op == history.Answered) && f.Value > 1 {
				f.Value--
			}
		}
		r.Value--
	})},
	{"a count out of nowhere", nothingLost, change(history.Handled, nil, func(g *game, r *history.Record) {
		at, entity := r.Start, r.Entity
		for i := range g.records {
			if f := &g.records[i]; f.Entity == entity && f.Start >= at && (f.Op == history.Handled || f.Op == history.Answered) {
				f.Value += 3
			}
		}
		r.Value += 3
	})},
	{"a first count of 8", nothingLost, func(g *game) bool {
		first := slices.IndexFunc(g.rounds, func(r faults.Round) bool { return r.LosesMemory() })
		for i := range g.records {
			if f := &g.records[i]; f.Entity == 0 && (f.Op == history.Handled || f.Op == history.Answered) && (first < 0 || f.Start < g.rounds[first].From) {
				f.Value += 7
			}
		}
		return true
	}},
	{"an answer that no instance counted", answersFounded, change(history.Answered, nil, func(g *game, r *history.Record) { r.Value += 1 << 20 })},
	{"two answers for one run", answersFounded, change(history.Answered, nil, func(g *game, r *history.Record) {
		again := *r
		again.Node += 7
		again.End += 1000
		g.add(again)
	})},
	{"an answer before its run", answersFounded, change(history.Answered, nil, func(g *game, r *history.Record) { r.Start, r.End = r.Start-900*ms, r.Start-500*ms })},
	{"an order inverted", inOrder, change(history.Told, nil, func(g *game, r *history.Record) {
		late := *r
		late.Start += 400
		r.Value++
		g.add(late)
	})},
	{"a message handled twice", inOrder, change(history.Told, nil, func(g *game, r *history.Record) {
		again := *r
		again.Start += 600 * ms
		g.add(again)
	})},
	{"a message behind its move", inOrder, change(history.Told, nil, func(g *game, r *history.Record) {
		again := *r
		again.Node, again.Term = again.Node+50, again.Term+9
		again.Start += 1000
		g.add(again)
	})},
	{"a reliable message that was lost", reliableComplete, change(history.Delivered, nil, func(_ *game, r *history.Record) { r.Op = history.Created })},
	{"a reliable message without its run and its confirmation", reliableComplete, change(history.Delivered, nil, func(g *game, r *history.Record) {
		for i := range g.records {
			if x := &g.records[i]; x.Op == history.Confirmed && x.Entity == r.Entity && x.Sender == r.Sender && x.Value == r.Value {
				x.Op = history.Created
			}
		}
		r.Op = history.Created
	})},
	{"a reliable message that was confirmed before its run", reliableComplete, change(history.Confirmed, nil, func(_ *game, r *history.Record) { r.Start -= 5 * ms })},
	{"a reliable message handled twice", reliableInOrder, change(history.Delivered, nil, func(g *game, r *history.Record) {
		again := *r
		again.Start += 200 * ms
		g.add(again)
	})},
	{"a reliable message behind its move", reliableInOrder, change(history.Delivered, nil, func(g *game, r *history.Record) {
		again := *r
		again.Node, again.Term = again.Node+50, again.Term+9
		again.Start += 1000
		g.add(again)
	})},
	{"a reliable message before its predecessor", reliableInOrder, change(history.Delivered, nil, func(g *game, r *history.Record) {
		early := *r
		early.Value++
		early.Start -= 1000
		g.add(early)
	})},
	{"a reliable message that waits", reliableConfirmed, func(g *game) bool {
		g.add(history.Record{Op: history.Accepted, Sender: 77, Value: 1, Start: g.stood.To, End: g.stood.To + 1})
		g.stood.To += 11_000 * ms
		g.add(history.Record{Op: history.Accepted, Sender: 77, Value: 2, Start: g.stood.To, End: g.stood.To + 1})
		return true
	}},
	{"a register that shows an overwritten value", registerFresh, change(history.Seen, func(r history.Record) bool { return r.Value > 9 }, func(g *game, r *history.Record) { r.Value -= 2 })},
	{"a register that shows nothing", registerFresh, change(history.Seen, nil, func(g *game, r *history.Record) { r.Value = 0 })},
	{"a read that misses an element", setComplete, change(history.Contained, func(r history.Record) bool { return r.Value == 1 }, func(g *game, r *history.Record) { r.Value = 0 })},
	{"a read that misses an entry", diskKeeps, change(history.ReadBack, nil, func(g *game, r *history.Record) { r.Value = 0 })},
	{"a caller that gives up", allAnswered, change(history.Answered, nil, func(g *game, r *history.Record) { r.Op = history.Failed })},
	{"a fault without effect", faultsPlayed, func(g *game) bool { g.rounds[0].TookEffect = false; return true }},
	{"a counter that is silent", servedAgain, func(g *game) bool {
		g.stood.To += 11_000 * ms
		return true
	}},
	{"less load than was due", loadStood, func(g *game) bool {
		for i := range g.records {
			if r := &g.records[i]; r.Op == history.Answered && r.Start < 2200*ms {
				r.Op = history.Asked
			}
		}
		return true
	}},
	{"copies that forget", copiesKeep, func(g *game) bool {
		for _, r := range g.rounds {
			if g.copies() == 0 || !r.LosesMemory() || 2*r.Lost() > g.copies() {
				continue
			}
			for i := range g.records {
				if f := &g.records[i]; f.Entity == 0 && f.Start > r.From && (f.Op == history.Handled || f.Op == history.Answered) && f.Value > 4 {
					f.Value -= 4
				}
			}
			return true
		}
		return false
	}},
	{"copies that count on from nowhere", nothingLost, func(g *game) bool {
		for _, r := range g.rounds {
			if g.copies() == 0 || !r.LosesMemory() {
				continue
			}
			for i := range g.records {
				if f := &g.records[i]; f.Entity == 0 && f.Start > r.From+500*ms && (f.Op == history.Handled || f.Op == history.Answered) {
					f.Value += 90
				}
			}
			return true
		}
		return false
	}},
}

// rounds returns how often a test plays: more often in a campaign.
func rounds(n int) int {
	if os.Getenv("PEERAGE_CAMPAIGN") != "" {
		return 20 * n
	}
	return n
}

// Each planted violation breaks the same promises for the checker of chaos and for the judge.
func TestBothCheckersFindPlantedViolations(t *testing.T) {
	for _, p := range plantings {
		t.Run(p.name, func(t *testing.T) {
			want, found := rounds(2), 0
			for seed := uint64(1000); found < want; seed++ {
				if seed == 1000+uint64(20*want) {
					t.Fatalf("%d of %d runs broke %q", found, 20*want, p.breaks)
				}
				g := newGame(seed)
				if !p.plant(g) {
					continue
				}
				theirs, ours, printed := bothVerdicts(t, g)
				compareVerdicts(t, fmt.Sprintf("seed %d", seed), theirs, ours, printed)
				for promise, v := range ours {
					if strings.HasPrefix(promise, strings.Split(p.breaks, "%d")[0]) && v != string(pass) {
						found++
					}
				}
				if t.Failed() {
					t.FailNow()
				}
			}
		})
	}
}

// Any number of violations, at any places, has the same verdicts.
func TestBothCheckersAgreeOnSeveralViolations(t *testing.T) {
	for seed := range uint64(rounds(20)) {
		g := newGame(5000 + seed)
		names := ""
		for range 1 + g.rng.IntN(3) {
			p := plantings[g.rng.IntN(len(plantings))]
			if p.plant(g) {
				names += ", " + p.name
			}
		}
		theirs, ours, printed := bothVerdicts(t, g)
		compareVerdicts(t, fmt.Sprintf("seed %d%s", 5000+seed, names), theirs, ours, printed)
		if t.Failed() {
			t.FailNow()
		}
	}
}

// outsideGame is what callers saw of a service with one counter or register. Most of its
// histories are correct, and in the others a few answers are not.
func outsideGame(seed uint64) *game {
	g := &game{rng: rand.New(rand.NewPCG(seed, 2)), stood: history.Span{From: 1, To: 2000 * ms}}
	spec := &harnessservice.Spec{Keeps: []string{"disk", "copies", "memory"}[g.rng.IntN(3)], Copies: 3}
	g.cfg = chaos.Config{Nodes: 3, Counters: 1, Rounds: 2, Kinds: "kill", Service: spec}
	counter := g.rng.IntN(2) == 0
	if spec.Register = (&harnessservice.Register{Keys: 1}); counter {
		spec.Counter, spec.Register = &harnessservice.Counter{Keys: 1}, nil
	}
	for n := range 2 {
		r := faults.Round{Number: n + 1, Kind: []faults.Kind{faults.Kill, faults.KillMany, faults.Restart, faults.RestartMany}[g.rng.IntN(4)], TookEffect: true}
		r.From = clock.Instant(300+300*n)*ms + g.jitter(50)
		r.To = r.From + g.jitter(100)
		r.Places = []string{"a", "b"}[:1+g.rng.IntN(2)]
		g.rounds = append(g.rounds, r)
	}
	effects := make([]clock.Instant, 5+g.rng.IntN(25))
	for i := range effects {
		effects[i] = ms + g.jitter(900)
	}
	slices.Sort(effects)
	value, written := uint64(0), uint64(0)
	for _, at := range effects {
		r := history.Record{Node: 1, Start: max(1, at-g.jitter(40)), End: at + g.jitter(40)}
		read := !counter && g.rng.IntN(2) == 0
		switch {
		case counter:
			value++
			r.Op, r.Value = history.Counted, value
		case read:
			r.Op, r.Value = history.Seen, value
		default:
			written++
			value = written
			r.Op, r.Value = history.Wrote, value
		}
		if !read && g.rng.IntN(5) == 0 {
			if r.Op, r.End = history.Unsure, 0; counter {
				r.Value = 0
			}
		}
		g.add(r)
	}
	for range g.rng.IntN(3) {
		r := &g.records[g.rng.IntN(len(g.records))]
		if r.Op == history.Counted || r.Op == history.Seen {
			r.Value = uint64(g.rng.IntN(len(effects) + 2))
		}
	}
	return g
}

// The answers of a service have the same verdicts.
func TestBothCheckersAgreeOnServices(t *testing.T) {
	failed := 0
	for seed := range uint64(rounds(400)) {
		g := outsideGame(seed)
		theirs, ours, printed := bothVerdicts(t, g)
		compareVerdicts(t, fmt.Sprintf("seed %d", seed), theirs, ours, printed)
		if ours[counterLinear] == string(fail) || ours[registerLinear] == string(fail) {
			failed++
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	if failed < 50 || failed > rounds(400)-50 {
		t.Errorf("%d of %d histories are not linearizable: too few of a kind", failed, rounds(400))
	}
}
