//go:build planted

package main

import (
	"testing"

	"github.com/peerage-go/peerage/internal/planted"
)

// TestExplorationFindsPlantedBugs plants one bug at a time: a plan must reach a state in which
// a check fails. The cores' checks of themselves are left out.
func TestExplorationFindsPlantedBugs(t *testing.T) {
	for _, c := range []struct{ bug, plan string }{
		{"HostShard before the ack", "allocation"},
		{"takeover without census", "two crashes"},
		{"ShardStopped matched without token", "a move"},
		{"no term check", "the coordinator of two leaves in a move"},
		{"no token check", "two moves"},
		{"Stopped without a floor", "a takeover in a move"},
		{"marker left out of Begin", "a move"},
		{"states judged by their tokens", "a takeover in a move"},
		{"tokens are not renewed", "another cluster is met"},
	} {
		t.Run(c.bug, func(t *testing.T) {
			planted.MustCatch(t, c.bug, func() string {
				x := newExplorer(planOf(t, c.plan), plantedStates)
				x.outside = true
				wrong := x.explore()
				t.Logf("%d states", x.states)
				return wrong
			})
		})
	}
}

// plantedStates is more than any of these plans has, and bounds what a bug adds.
const plantedStates = 150_000

func planOf(t *testing.T, name string) *plan {
	for _, p := range plans(false) {
		if p.name == name {
			return &p
		}
	}
	t.Fatalf("no plan is named %q", name)
	return nil
}
