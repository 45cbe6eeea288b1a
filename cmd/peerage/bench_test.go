package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/internal/harness/bench"
	"github.com/peerage-go/peerage/internal/testsize"
)

// Every measure runs, and its row is in the table and in the JSON. The test does
// not judge the figures.
func TestBenchMeasures(t *testing.T) {
	if testing.Short() {
		t.Skip("several seconds of load; the run without -short plays them")
	}
	file := filepath.Join(t.TempDir(), "bench.json")
	var out, errs bytes.Buffer
	only, rows := "remote-ask,local-ask,leave", 10
	if testsize.Full() {
		only, rows = "remote-tell,remote-ask,ask-beside-tells,ask-beside-large,local-tell,local-ask,idle,leave,rebalance,balance,cold-start", 27
	}
	args := []string{"bench", "--quick", "--out", file, "--only", only}
	if code := run(args, &out, &errs); code != exitOK {
		t.Fatalf("exit code %d\n%s%s", code, out.String(), errs.String())
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r bench.Report
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != rows {
		t.Errorf("%d rows, want %d", len(r.Rows), rows)
	}
	for _, row := range r.Rows {
		if !strings.Contains(out.String(), "| "+row.Name+" |") {
			t.Errorf("the table has no %s", row.Name)
		}
		if row.Value <= 0 && !strings.Contains(row.Name, "failed calls") && row.Unit != "apart" {
			t.Errorf("%s: %v", row.Name, row.Value)
		}
	}
}
