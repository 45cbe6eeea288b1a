package sim

import (
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/mutant"
)

// plantView sets the unexported mutant of a view core. The numbers are the order
// of the constants in internal/core/view/mutant.go.
func plantView(number uint64) func(*view.Core) {
	return func(c *view.Core) {
		f := reflect.ValueOf(c).Elem().FieldByName("mutant")
		reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().SetUint(number)
	}
}

// mutants are planted bugs that some check must catch. Bugs of the codecs, the CRDTs and
// the replicator's own rules are planted in their packages: docs/TESTING.md lists all.
var mutants = []struct {
	name string
	// viewNumber plants a bug in the view core, when not 0.
	viewNumber uint64
	// seen is a seed that has caught it: it is played first. When cores or simulator
	// change, it may be another one.
	seen uint64
	// aim has every run made for what shows it.
	aim aim
	// apart has two clusters meet in every run.
	apart bool
	// disks has disks fail in every run.
	disks bool
	// trouble has frames be damaged and handlers block in every run.
	trouble bool
	// clocks has the clocks of stamps jump in every run.
	clocks bool
}{
	{name: "HostShard before the ack"},
	{name: "takeover without census"},
	{name: "ShardStopped matched without token", seen: 258},
	{name: "marker left out of Begin", seen: 276},
	{name: "Stopped without a floor"},
	{name: "no term check"},
	{name: "no token check", seen: 3790},
	{name: "Stopped forgotten in the census", seen: 3725},
	{name: "declined for good"},
	{name: "declines kept from the coordinator"},
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
	{name: "quorum of the living", viewNumber: 1},
	{name: "lease counted from the ack's receipt", viewNumber: 2},
	{name: "early removal", viewNumber: 3},
	{name: "half-finished attempt dropped", viewNumber: 4},
	{name: "joiner votes immediately", viewNumber: 5},
	{name: "late evidence counts", viewNumber: 6},
	{name: "generation from the view alone", viewNumber: 7, seen: 10770},
	{name: "dead taken out before counting", viewNumber: 8},
	{name: "lease while an attempt is carried", viewNumber: 9, aim: aimRemoval},
	{name: "lease to a member under removal", viewNumber: 10},
	{name: "lease counted in one of two views", viewNumber: 11, aim: aimRaise},
	{name: "emergency view with the next epoch", viewNumber: 12},
	{name: "promise ignored", viewNumber: 13},
	{name: "absorbed without a new generation", viewNumber: 33, apart: true},
	{name: "tokens are not renewed", apart: true},
	{name: "records need the disk", disks: true},
	{name: "a failing disk counts", disks: true},
	{name: "stamps by the own clock", clocks: true, seen: 14},
	{name: "frames without a checksum", trouble: true},
	{name: "no stop by force", trouble: true},
	{name: "takeover without pre-vote", viewNumber: 14, seen: 4266, aim: aimRaise},
}

// mutantSeeds is within how many seeds each must be caught.
const mutantSeeds = 10_000

// TestMutants proves that the checks see what they are for: none is left out.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread plays the same seeds as in the long run: nothing for the race detector to see")
	}
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			cfg := Config{again: true, Mutant: mutant.Plant(m.name), aim: m.aim, apart: m.apart, disks: m.disks, trouble: m.trouble, clocks: m.clocks}
			if m.viewNumber != 0 {
				cfg.Mutant, cfg.onView, cfg.ViewsOnly = mutant.Kind{}, plantView(m.viewNumber), !m.apart
			}
			start := time.Now()
			cfg.Seed = m.seen
			for n := range mutantSeeds {
				if r := Run(cfg); r.Failure != nil {
					t.Logf("caught by seed %d, the %d. played, in %v: %s", cfg.Seed, n+1, time.Since(start).Round(time.Millisecond), r.Failure.What)
					return
				}
				cfg.Seed = uint64(n)
			}
			t.Errorf("not caught within %d seeds (%v)", mutantSeeds, time.Since(start))
		})
	}
}
