package faults

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/harness/fleet"
	"github.com/peerage-go/peerage/internal/harness/namespace"
)

// newRandom returns an injector of a fleet without processes.
func newRandom(places int) *Injector {
	return &Injector{Fleet: &fleet.Fleet{Now: make([]*fleet.Process, places)}, Rng: rand.New(rand.NewPCG(1, 2))}
}

func TestEachListedKindIsPlayed(t *testing.T) {
	listed := 2 // KillRest and Freeze are for bench
	for list, is := range map[string]struct{ network, files bool }{
		DefaultKinds: {}, NetworkKinds: {network: true}, MachineKinds: {files: true}, ProcessorKinds: {},
	} {
		for name := range strings.SplitSeq(list, ",") {
			k := Kind(name)
			listed++
			if !k.Exists() || k.BreaksNetwork() != is.network || k.NeedsFiles() != is.files || k.NeedsDisks() != (k == Disk) {
				t.Errorf("%s: played %v, breaks the network %v, needs files %v and disks %v", k, k.Exists(), k.BreaksNetwork(), k.NeedsFiles(), k.NeedsDisks())
			}
		}
	}
	if len(plays) != listed || !KillRest.Exists() || !Freeze.Exists() || Kind("dance").Exists() {
		t.Errorf("%d kinds are played, %d are listed", len(plays), listed)
	}
}

// What a round may cost decides which checks of a run apply to it.
func TestRoundsThatLoseMemory(t *testing.T) {
	two := []string{"a", "b"}
	for _, c := range []struct {
		r     Round
		loses bool
		lost  int
	}{
		{Round{Kind: Kill, Places: two}, true, 2}, {Round{Kind: Stop, Places: two[:1]}, true, 1}, {Round{Kind: Cut, Places: two}, true, 2},
		{Round{Kind: Drain, Places: two[:1]}, false, 1}, {Round{Kind: Restart, Places: two[:1]}, false, 1}, {Round{Kind: RestartMany, Places: two}, false, 2},
		{Round{Kind: Delay, Places: two}, true, 2}, {Round{Kind: Delay, Places: two, KeepsMemory: true}, false, 2},
		{Round{Kind: Clock, Places: two}, false, 0}, {Round{Kind: Clock, Places: two, Killed: 2}, true, 2}, {Round{Kind: Disk, Places: two, Killed: 1}, true, 1},
	} {
		if c.r.LosesMemory() != c.loses || c.r.Lost() != c.lost {
			t.Errorf("%s of %s: loses memory %v, lost %d", c.r.Kind, c.r.PlaceNames(), c.r.LosesMemory(), c.r.Lost())
		}
	}
	r := Round{From: 5, To: 9}
	if s := r.Span(); s.From != 5 || s.To != 9 {
		t.Errorf("the span is %+v", s)
	}
}

func TestPathsBetweenPlaces(t *testing.T) {
	type path = namespace.Path
	oneWay := []path{{From: 0, To: 1}, {From: 0, To: 2}}
	if got := pathsOf([]int{0}, []int{1, 2}, false); !slices.Equal(got, oneWay) {
		t.Errorf("from one place to two: %v", got)
	}
	both := []path{{From: 0, To: 1}, {From: 1, To: 0}, {From: 0, To: 2}, {From: 2, To: 0}}
	if got := pathsOf([]int{0}, []int{1, 2}, true); !slices.Equal(got, both) {
		t.Errorf("between one place and two: %v", got)
	}
	// In a ring of n places each loses all but its two neighbours, both ways.
	for n := 3; n <= 7; n++ {
		places := rand.New(rand.NewPCG(uint64(n), 1)).Perm(n)
		got := ringPaths(places)
		if len(got) != n*(n-3) {
			t.Errorf("a ring of %d loses %d directions, want %d", n, len(got), n*(n-3))
		}
		for _, p := range got {
			if !slices.Contains(got, path{From: p.To, To: p.From}) {
				t.Errorf("a ring of %d loses %v one way", n, p)
			}
		}
	}
}

// Delays are short and long in turn, in both directions or in one, and some are out of order. The
// number of delayed ways of a round trip is that of the paths between two places.
func TestDelaysVary(t *testing.T) {
	in := newRandom(5)
	seen := map[string]int{}
	for range 400 {
		some, others := in.minority()
		bounds := delays[len(in.Rounds)%2]
		d, paths, ways, how := in.drawDelay(some, others)
		if d.Base < bounds[0] || d.Base >= bounds[1] || d.Jitter < 0 || d.Jitter > d.Base/4 {
			t.Fatalf("turn %d: %+v, not between %v", len(in.Rounds), d, bounds)
		}
		if len(paths) != ways*len(some)*len(others) {
			t.Fatalf("%d paths between %v and %v, and %d delayed ways", len(paths), some, others, ways)
		}
		if from := slices.Contains(some, paths[0].From); from != (ways == 2 || strings.HasSuffix(how, "from there only")) || d.Reorder != strings.Contains(how, "out of order") {
			t.Fatalf("%q: %+v, %v", how, d, paths[0])
		}
		_, words, _ := strings.Cut(how, " ms, ")
		seen[words]++
		in.Rounds = append(in.Rounds, Round{Kind: Delay})
	}
	for _, words := range []string{"both ways", "out of order, both ways", "from there only", "towards there only"} {
		if seen[words] < 50 || len(seen) != 4 {
			t.Errorf("of 400 delays, %d are %s: %v", seen[words], words, seen)
		}
	}
}

func TestOffsetsInWords(t *testing.T) {
	for d, want := range map[time.Duration]string{
		90 * time.Second: "+1m30s", -3 * time.Hour: "-3h0m0s", 9 * 24 * time.Hour: "+9 days", -30 * year: "-30 years",
	} {
		if got := ago(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

// Each kind has words of its own, and so has each round.
func TestFaultsHaveWords(t *testing.T) {
	seen := map[string]Kind{}
	for k := range plays { // order-free: each is looked at alone
		text := k.Text()
		if other, found := seen[text]; found || text == string(k) {
			t.Errorf("%s: %q, and so is %q", k, text, other)
		}
		seen[text] = k
		if !strings.Contains(Kinds(), "  "+string(k)+" ") {
			t.Errorf("%s is not in the list of all kinds:\n%s", k, Kinds())
		}
	}
	for want, r := range map[string]Round{
		"killed a":                                    {Kind: Kill, Places: []string{"a"}},
		"killed d, c and a together":                  {Kind: KillRest, Places: []string{"d", "c", "a"}},
		"cut off c from d for 1500 ms":                {Kind: CutPair, Places: []string{"c"}, Other: "d", HeldMS: 1500},
		"lost packets of d and a (3 % lost) for 9 ms": {Kind: Loss, Places: []string{"d", "a"}, How: "3 % lost", HeldMS: 9},
		"delayed packets of d (by 70 to 80 ms, both ways) for 9 ms, with round trips of 150 ms, 0.04 ms before": {
			Kind: Delay, Places: []string{"d"}, How: "by 70 to 80 ms, both ways", HeldMS: 9, Delay: &namespace.Delayed{BeforeMS: 0.04, DuringMS: 150}},
		"drained b, out after 17 ms": {Kind: Drain, Places: []string{"b"}, DrainMS: 17},
	} {
		if got := r.Text(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The places that are spared are drawn by no fault that ends processes.
func TestSparedPlacesAreNotDrawn(t *testing.T) {
	in := newRandom(5)
	in.Spared = 3
	drawn := map[int]bool{}
	for range 100 {
		drawn[in.drawOneMortal()] = true
		n := in.drawMortalCount()
		for _, i := range in.drawMortal()[:n] {
			drawn[i] = true
		}
	}
	if len(drawn) != 2 || !drawn[3] || !drawn[4] {
		t.Errorf("of 5 places, 3 of them spared, %v were drawn", drawn)
	}
}
