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
