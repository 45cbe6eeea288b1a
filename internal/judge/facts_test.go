package main

import (
	"encoding/json"
	"testing"

	"github.com/peerage-go/peerage/internal/harness/faults"
)

// A round takes the memory of as many processes as the run itself excuses.
func TestRoundsTakeTheMemoryThatTheRunExcuses(t *testing.T) {
	two := []string{"a", "b"}
	for _, k := range []faults.Kind{faults.Kill, faults.Stop, faults.Slow, faults.Cut, faults.Loss, faults.Delay, faults.Drain, faults.Restart, faults.RestartMany, faults.Clock, faults.Disk} {
		for _, r := range []faults.Round{{Kind: k, Places: two}, {Kind: k, Places: two, Killed: 1}, {Kind: k, Places: two, KeepsMemory: k == faults.Delay}} {
			b, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			var read round
			if err := json.Unmarshal(b, &read); err != nil {
				t.Fatal(err)
			}
			want := 0
			if r.LosesMemory() {
				want = r.Lost()
			}
			if got := read.taken(); got != want {
				t.Errorf("%s takes the memory of %d processes, the run excuses %d", b, got, want)
			}
		}
	}
}

// A majority of three copies is lost if a node is removed beside the one that a round hurt, while the
// round lasts. One that the round hurt counts once.
func TestRemovedNodesAreLostBesideARound(t *testing.T) {
	for name, c := range map[string]struct {
		node uint64
		at   int64
		want int
	}{"beside it": {7, 15, 1}, "what it hurt": {1, 15, 0}, "before": {7, 9, 0}, "after": {7, 20, 0}} {
		f := &facts{Rounds: []round{{Kind: "stop", Places: []string{"a"}, Nodes: []uint64{1}, From: 10, To: 20}}}
		f.noteRemoved(c.node, c.at)
		f.noteRemoved(c.node, c.at)
		if got := len(f.majorityLost(3)); got != c.want {
			t.Errorf("%s: %d rounds take a majority, want %d", name, got, c.want)
		}
	}
}
