package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness/chaos"
	"github.com/peerage-go/peerage/internal/history"
)

// The judge reads every field of every kind as the processes write it.
func TestRecordsAreReadAsTheyAreWritten(t *testing.T) {
	dir := t.TempDir()
	w, err := history.Create(filepath.Join(dir, "a.0.history"))
	if err != nil {
		t.Fatal(err)
	}
	var want []history.Record
	for op := history.Handled; op <= history.Delivered; op++ {
		n := uint64(op) << 56
		r := history.Record{
			Op: op, Entity: uint32(op) << 24, Node: n + 1, Term: n + 2, Seq: n + 3, Value: n + 4, Sender: n + 5,
			Start: clock.Instant(op), End: clock.Instant(op) << 50, Sent: clock.Instant(op) << 40,
		}
		want = append(want, r)
		w.Write(r)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	src, err := openDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []record
	if err := src.each(func(r record) error { got = append(got, r); return nil }); err != nil {
		t.Fatal(err)
	}
	expected := asSource(want)
	if len(got) != len(expected) {
		t.Fatalf("%d records, want %d", len(got), len(expected))
	}
	for i := range got {
		if got[i] != expected[i] {
			t.Errorf("%+v, want %+v", got[i], expected[i])
		}
	}
}

// keep writes a run as `peerage chaos --keep` does.
func keep(t *testing.T, g *game) (dir string) {
	t.Helper()
	dir = t.TempDir()
	w, err := history.Create(filepath.Join(dir, "a.0.history"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range g.records {
		w.Write(r)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	report := chaos.Check(&g.cfg, g.rounds, g.stood, g.machine, g.inOrder())
	if err := report.Save(filepath.Join(dir, factsFile)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// change replaces a piece of a file.
func changeFile(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, change(b), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The command exits with the code of its verdict, and with an error that names the file and the
// record for a directory that it cannot read.
func TestCommand(t *testing.T) {
	broken := newGame(3)
	for i := range broken.records {
		if r := &broken.records[i]; r.Op == history.Told {
			r.Value = 1
		}
	}
	idle := newGame(3)
	idle.cfg.Every /= 10
	at := func(i int, b byte) func([]byte) []byte {
		return func(all []byte) []byte { all[i] = b; return all }
	}
	for name, tc := range map[string]struct {
		run    *game
		file   string
		change func([]byte) []byte
		code   int
		want   string
	}{
		"a run that keeps its promises":  {run: newGame(3), code: exitPass, want: "\nPASS\n10 of 10 verdicts are those of the run itself\n"},
		"a last record that was cut off": {run: newGame(3), file: "a.0.history", change: func(b []byte) []byte { return append(b, 1, 0, 0) }, code: exitPass, want: "\nPASS\n"},
		"messages handled twice":         {run: broken, code: exitFail, want: "FAIL     " + inOrder},
		"less load than was due":         {run: idle, code: exitUnknown, want: "UNKNOWN  " + loadStood},
		"another verdict in the report": {run: newGame(3), file: factsFile, change: func(b []byte) []byte {
			return bytes.Replace(b, []byte(`"verdict": "PASS",`+"\n   \"checked\""), []byte(`"verdict": "FAIL",`+"\n   \"checked\""), 1)
		}, code: exitFail, want: "differs: " + faultsPlayed + " is PASS here, and FAIL in report.json"},
		"a record of no kind":          {run: newGame(3), file: "a.0.history", change: at(72, 99), code: exitUnknown, want: "a.0.history: record 1 (byte 72): kind 99 does not exist"},
		"a damaged record":             {run: newGame(3), file: "a.0.history", change: at(2, 1), code: exitUnknown, want: "record 0 (byte 0): bytes 1 to 3 are 000100, want zeros"},
		"a report of another schema":   {run: newGame(3), file: factsFile, change: func([]byte) []byte { return []byte(`{"schema": 7}`) }, code: exitUnknown, want: "report.json: schema 7, want 2"},
		"a report that is none":        {run: newGame(3), file: factsFile, change: func([]byte) []byte { return []byte(`]`) }, code: exitUnknown, want: "report.json: invalid character"},
		"a report without its end":     {run: newGame(3), file: factsFile, change: func([]byte) []byte { return []byte(`{"schema": 2}`) }, code: exitUnknown, want: `no "ended"`},
		"a directory without a report": {run: newGame(3), file: factsFile, change: nil, code: exitUnknown, want: "has no report.json"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := keep(t, tc.run)
			switch path := filepath.Join(dir, tc.file); {
			case tc.change != nil:
				changeFile(t, path, tc.change)
			case tc.file != "":
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
			var out, errs strings.Builder
			if code := runCommand([]string{dir}, &out, &errs); code != tc.code || !strings.Contains(out.String()+errs.String(), tc.want) {
				t.Errorf("exit code %d, want %d with %q:\n%s%s", code, tc.code, tc.want, out.String(), errs.String())
			}
		})
	}
	var out, errs strings.Builder
	if code := runCommand([]string{t.TempDir()}, &out, &errs); code != exitUnknown || !strings.Contains(errs.String(), "has no file *.history") {
		t.Errorf("an empty directory: exit code %d, %s", code, errs.String())
	}
	if code := runCommand(nil, &out, &errs); code != exitUnknown || !strings.Contains(errs.String(), "usage:") {
		t.Errorf("no directory: exit code %d, %s", code, errs.String())
	}
}

// A judge holds a batch of records at a time, and its verdicts do not depend on the batches.
func TestBatchesHoldFewRecords(t *testing.T) {
	g := newGame(8)
	src := asSource(g.inOrder())
	groups, err := batches(src, limits{batch: 300, slot: 1 << 20})
	if err != nil || len(groups) < 3 {
		t.Fatalf("%d batches, %v", len(groups), err)
	}
	seen := 0
	err = bySubject(src, groups, func(s subject, records []record) {
		seen += len(records)
		for i, r := range records {
			if subjectOf(r) != s || i > 0 && records[i-1].start > r.start {
				t.Fatalf("record %+v of subject %+v", r, s)
			}
		}
	})
	if err != nil || seen != len(src) {
		t.Errorf("%d records of %d, %v", seen, len(src), err)
	}
	if _, err := batches(src, limits{batch: 300, slot: 100}); err == nil || !strings.Contains(err.Error(), "are about one counter, want at most 100") {
		t.Errorf("a counter with too many records: %v", err)
	}
}

// Any bytes are records or an error.
func FuzzRecords(f *testing.F) {
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{1}, recordSize))
	f.Add(append([]byte{5, 0, 0, 0}, make([]byte, 2*recordSize)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		err := readRecords(bytes.NewReader(b), 0, func(r record) error {
			if r.number != uint32(n) || r.kind.hasEnd() && r.end < r.start {
				t.Errorf("record %d: %+v", n, r)
			}
			n++
			return nil
		})
		if err == nil && n != len(b)/recordSize {
			t.Errorf("%d records of %d bytes", n, len(b))
		}
	})
}

// Any report, with any records, has verdicts or is an error.
func FuzzReports(f *testing.F) {
	g := newGame(1)
	b, err := json.Marshal(chaos.Check(&g.cfg, g.rounds, g.stood, g.machine, nil))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"schema":2,"ended":5,"config":{"nodes":3,"service":{"keeps":"copies"}},"rounds":[{"kind":"stop","from":1,"to":2,"held_to":2}]}`))
	records := asSource(g.inOrder()[:400])
	f.Fuzz(func(t *testing.T, b []byte) {
		facts, err := parseFacts(b)
		if err != nil || len(facts.Rounds) > 20 {
			return
		}
		c := newCourt(facts, records)
		if err := c.judge(defaultLimits); err != nil {
			t.Fatal(err)
		}
		for _, p := range c.promises {
			if v := p.verdict(facts.overloaded()); v != pass && v != fail && v != unknown {
				t.Errorf("%s is %q", p.name, v)
			}
		}
	})
}
