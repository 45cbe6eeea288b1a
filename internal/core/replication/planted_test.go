//go:build planted

package replication

import (
	"fmt"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/internal/planted"
)

// Every planted bug is caught, by a scenario that passes without it
// (TestScenariosOfPlantedBugs).
func TestPlantedBugsAreCaught(t *testing.T) {
	for _, c := range plantedScenarios {
		t.Run(c.name, func(t *testing.T) {
			play := c.scenario
			if c.long != nil {
				play = c.long
			}
			planted.MustCatch(t, c.bug, func() string { return play(t) })
		})
	}
}

// Every rule of the rounds is one whose absence the campaign sees.
func TestForgettingCampaignCatchesPlantedBugs(t *testing.T) {
	for _, name := range []string{
		"prune before all have seen",
		"frames from before a commit are accepted",
		"the log keeps deleted entries",
		"a key created again stays in its generation",
		"entries under durable keys are forgotten immediately",
	} {
		t.Run(name, func(t *testing.T) {
			planted.MustCatch(t, name, func() string {
				for seed := range uint64(400) {
					if r := runReaper(t, seed); r.broken != "" {
						return fmt.Sprintf("seed %d: %s", seed, strings.SplitN(r.broken, "\n", 2)[0])
					}
				}
				return ""
			})
		})
	}
}
