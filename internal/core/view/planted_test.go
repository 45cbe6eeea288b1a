//go:build planted

package view

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/internal/planted"
)

// plantedSeeds is within how many seeds a bug must be caught that no scenario catches.
const plantedSeeds = 6000

// TestPlantedBugsAreCaught proves that the checks catch planted bugs, each by a scenario or
// by seeds. TestExploreFindsPlantedBugs has one more, which needs an unlucky order every time.
func TestPlantedBugsAreCaught(t *testing.T) {
	for _, name := range []string{
		"quorum counted over the living",
		"leader lease counted from the receipt of answers",
		"removal before the lease has ended",
		"half-finished attempt dropped",
		"joiner votes immediately",
		"evidence counts after its window",
		"generation from the view alone",
		"dead taken out before counting",
		"lease while an attempt is carried",
		"lease to a member under removal",
		"lease counted in one of two views",
		"emergency view with the next epoch",
		"promise ignored",
		"takeover without pre-vote",
		"rounds from before the commit counted",
		"candidate breaks its own promise",
		"leader that slept removes",
		"term counted from the prepare",
		"carrying leader steps down",
		"prepare sent once",
		"yields to the dead",
		"joiner waits forever",
		"leaver takes over",
		"leader leaves without a farewell",
		"attempt that needs the dead is carried",
		"nodes outside the view speak",
		"weak proofs count as certain",
		"removal by weak proof while the lease runs",
		"proofs count after a weak removal",
		"yields to one connection's word",
		"yields to a verdict on another standing",
		"absorbs a cluster in the old generation",
		"contest without an end",
		"stands below later takeovers",
	} {
		t.Run(name, func(t *testing.T) {
			planted.MustCatch(t, name, playAnywhere)
		})
	}
}

// playAnywhere plays scenarios, then seeds, until a check fails.
func playAnywhere() string {
	for _, s := range scenarios {
		if wrong := s.play(); wrong != "" {
			return fmt.Sprintf("scenario %q: %s", s.name, wrong)
		}
	}
	if seed, wrong := playSeeds(1, plantedSeeds, nil); wrong != "" {
		return fmt.Sprintf("seed %d: %s", seed, wrong)
	}
	return ""
}

// play runs a scenario and returns the failure.
func (s *scenario) play() (wrong string) {
	w := newWorld(nil)
	w.quiet = true
	defer func() {
		if r := recover(); r != nil {
			if f, ok := r.(failure); ok && !f.setup {
				wrong = f.text
			}
		}
	}()
	s.run(w)
	return ""
}

// TestExploreFindsPlantedBugs: these take few nodes and few faults to show.
func TestExploreFindsPlantedBugs(t *testing.T) {
	for _, bug := range []struct{ name, by string }{
		{"quorum counted over the living", "crashes"},
		{"leader lease counted from the receipt of answers", "a cut"},
		{"removal before the lease has ended", "two joins"},
		{"half-finished attempt dropped", "a member leaves"},
		{"dead taken out before counting", "crashes"},
		{"emergency view with the next epoch", "crashes"},
		{"promise ignored", "a cut"},
		{"candidate breaks its own promise", "a freeze"},
		{"attempt that needs the dead is carried", "a member leaves"},
		{"candidates outbid each other", "static quorum 3, evidence 0"},
	} {
		t.Run(bug.name, func(t *testing.T) {
			planted.MustCatch(t, bug.name, func() string {
				x, wrong := playPlan(bug.by)
				if wrong == "" {
					t.Logf("not found by %q in %d states", bug.by, x.count.states)
					return ""
				}
				return fmt.Sprintf("%q: %s, after %d states, in %d steps", bug.by, wrong, x.count.states, len(x.path))
			})
		})
	}
}

func playPlan(name string) (*explorer, string) {
	all := explorations()
	p := all[slices.IndexFunc(all, func(p plan) bool { return p.name == name })]
	p.states = exploreStates
	x := newExplorer(&p)
	return x, x.run()
}

// TestExploreRetells: a failure is described step by step, by playing it again.
func TestExploreRetells(t *testing.T) {
	planted.MustCatch(t, "leader lease counted from the receipt of answers", func() string {
		x, wrong := playPlan("a cut")
		if steps := x.retold(); wrong == "" || !strings.Contains(steps, "leader lease") || !strings.Contains(steps, "-- isolate 1") {
			t.Errorf("%s is described as\n%s", wrong, steps)
		}
		return wrong
	})
}
