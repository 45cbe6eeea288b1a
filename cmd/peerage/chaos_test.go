package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/history"
)

func TestChaosOnRealProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("several seconds of processes; the run without -short plays them")
	}
	file := filepath.Join(t.TempDir(), "report.json")
	var out, errs bytes.Buffer
	if code := run([]string{"chaos", "--nodes", "3", "--rounds", "4", "--seed", "3", "--json", file}, &out, &errs); code != exitOK {
		t.Fatalf("exit code %d\n%s%s", code, out.String(), errs.String())
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r chaosReport
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	if r.Verdict != passed || r.Seed != 3 || len(r.Rounds) != 4 || r.Counters["answered"] == 0 || len(r.Timeline) == 0 || len(r.Recovery) == 0 {
		t.Errorf("the report says %s", b)
	}
}

func TestRollingRestartOnRealProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("several seconds of processes; the run without -short plays them")
	}
	var out, errs bytes.Buffer
	if code := run([]string{"chaos", "--rolling", "--nodes", "3", "--seed", "3"}, &out, &errs); code != exitOK {
		t.Fatalf("exit code %d\n%s%s", code, out.String(), errs.String())
	}
}

// planted is a run of two rounds with a record in which nothing is wrong: counter 0
// lives on node 1, which is killed at 2 s and followed by node 2, which hands it to
// node 3 at 6 s.
func planted(cfg chaosConfig) (*chaosRun, []history.Record) {
	const ms = clock.Instant(time.Millisecond)
	cfg.counters, cfg.rounds = 1, 2
	c := &chaosRun{
		cfg: &cfg, fleet: &fleet{}, rng: rand.New(rand.NewPCG(1, 0)), began: time.Now(), calmFrom: 0, ended: 9000 * ms,
		rounds: []round{
			{Number: 1, Kind: faultKill, Places: []string{"a"}, Nodes: []uint64{1}, From: 2000 * ms, To: 2500 * ms, TookEffect: true},
			{Number: 2, Kind: faultDrain, Places: []string{"b"}, Nodes: []uint64{2}, From: 6000 * ms, To: 6500 * ms, TookEffect: true},
		},
	}
	var records []history.Record
	value := uint64(0)
	for at := clock.Instant(0); at < 9000*ms; at += 50 * ms {
		node := uint64(1)
		switch {
		case at >= 6000*ms:
			node = 3
		case at >= 2000*ms:
			node = 2
		}
		if value++; at == 2000*ms {
			value = 1
		}
		records = append(records,
			history.Record{Op: history.Asked, Node: 9, Start: at + ms},
			history.Record{Op: history.Handled, Node: node, Term: node, Seq: 1, Value: value, Start: at + 2*ms, End: at + 3*ms},
			history.Record{Op: history.Answered, Node: 9, Value: value, Start: at + ms, End: at + 4*ms},
			history.Record{Op: history.Told, Node: node, Term: node, Seq: 1, Sender: 9, Value: uint64(at/ms) + 1, Start: at + 5*ms})
	}
	return c, records
}

// dataRecords are two writes of a register, an entry, and reads that return both; that of
// the register returns the value last.
func dataRecords(last uint64) []history.Record {
	const ms = clock.Instant(time.Millisecond)
	return []history.Record{
		{Op: history.Wrote, Value: 7, Start: 3000 * ms, End: 3001 * ms},
		{Op: history.Wrote, Value: 8, Start: 3002 * ms, End: 3003 * ms},
		{Op: history.Seen, Value: last, Start: 3004 * ms, End: 3005 * ms},
		{Op: history.Appended, Entity: 1, Sender: 4, Start: 3000 * ms, End: 3001 * ms},
		{Op: history.ReadBack, Entity: 1, Sender: 4, Value: 1, Start: 4000 * ms, End: 4001 * ms},
	}
}

// A check that never fails proves nothing: each planted violation is found, under
// its own name.
func TestPlantedViolationsAreFound(t *testing.T) {
	const ms = clock.Instant(time.Millisecond)
	at := func(r history.Record, op history.Op, from clock.Instant) bool { return r.Op == op && r.Start >= from }
	for name, tc := range map[string]struct {
		plant   func(c *chaosRun, records []history.Record) []history.Record
		cfg     chaosConfig
		finds   string
		verdict string
		code    int
	}{
		"nothing": {func(_ *chaosRun, r []history.Record) []history.Record { return r }, chaosConfig{}, "", passed, exitOK},
		"the killed acts on": {func(_ *chaosRun, r []history.Record) []history.Record {
			return append(r, history.Record{Op: history.Handled, Node: 1, Term: 1, Seq: 1, Value: 41, Start: 3000 * ms, End: 3001 * ms})
		}, chaosConfig{}, "two live instances|acknowledged was lost|went back", failed, exitFailed},
		"a move loses the count": {func(_ *chaosRun, r []history.Record) []history.Record {
			for i := range r {
				if r[i].Value > 0 && at(r[i], r[i].Op, 6000*ms) {
					r[i].Value -= 80
				}
			}
			return r
		}, chaosConfig{}, "acknowledged was lost", failed, exitFailed},
		"a kill takes what copies should have kept": {func(_ *chaosRun, r []history.Record) []history.Record { return r },
			chaosConfig{replicas: 3}, "majority of its 3 copies lived", failed, exitFailed},
		"a kill takes more copies than may be": {func(c *chaosRun, r []history.Record) []history.Record {
			c.rounds[0].Places = []string{"a", "b"}
			return r
		}, chaosConfig{replicas: 3}, "", passed, exitOK},
		"a message of a former incarnation comes late": {func(_ *chaosRun, r []history.Record) []history.Record {
			return append(r, history.Record{Op: history.Told, Node: 2, Term: 2, Seq: 1, Sender: 9, Value: 2500, Start: 5500 * ms})
		}, chaosConfig{}, "in the order in which it sent", failed, exitFailed},
		"an answer out of nowhere": {func(_ *chaosRun, r []history.Record) []history.Record {
			return append(r, history.Record{Op: history.Answered, Node: 9, Value: 1000, Start: 3000 * ms, End: 3001 * ms})
		}, chaosConfig{}, "counted by an instance", failed, exitFailed},
		"nobody serves any more": {func(_ *chaosRun, r []history.Record) []history.Record {
			var out []history.Record
			for _, rec := range r {
				if rec.Start.Before(6000 * ms) {
					out = append(out, rec)
				}
			}
			return out
		}, chaosConfig{}, "answered again within", failed, exitFailed},
		"a caller gives up": {func(_ *chaosRun, r []history.Record) []history.Record {
			return append(r, history.Record{Op: history.Failed, Node: 9, Start: 3000 * ms, End: 3001 * ms})
		}, chaosConfig{}, "every request was answered", failed, exitFailed},
		"a fault without effect": {func(c *chaosRun, r []history.Record) []history.Record {
			c.rounds[0].TookEffect = false
			return r
		}, chaosConfig{}, "every fault took effect", unknown, exitUsage},
		"nothing was asked": {func(_ *chaosRun, r []history.Record) []history.Record { return nil }, chaosConfig{},
			"two live|acknowledged|counted by|every request|in the order|went back", unknown, exitUsage},
		"a token of a later life is lower": {func(_ *chaosRun, r []history.Record) []history.Record {
			for i := range r {
				if r[i].Node == 3 {
					r[i].Term, r[i].Seq = 1, 7
				}
			}
			return r
		}, chaosConfig{}, "two live instances|went back", failed, exitFailed},
		"data that is as it should be": {func(c *chaosRun, r []history.Record) []history.Record {
			c.fleet.files = true
			return append(r, dataRecords(8)...)
		}, chaosConfig{}, "", passed, exitOK},
		"an overwritten value is back": {func(c *chaosRun, r []history.Record) []history.Record {
			c.fleet.files = true
			return append(r, dataRecords(7)...)
		}, chaosConfig{}, "shows no write that was overwritten", failed, exitFailed},
		"an entry is gone": {func(c *chaosRun, r []history.Record) []history.Record {
			c.fleet.files = true
			return append(append(r, dataRecords(8)...), history.Record{Op: history.ReadBack, Entity: 1, Sender: 4, Start: 5000 * ms, End: 5001 * ms})
		}, chaosConfig{}, "acknowledged on disk", failed, exitFailed},
		"slow, and bounds are enforced": {func(_ *chaosRun, r []history.Record) []history.Record {
			var out []history.Record
			for _, rec := range r {
				if rec.Start.Before(6000*ms) || rec.Start >= 6400*ms || rec.Op == history.Handled {
					out = append(out, rec)
				}
			}
			return out
		}, chaosConfig{enforce: true}, "keeps its bound", failed, exitFailed},
		"a shard moves three times": {func(_ *chaosRun, r []history.Record) []history.Record {
			for i := range r {
				if at(r[i], history.Handled, 7000*ms) {
					r[i].Node, r[i].Term = 4, 4
				}
			}
			return r
		}, chaosConfig{rolling: true, nodes: 2}, "moved more than", failed, exitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			c, records := planted(tc.cfg)
			if name == "nobody serves any more" {
				c.ended = 20_000 * ms
			}
			r := c.report(tc.plant(c, records), nil)
			if r.Verdict != tc.verdict || r.exitCode() != tc.code {
				t.Errorf("verdict %s, exit code %d, want %s, %d\n%+v", r.Verdict, r.exitCode(), tc.verdict, tc.code, r.Invariants)
			}
			for _, i := range r.Invariants {
				found := false
				for _, f := range strings.Split(tc.finds, "|") {
					found = found || f != "" && strings.Contains(i.Name, f)
				}
				if found == (i.Verdict == passed) {
					t.Errorf("%s: %s %v", i.Verdict, i.Name, i.Violations)
				}
			}
		})
	}
}
