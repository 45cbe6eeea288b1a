package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/peerage-go/peerage/internal/history"
)

// exportModel is the one of docs/CHAOS.md: counters and registers that begin at 0.
var exportModel = porcupine.Model{
	Partition: func(all []porcupine.Operation) (parts [][]porcupine.Operation) {
		byKey := map[any][]porcupine.Operation{}
		for _, op := range all {
			key := op.Input.(map[string]any)["key"]
			byKey[key] = append(byKey[key], op)
		}
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return float64(0) },
	Step: func(state, input, output any) (bool, any) {
		in, value := input.(map[string]any), output.(map[string]any)["value"]
		switch in["op"] {
		case "add":
			return value == state.(float64)+1, value
		case "write":
			return true, in["value"]
		}
		return value == state, state
	},
}

// exportOf returns the export of a run that was kept.
func exportOf(t *testing.T, g *game, format string) string {
	t.Helper()
	var out, errs strings.Builder
	if code := runCommand([]string{"-export", format, keep(t, g)}, &out, &errs); code != exitPass {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	return out.String()
}

// porcupineOf has porcupine order the operations of a run.
func porcupineOf(t *testing.T, g *game) (bool, []porcupine.Operation) {
	t.Helper()
	var ops []porcupine.Operation
	if err := json.Unmarshal([]byte(exportOf(t, g, formatPorcupine)), &ops); err != nil {
		t.Fatal(err)
	}
	return porcupine.CheckOperations(exportModel, ops), ops
}

// calm is a run in which no count is lost.
func calm(seed uint64) *game {
	for ; ; seed++ {
		g := newGame(seed)
		lossless := g.copies() > 0
		for _, r := range g.rounds {
			lossless = lossless && 2*r.Lost() <= g.copies()
		}
		if lossless && strings.Contains(g.cfg.Work, "register") {
			return g
		}
	}
}

// Porcupine orders the operations of a run that keeps its promises, and no others.
func TestPorcupineReadsAnExport(t *testing.T) {
	for seed := range uint64(4) {
		if ok, ops := porcupineOf(t, calm(100*seed)); !ok || len(ops) < 100 {
			t.Errorf("seed %d: %d operations are no history of counters and registers", seed, len(ops))
		}
	}
	for _, op := range []history.Op{history.Answered, history.Seen} {
		broken := calm(1)
		i := broken.some(op, func(r history.Record) bool { return r.Value > 9 })
		r := broken.records[i]
		r.Value -= 3
		if broken.records[i] = r; op == history.Answered { // its run counts as much
			for j := range broken.records {
				if run := &broken.records[j]; run.Op == history.Handled && run.Entity == r.Entity && run.Value == r.Value+3 {
					run.Value = r.Value
				}
			}
		}
		if ok, _ := porcupineOf(t, broken); ok {
			t.Errorf("a wrong value of operation %d was not found", op)
		}
	}
}

// A count that begins again is another key, from 0.
func TestEachLifeOfACounterIsAKey(t *testing.T) {
	keys := map[any]bool{}
	for seed := range uint64(20) {
		g := newGame(seed)
		ok, ops := porcupineOf(t, g)
		if !ok {
			t.Errorf("seed %d: no history of counters and registers", seed)
		}
		for _, op := range ops {
			keys[op.Input.(map[string]any)["key"]] = true
		}
	}
	if !keys["counter-0"] || !keys["counter-0.1"] {
		t.Errorf("keys %v", keys)
	}
}

// The attempts of a service without an answer have the counts that are missing, and the first
// calls.
func TestUnansweredAttemptsAreExported(t *testing.T) {
	e := &exporter{}
	c := newCourt(&facts{}, nil)
	c.facts.Config.Service, c.export = &service{Keeps: "disk", Counter: &struct{}{}}, e
	c.judgeOutsideCounter([]record{
		{kind: unsure, entity: 4, start: 10}, {kind: counted, entity: 4, value: 1, start: 11, end: 12},
		{kind: unsure, entity: 4, start: 20}, {kind: counted, entity: 4, value: 3, start: 30, end: 40},
	})
	var out strings.Builder
	if err := e.writeExport(&out, formatEDN); err != nil {
		t.Fatal(err)
	}
	want := `{:index 0, :type :invoke, :process 0, :time 10, :f :txn, :value [[:r "counter-4" nil] [:w "counter-4" 2]]}
{:index 1, :type :invoke, :process 1, :time 11, :f :txn, :value [[:r "counter-4" nil] [:w "counter-4" 1]]}
{:index 2, :type :ok, :process 1, :time 12, :f :txn, :value [[:r "counter-4" nil] [:w "counter-4" 1]]}
{:index 3, :type :invoke, :process 1, :time 30, :f :txn, :value [[:r "counter-4" nil] [:w "counter-4" 3]]}
{:index 4, :type :ok, :process 1, :time 40, :f :txn, :value [[:r "counter-4" 2] [:w "counter-4" 3]]}
{:index 5, :type :info, :process 0, :time 41, :f :txn, :value [[:r "counter-4" nil] [:w "counter-4" 2]]}
`
	if out.String() != want {
		t.Errorf("the export is\n%swant\n%s", out.String(), want)
	}
}

var ednLine = regexp.MustCompile(`^\{:index (\d+), :type :(invoke|ok|info), :process (\d+), :time (\d+), :f :txn, :value \[(?:\[:[rw] "[a-z]+-[\d.]+" (?:\d+|nil)\] ?){1,2}\]\}$`)

// The lines of an EDN export have the form that Elle reads: numbered, in the order of time, and
// with one operation at a time for each client.
func TestTheEDNExportIsAHistory(t *testing.T) {
	busy, last := map[string]bool{}, 0
	lines := strings.Split(strings.TrimSuffix(exportOf(t, newGame(8), formatEDN), "\n"), "\n")
	if len(lines) < 200 {
		t.Fatalf("%d lines", len(lines))
	}
	for i, line := range lines {
		m := ednLine.FindStringSubmatch(line)
		if m == nil || m[1] != strconv.Itoa(i) {
			t.Fatalf("line %d is %s", i, line)
		}
		at, err := strconv.Atoi(m[4])
		if err != nil || at < last {
			t.Fatalf("line %d is earlier than the one before: %s", i, line)
		}
		if last = at; busy[m[3]] != (m[2] != "invoke") {
			t.Fatalf("client %s has two operations, or none: %s", m[3], line)
		}
		busy[m[3]] = m[2] == "invoke"
	}
	for client, waits := range busy {
		if waits {
			t.Errorf("client %s has no end", client)
		}
	}
}

// An export of an unknown format is a wrong command line.
func TestUnknownFormatsAreRejected(t *testing.T) {
	var out, errs strings.Builder
	if code := runCommand([]string{"-export", "xml", t.TempDir()}, &out, &errs); code != exitUnknown || !strings.Contains(errs.String(), "usage:") {
		t.Errorf("exit code %d: %s", code, fmt.Sprint(errs.String()))
	}
}
