package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary be the child processes.
func TestMain(m *testing.M) {
	if child := os.Getenv(childEnv); child != "" {
		runChild(child)
		return
	}
	m.Run()
}

// Three real nodes without faults form one cluster, and every cell of the table has a
// value. The times are not checked.
func TestMeasureRunsRealNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes: not in short mode")
	}
	s, err := measure(context.Background(), options{nodes: 3, burn: 1, lasting: 3 * time.Second, settle: 40 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if s.Ended != 0 || s.Nodes != 3 || s.Seconds < 1 {
		t.Errorf("%+v", s)
	}
	if s.MemberSent <= 0 || s.LeaderSent <= 0 || !strings.Contains(s.restRow(), "3 nodes") {
		t.Errorf("at rest: %q", s.restRow())
	}
	if row := s.row(); strings.Count(row, "|") != 8 {
		t.Errorf("row %q", row)
	}
}

// The tally counts false events from beginMeasuring on.
func TestTheTallyCountsFalseEvents(t *testing.T) {
	y := newTally(3)
	a, b := &proc{}, &proc{}
	y.procs = []*proc{a, b}
	at := time.Unix(1000, 0)
	feed := func(p *proc, r report) { r.Time = at; y.took(p, r) }
	for _, p := range y.procs {
		feed(p, report{Kind: reportView, Members: 2, Epoch: "1"}) // forming is no false view
		feed(p, report{Kind: reportView, Members: 3, Epoch: "2"})
		feed(p, report{Kind: reportLease, Valid: true})
		feed(p, report{Kind: reportStats, Stats: counted{Suspicions: 5}})
	}
	if !y.allSettled() {
		t.Error("not settled")
	}
	y.beginMeasuring()
	feed(a, report{Kind: reportLease})
	at = at.Add(300 * time.Millisecond)
	feed(a, report{Kind: reportLease, Valid: true, Leader: true})
	feed(a, report{Kind: reportView, Members: 2, Epoch: "3"})
	feed(b, report{Kind: reportView, Members: 2, Epoch: "3"}) // the same view, seen twice
	feed(b, report{Kind: reportRemoved, Why: "silent"})
	feed(b, report{Kind: reportStats, Stats: counted{Suspicions: 7, Proofs: 1, Standstill: time.Second}})
	s := y.summary()
	if s.Pauses != 1 || s.PauseLongest != 300*time.Millisecond || s.LeaderChanges != 1 || s.ShortViews != 1 ||
		s.Removed != 1 || s.Suspicions != 2 || s.Proofs != 1 || s.Standstill != time.Second {
		t.Errorf("%+v", s)
	}
	if y.allSettled() {
		t.Error("settled, though one was removed")
	}
}

func TestParseCPU(t *testing.T) {
	then := parseCPU("cpu  100 0 50 800 50 0 0 0 9 9\ncpu0 1 1 1 1\n")
	now := parseCPU("cpu  190 0 55 805 50 0 0 0 9 9\n")
	if busy := now.busySince(then); busy < 0.949 || busy > 0.951 {
		t.Errorf("busy %v", busy)
	}
	if (cpuTime{}).busySince(cpuTime{}) != 0 {
		t.Error("busy where nothing is known")
	}
}
