package process

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/network"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/internal/sim/seed"
	"github.com/peerage-go/peerage/internal/sim/trace"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/internal/transport"
)

// receiver counts the frames that reach a process.
type receiver struct{ frames int }

func (r *receiver) Receive(gossip.NodeID, network.Frame) { r.frames++ }

func (r *receiver) PeerEvent(transport.PeerEventType, transport.Class, gossip.NodeID, gossip.NodeID) {
}

// newTestRun returns a run of two hosts without random faults.
func newTestRun() (*run.Run, *network.Network) {
	r := run.New(&seed.Options{Nodes: 2})
	r.Config = seed.Config{Nodes: 2, LatencyMax: time.Millisecond, Spike: time.Millisecond, QueueFramesMax: 4, Ping: 100 * time.Millisecond, DriftPPM: 1000}
	return r, network.New(r, func(int, int) bool { return false })
}

func start(r *run.Run, n *network.Network, slot int, c virtual.Clock) (*Process, *receiver) {
	id, in := gossip.NodeID(slot+1), &receiver{}
	p := &Process{Run: r, Slot: slot, Label: string(rune('a' + slot)), Node: gossip.Node{ID: id}, Number: uint64(id), Incarnation: 1, Thread: virtual.NewThread(&r.Time), Clock: c}
	p.Net = n.Attach(network.Identity{Slot: slot, Node: id, Label: p.Label, Process: p.Number, Incarnation: 1}, p.Thread, in)
	return p, in
}

func TestARemovedProcessRunsOnWithoutFrames(t *testing.T) {
	r, n := newTestRun()
	a, _ := start(r, n, 0, virtual.Clock{})
	b, got := start(r, n, 1, virtual.Clock{})
	send := func() {
		if err := a.Net.Send(b.ID(), transport.Message, network.Frame{Kind: transport.KindEntity}); err != nil {
			t.Fatal(err)
		}
		r.Until(r.Now().Add(time.Second))
	}
	if send(); got.frames != 1 || !b.Active() || b.Removed() {
		t.Fatalf("%d frames arrived; active %v, removed %v", got.frames, b.Active(), b.Removed())
	}
	b.Remove()
	if send(); got.frames != 1 || b.Active() || !b.Removed() {
		t.Errorf("after Remove %d frames arrived; active %v, removed %v", got.frames, b.Active(), b.Removed())
	}
	ran := false
	if b.Thread.Run(func() { ran = true }); !ran {
		t.Error("the thread ended with the incarnation: user code must still be able to stop")
	}
}

func TestADeadProcessDoesNothingLater(t *testing.T) {
	r, n := newTestRun()
	p, _ := start(r, n, 0, virtual.Clock{})
	var ran []string
	note := func(what string) func() { return func() { ran = append(ran, what) } }
	p.Later(2*time.Second, note("second"))
	p.Later(time.Second, note("first"))
	p.Later(4*time.Second, note("after the end"))
	timer := p.NewTimer(note("timer after the end"))
	timer.Set(p.Now().Add(5 * time.Second))
	r.After(3*time.Second, p.Thread.End)
	r.Until(virtual.Instant(time.Minute))
	if want := []string{"first", "second"}; !slices.Equal(ran, want) || p.Active() {
		t.Errorf("ran %q, want %q; active %v", ran, want, p.Active())
	}
}

// A paused process keeps its clock, and handles what was due when the pause has ended.
func TestAPausedProcessHandlesItsEventsLate(t *testing.T) {
	r, n := newTestRun()
	p, _ := start(r, n, 0, virtual.NewClock(1000, 0))
	var at []clock.Instant
	for _, d := range []time.Duration{time.Second, 2 * time.Second} {
		p.Later(d, func() { at = append(at, p.Now()) })
	}
	p.Thread.Pause()
	r.After(10*time.Second, func() { p.Thread.Resume() })
	r.Until(virtual.Instant(time.Minute))
	resumed := clock.Instant(1000 + 10*time.Second)
	if want := []clock.Instant{resumed, resumed}; !slices.Equal(at, want) {
		t.Errorf("events at %v, want %v", at, want)
	}
}

// A timer fires at its deadline by the process's own clock, at most a fiftieth of the ping
// interval late.
func TestTimersFollowTheClockOfTheProcess(t *testing.T) {
	for _, ppm := range []int64{-500_000, 0, 500_000} {
		r, n := newTestRun()
		p, _ := start(r, n, 0, virtual.NewClock(77, ppm))
		var late time.Duration
		fired, due := 0, p.Now().Add(time.Second)
		p.NewTimer(func() { fired, late = fired+1, p.Now().Sub(due) }).Set(due)
		r.Until(virtual.Instant(time.Minute))
		if most := r.Config.Ping / 50 * time.Duration(1_000_000+ppm) / 1_000_000; fired != 1 || late < 0 || late > most {
			t.Errorf("at %d ppm the timer fired %d times, %v late; at most %v is allowed", ppm, fired, late, most)
		}
	}
}

// drawRate returns the rate of a clock that a run draws, in parts per million.
func drawRate(r *run.Run) int64 {
	c, hour := DrawClock(r), virtual.Instant(time.Hour)
	return (int64(c.Read(hour).Sub(c.Read(0))) - int64(hour)) * 1_000_000 / int64(hour)
}

func TestClocksKeepTheBoundUnlessTheRunBreaksIt(t *testing.T) {
	r, _ := newTestRun()
	half := int64(r.Config.DriftPPM) / 2
	least, most := half, -half
	for range 1000 {
		ppm := drawRate(r)
		if ppm < -half || ppm > half {
			t.Fatalf("a clock is off by %d ppm: two may disagree by more than %d", ppm, r.Config.DriftPPM)
		}
		least, most = min(least, ppm), max(most, ppm)
	}
	if least > -half*9/10 || most < half*9/10 || r.Parts() {
		t.Errorf("1000 clocks are off by %d to %d ppm; weakened %v", least, most, r.Config.Weakens())
	}
	r.Config.DriftBeyond, r.Config.Lease = true, time.Second
	slowest := int64(0)
	for range 100 {
		slowest = min(slowest, drawRate(r))
	}
	if lease := r.Config.Lease * 1_000_000 / time.Duration(1_000_000+slowest); lease > r.LeaseOutlives() || lease < r.LeaseOutlives()*9/10 {
		t.Errorf("the slowest clock measures a lease in %v, a lease is said to last %v at most", lease, r.LeaseOutlives())
	}
	if !r.Parts() || r.Coverage.Counts()[coverage.DriftBeyond.String()] == 0 {
		t.Error("of 100 clocks none left the bound, or it was not counted")
	}
}

func TestEventsCarryTheLabelOfTheProcess(t *testing.T) {
	r, n := newTestRun()
	var out strings.Builder
	r.Trace = trace.New(&out, 0)
	p, _ := start(r, n, 1, virtual.Clock{})
	p.Event("view", 7, func() string { return "of three" })
	if line := out.String(); !strings.Contains(line, " b ") || !strings.Contains(line, "view") || !strings.Contains(line, "of three") {
		t.Errorf("the trace has %q", line)
	}
}
