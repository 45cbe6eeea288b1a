package sim

import (
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/internal/mutant"
)

// plantView sets the unexported mutant of a view core. The numbers are the order
// of the constants in gossip/view/mutant.go.
func plantView(number uint64) func(*view.Core) {
	return func(c *view.Core) {
		f := reflect.ValueOf(c).Elem().FieldByName("mutant")
		reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().SetUint(number)
	}
}

// mutants are planted bugs that some check must catch.
var mutants = []struct {
	name string
	// viewNumber plants a bug in the view core, when not 0.
	viewNumber uint64
	// deep mutants need more seeds than a quick run plays.
	deep bool
}{
	{name: "HostShard before the ack"},
	{name: "takeover without census"},
	{name: "ShardStopped matched without token"},
	{name: "marker left out of Begin"},
	{name: "Stopped without a floor"},
	{name: "no term check", deep: true},
	{name: "no token check", deep: true},
	{name: "Stopped forgotten in the census", deep: true},
	{name: "ack on local write"},
	{name: "lease not checked"},
	{name: "flushed after a direct send"},
	{name: "quorum of the living", viewNumber: 1},
	{name: "lease counted from the ack's receipt", viewNumber: 2},
	{name: "early removal", viewNumber: 3},
	{name: "half-finished attempt dropped", viewNumber: 4, deep: true},
	{name: "joiner votes at once", viewNumber: 5},
	{name: "late evidence counts", viewNumber: 6},
	{name: "generation from the view alone", viewNumber: 7, deep: true},
	{name: "dead taken out before counting", viewNumber: 8},
	{name: "lease while an attempt is carried", viewNumber: 9, deep: true},
	{name: "lease to a member under removal", viewNumber: 10},
	{name: "lease counted in one of two views", viewNumber: 11, deep: true},
	{name: "emergency view with the next epoch", viewNumber: 12},
	{name: "promise ignored", viewNumber: 13},
	{name: "takeover without pre-vote", viewNumber: 14, deep: true},
}

// TestMutants proves that the checks see what they are for. Deep mutants are
// played only with PEERAGE_MUTANTS=1.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread plays the same seeds as in the long run: nothing for the race detector to see")
	}
	all, _ := envUint("PEERAGE_MUTANTS")
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			if m.deep && all == 0 {
				t.Skip("needs many seeds: set PEERAGE_MUTANTS=1")
			}
			cfg := Config{again: true, Mutant: mutant.Plant(m.name)}
			if m.viewNumber != 0 {
				cfg.Mutant, cfg.onView, cfg.ViewsOnly = mutant.Kind{}, plantView(m.viewNumber), true
			}
			start := time.Now()
			const limit = 10_000
			for cfg.Seed = 0; cfg.Seed < limit; cfg.Seed++ {
				if r := Run(cfg); r.Failure != nil {
					t.Logf("caught after %d seeds in %v: %s", cfg.Seed+1, time.Since(start).Round(time.Millisecond), r.Failure.What)
					return
				}
			}
			t.Errorf("not caught within %d seeds (%v)", cfg.Seed, time.Since(start))
		})
	}
}
