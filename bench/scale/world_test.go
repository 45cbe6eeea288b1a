package main

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestScenesEndInAgreement checks that each scene is played to its end with ten nodes, without and
// with entity types, that every node sends something, and that the same seed gives the same figures.
func TestScenesEndInAgreement(t *testing.T) {
	for _, o := range []options{{nodes: 10, seed: 1}, {nodes: 10, shards: 64, types: 2, restarts: 2, seed: 1}} {
		play := func() (rows []Row) {
			err := playSize(o, time.Now().Add(time.Hour), func(r Row) {
				r.Wall, r.Coordinators, r.Regions = 0, 0, 0
				rows = append(rows, r)
			})
			if err != nil || len(rows) != len(scenesOf(o.types)) {
				t.Fatalf("%d of %d scenes: %v", len(rows), len(scenesOf(o.types)), err)
			}
			return rows
		}
		rows, again := play(), play()
		for i, r := range rows {
			if r.Took <= 0 || r.Sum == 0 || r.Leader == 0 || r.Most < r.Leader || r.Sum < r.Most || r.Types != o.types {
				t.Errorf("%s took %+v", r.Scene, r)
			}
			if again[i] != r {
				t.Errorf("%s took %+v, then %+v", r.Scene, r, again[i])
			}
		}
	}
}

// TestTheRollingRestartRenewsSoManyNodes checks that the rolling restart starts each of the nodes that
// it was asked for once more, and no other, and that all of them lead or follow in the end.
func TestTheRollingRestartRenewsSoManyNodes(t *testing.T) {
	for _, restarts := range []int{0, 3} {
		c := newCluster(options{nodes: 10, seed: 1, restarts: restarts}, time.Now().Add(time.Hour))
		for _, s := range scenes {
			if s.name != "forming" && s.name != "rolling restart" {
				continue
			}
			if row, err := c.playScene(s); err != nil {
				t.Fatalf("%+v: %v", row, err)
			}
		}
		started := 0
		for _, lives := range c.lives {
			started += lives
		}
		want := 10 + restarts
		if restarts == 0 {
			want = 20
		}
		if started != want || len(c.living()) != 10 || !c.agree(c.living()) {
			t.Errorf("with %d restarts %d processes started, want %d, and %d live", restarts, started, want, len(c.living()))
		}
	}
}

// TestABudgetThatEndsIsNamed checks that sizes which do not fit into the budget of time are in the
// table, with the reason.
func TestABudgetThatEndsIsNamed(t *testing.T) {
	var out bytes.Buffer
	if err := playAll(options{nodes: 30, within: -time.Second, json: true}, &out); err != nil {
		t.Fatal(err)
	}
	var rows []Row
	if err := json.Unmarshal(out.Bytes(), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2 || rows[0].Nodes != 10 || rows[1].Nodes != 30 || rows[1].Missing != errBudget.Error() {
		t.Errorf("rows %+v", rows)
	}
	out.Reset()
	printTable(&out, rows, options{})
	if !strings.Contains(out.String(), "30 not played: "+errBudget.Error()) {
		t.Errorf("the table names no missing size:\n%s", out.String())
	}
}

// TestTheTableHas80Columns checks the width of the widest figures, and that the growth of a scene with
// three sizes is printed.
func TestTheTableHas80Columns(t *testing.T) {
	for _, o := range []options{{}, {types: 2}, {types: 2, grow: true}} {
		var rows []Row
		for _, n := range []int{10, 100, 1000} {
			x := uint64(n)
			rows = append(rows, Row{
				Nodes: n, Shards: n, Scene: "rolling restart", Took: 600, Sum: x * x << 20, Most: x << 20, Leader: x << 20,
				Wall: 0.9 * float64(n), Coordinators: 0.9 * float64(n), Regions: 600,
			})
		}
		rows = append(rows, Row{Nodes: 2000, Scene: "forming", Missing: strings.Repeat("a long reason ", 9)})
		checkTable(t, rows, o)
	}
}

func checkTable(t *testing.T, rows []Row, o options) {
	var out bytes.Buffer
	printTable(&out, rows, o)
	for line := range strings.Lines(out.String()) {
		if line = strings.TrimSuffix(line, "\n"); len(line) > 80 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	for _, want := range []string{"n^0.00", "n^1.00"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, out.String())
		}
	}
}

// TestRunsGrowNodesOrShards checks which sizes are played.
func TestRunsGrowNodesOrShards(t *testing.T) {
	var nodes, shards []int
	for _, o := range runsOf(options{nodes: 50, shards: 4000}) {
		nodes = append(nodes, o.nodes, o.shards)
	}
	for _, o := range runsOf(options{nodes: 50, shards: 4000, types: 1, grow: true}) {
		shards = append(shards, o.nodes, o.shards)
	}
	if !slices.Equal(nodes, []int{10, 4000, 30, 4000, 50, 4000}) || !slices.Equal(shards, []int{50, 1000, 50, 3000, 50, 4000}) {
		t.Errorf("runs have %v and %v", nodes, shards)
	}
}

// TestGrowthFitsAPower checks the exponent that is fitted to a power of x, and that there is none for
// two points.
func TestGrowthFitsAPower(t *testing.T) {
	x := []float64{10, 30, 100, 300}
	var y []float64
	for _, v := range x {
		y = append(y, 7*math.Pow(v, 1.5))
	}
	if b := growth(x, y); math.Abs(b-1.5) > 1e-9 {
		t.Errorf("the exponent is %v, want 1.5", b)
	}
	if b := growth([]float64{1, 2, 3}, []float64{1, 2, 0}); !math.IsNaN(b) {
		t.Errorf("two points give the exponent %v", b)
	}
}
