//go:build planted

package sim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/internal/planted"
	"github.com/peerage-go/peerage/internal/sim/seed"
)

// plantedBug is a bug that the simulator must catch.
type plantedBug struct {
	name string
	// seen is a seed that has caught it: it is played first. When cores or simulator
	// change, it may be another one.
	seen uint64
	// aim has every run made for what shows it.
	aim seed.Aim
	// apart has two clusters meet in every run.
	apart bool
	// disks has disks fail in every run.
	disks bool
	// trouble has frames be damaged and handlers block in every run.
	trouble bool
	// clocks has the clocks of stamps jump in every run.
	clocks bool
	// reliable has reliable producers in every run, replicated replicated states, daemons a daemon,
	// remembered entities that need no message.
	reliable, replicated, daemons, remembered bool
}

// plantedViews are bugs of the view core.
var plantedViews = []plantedBug{
	{name: "quorum counted over the living"},
	{name: "leader lease counted from the receipt of answers"},
	{name: "removal before the lease has ended"},
	{name: "half-finished attempt dropped"},
	{name: "joiner votes immediately"},
	{name: "evidence counts after its window"},
	{name: "generation from the view alone", seen: 10770},
	{name: "dead taken out before counting"},
	{name: "lease while an attempt is carried", aim: seed.AimRemoval},
	{name: "lease to a member under removal"},
	{name: "lease counted in one of two views", aim: seed.AimRaise},
	{name: "emergency view with the next epoch"},
	{name: "promise ignored"},
	{name: "absorbs a cluster in the old generation", apart: true},
	{name: "takeover without pre-vote", seen: 4266, aim: seed.AimRaise},
}

// plantedCores are bugs of the cores of coordinators, regions and reliable messages.
var plantedCores = []plantedBug{
	{name: "HostShard before the ack"},
	{name: "takeover without census"},
	{name: "ShardStopped matched without token", seen: 258},
	{name: "marker left out of Begin", seen: 276},
	{name: "Stopped without a floor"},
	{name: "no term check"},
	{name: "Stopped forgotten in the census", seen: 3725},
	{name: "declined for good"},
	{name: "declines kept from the coordinator"},
	{name: "tokens are not renewed", apart: true},
	{name: "gaps run", reliable: true},
	{name: "duplicates run", reliable: true},
	{name: "nothing sent again", reliable: true},
	{name: "memory stays behind", reliable: true},
	{name: "one copy is enough", replicated: true},
	{name: "first answer is enough", replicated: true, seen: 14},
	{name: "older copy replaces newer", replicated: true, seen: 32},
	{name: "running workers are acknowledged as ended", daemons: true},
	{name: "the plan is read before the announcement", daemons: true},
	{name: "crashed entities are left", remembered: true},
	{name: "removed ids are forgotten during a read", remembered: true, seen: 104},
	{name: "starts return their turns", remembered: true, seen: 136},
}

// plantedBugs are bugs of the simulator's own parts, which stand for those of shells.
var plantedBugs = []plantedBug{
	{name: "promise to decline forgotten"},
	{name: "ack on local write"},
	{name: "majority without a lease"},
	{name: "lease not checked"},
	{name: "lease checked by a timer"},
	{name: "stop handler without a lease", seen: 266},
	{name: "flushed after a direct send"},
	{name: "answered before it ran"},
	{name: "states are not sent"},
	{name: "states are kept for ever"},
	{name: "late frames are taken", seen: 265},
	{name: "generation of the wall clock alone", seen: 35},
	{name: "lives of one second alike", seen: 655},
	{name: "records need the disk", disks: true},
	{name: "a failing disk counts", disks: true},
	{name: "stamps by the own clock", clocks: true, seen: 14},
	{name: "frames without a checksum", trouble: true},
	{name: "no stop by force", trouble: true},
}

// plantedSeeds is within how many seeds each must be caught.
const plantedSeeds = 10_000

// TestPlantedViewBugsAreCaught proves that the simulator sees what is wrong with views.
func TestPlantedViewBugsAreCaught(t *testing.T) {
	for _, b := range plantedViews {
		playPlanted(t, b, Config{ViewsOnly: !b.apart, narrow: true})
	}
}

// TestPlantedCoreBugsAreCaught does the same for coordinators and regions.
func TestPlantedCoreBugsAreCaught(t *testing.T) {
	for _, b := range plantedCores {
		playPlanted(t, b, Config{narrow: true, noStrangers: true})
	}
}

// TestPlantedBugsAreCaught does the same for what the simulator has in place of shells.
func TestPlantedBugsAreCaught(t *testing.T) {
	for _, b := range plantedBugs {
		playPlanted(t, b, Config{narrow: true, noStrangers: true})
	}
}

// playPlanted plays up to plantedSeeds seeds with a bug.
func playPlanted(t *testing.T, b plantedBug, cfg Config) {
	t.Run(strings.ReplaceAll(b.name, " ", "-"), func(t *testing.T) {
		planted.MustCatch(t, b.name, func() string {
			cfg.Brief, cfg.aim, cfg.apart, cfg.Seed = true, b.aim, b.apart, b.seen
			cfg.disks, cfg.trouble, cfg.clocks, cfg.reliable, cfg.replicated, cfg.daemons, cfg.remembered = b.disks, b.trouble, b.clocks, b.reliable, b.replicated, b.daemons, b.remembered
			for n := range plantedSeeds {
				if r := Run(cfg); r.Failure != nil {
					planted.Without(func() {
						if r := Run(cfg); r.Failure != nil {
							t.Errorf("fails without the bug, too: %s", r.Failure.What)
						}
					})
					return fmt.Sprintf("seed %d, the %d. played: %s", cfg.Seed, n+1, r.Failure.What)
				}
				cfg.Seed = uint64(n)
			}
			return ""
		})
	})
}
