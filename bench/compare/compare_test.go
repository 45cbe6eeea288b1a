package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "node" {
		exit(nodeMain(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// TestTheTableHasEachSystem plays the command with few messages, without the systems of others.
// Nothing may fail or be lost, and each entity of the killed process must answer again elsewhere.
func TestTheTableHasEachSystem(t *testing.T) {
	var out bytes.Buffer
	args := []string{"-runs", "1", "-seconds", "1", "-messages", "5000", "-systems", "raw,peerage", "-watch", "6"}
	if err := compareMain(t.Context(), args, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	table := out.String()
	t.Log("\n" + table)
	lines := strings.Split(strings.TrimSpace(table), "\n")
	if len(lines) != 2+len(rows()) {
		t.Fatalf("%d lines", len(lines))
	}
	for _, line := range lines[2:] {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			t.Fatalf("line %q", line)
		}
		name := strings.TrimSpace(cells[1])
		for i, c := range cells[2:4] {
			c = strings.TrimSpace(c)
			switch zero := c == "0.00" || c == "0 ms"; {
			case name == "failed" || name == "lost":
				if !zero {
					t.Errorf("system %d: %s %s", i, name, c)
				}
			case strings.Contains(line, "longest") && i == 0:
				if c != "" {
					t.Errorf("a raw connection was killed: %s", c)
				}
			case strings.Contains(name, "processor time"):
				if c == "" { // zero: less than the kernel counts
					t.Errorf("system %d: no %s", i, name)
				}
			case c == "" || zero:
				t.Errorf("system %d: %s is %q", i, name, c)
			}
		}
	}
}

// fakeEntities lose every tenth tell, and fail every tenth ask.
type fakeEntities struct {
	hs          [remoteEntities]handler
	asks, tells int
}

func (f *fakeEntities) ask(_ context.Context, id int, b []byte, _ time.Duration) ([]byte, error) {
	if f.asks++; f.asks%10 == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	return f.hs[id].handle(b), nil
}

func (f *fakeEntities) tell(_ context.Context, id int, b []byte) error {
	if f.tells++; f.tells%10 != 0 {
		f.hs[id].handle(b)
	}
	return nil
}

func (f *fakeEntities) close() {}

// TestWhatIsLostIsCounted checks that a system that drops messages is seen to drop them.
func TestWhatIsLostIsCounted(t *testing.T) {
	f := &fakeEntities{}
	for range 2 { // the second time, entities have counted before
		r, err := command(t.Context(), f, "tell 1 1000")
		if err != nil || r.Count != 900 || r.Failed != 100 {
			t.Errorf("tell: %+v, %v", r, err)
		}
	}
	r, err := command(t.Context(), f, "ask 1 1")
	if err != nil || r.Count == 0 || r.Failed < r.Count/10 || r.Failed > r.Count/8 {
		t.Errorf("ask: %+v, %v", r, err)
	}
}

// TestWrongCommandsAreErrors checks the lines that a node refuses.
func TestWrongCommandsAreErrors(t *testing.T) {
	for _, line := range []string{"", "ask", "ask 1", "ask one 1", "jump 1 1"} {
		if r, err := command(t.Context(), &fakeEntities{}, line); err == nil {
			t.Errorf("%q: %+v", line, r)
		}
	}
	for _, args := range [][]string{{"-systems", "akka"}, {"-runs", "0"}, {"-watch", "-1"}} {
		if err := compareMain(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%q is no error", args)
		}
	}
}

// TestACellShowsTheMedianAndTheRange checks the table's figures of several runs.
func TestACellShowsTheMedianAndTheRange(t *testing.T) {
	var all []measured
	for i, n := range []uint64{30_000, 10_000, 20_000} {
		all = append(all, measured{System: "raw", Run: i + 1, Values: map[string]figure{"ask 1": {result: result{Count: n, Seconds: 1}}}})
	}
	if got := cell(rows()[0], "raw", all); got != "20 k (10 k to 30 k)" {
		t.Errorf("cell %q", got)
	}
	if got := cell(rows()[0], "pekko", all); got != "" {
		t.Errorf("cell of a system that was not measured: %q", got)
	}
	f := figure{}
	for i := range 10 {
		f.Waits = append(f.Waits, waited{Millis: float64(i)})
	}
	slices.Reverse(f.Waits)
	if got := fmt.Sprint(waitOf(0.5)(f), waitOf(1)(f)); got != "5 9" {
		t.Errorf("quantiles %s", got)
	}
}
