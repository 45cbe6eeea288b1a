package shrink

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/sim/script"
	"github.com/peerage-go/peerage/internal/sim/seed"
)

// drawn returns the script of a run that a seed draws, with faults.
func drawn(n uint64, faults int) *script.Script {
	s := &script.Script{Seed: n, Config: seed.Draw(&seed.Options{Seed: n, Nodes: 7})}
	for i := range faults {
		s.Faults = append(s.Faults, script.Fault{Number: i + 1, At: time.Duration(i) * time.Second, Kind: "crash"})
	}
	return s
}

// The failure needs two faults of forty, three nodes and pauses: all else goes. Another check that
// fails is not the same failure.
func TestWhatTheFailureNeedsIsLeft(t *testing.T) {
	s := drawn(1, 0)
	s.Config.Pause = true
	play := func(s *script.Script) (string, *script.Script) {
		played := *s
		if s.Faults == nil {
			played.Faults = drawn(1, 40).Faults
		}
		has := func(n int) bool {
			return slices.ContainsFunc(played.Faults, func(f script.Fault) bool { return f.Number == n })
		}
		switch {
		case s.Config.Nodes < 3:
			return "seed 1: L6: not served", &played
		case s.Config.Pause && has(11) && has(30):
			return "seed 1: S1: shard 3 lives twice", &played
		}
		return "", &played
	}
	stepsTaken := 0
	best, failure, plays := Minimize(s, play, 10_000, func(string, int) { stepsTaken++ })
	if c := best.Config; c.Nodes != 3 || !c.Pause || c.Crash || c.Partition || c.Strangers || len(c.Types) != 1 || c.Types[0].Shards != 1 || c.Duration > 250*time.Millisecond {
		t.Errorf("left is\n%s", best)
	}
	if len(best.Faults) != 2 || best.Faults[0].Number != 11 || best.Faults[1].Number != 30 {
		t.Errorf("faults %v, want 11 and 30", best.Faults)
	}
	if CheckOf(failure) != "S1" || stepsTaken < 10 || plays > 10_000 {
		t.Errorf("%q after %d steps and %d runs", failure, stepsTaken, plays)
	}
}

func TestTheBudgetIsKept(t *testing.T) {
	runs := 0
	fails := func(s *script.Script) (string, *script.Script) { runs++; return "S1: always", s }
	if _, failure, plays := Minimize(drawn(2, 9), fails, 20, func(string, int) {}); plays > 21 || runs != plays || failure == "" {
		t.Errorf("%d runs, %d reported, failure %q", runs, plays, failure)
	}
	passes := func(s *script.Script) (string, *script.Script) { return "", s }
	if s, failure, plays := Minimize(drawn(2, 9), passes, 20, nil); failure != "" || plays != 1 || len(s.Faults) != 9 {
		t.Errorf("a script that passes: %q after %d runs", failure, plays)
	}
}

func TestChecksHaveNames(t *testing.T) {
	for failure, want := range map[string]string{"seed 276: S3: a: b": "S3", "L6: x": "L6", "seed 1: panic: no": "panic", "seed 5: S1 strict: two": "S1 strict"} {
		if got := CheckOf(failure); got != want {
			t.Errorf("%q: got %q, want %q", failure, got, want)
		}
	}
}

// Every configuration that steps lead to can be played, and written down.
func TestEachStepLeadsToARunThatCanBePlayed(t *testing.T) {
	for n := range uint64(12) {
		s := &script.Script{Seed: n, Config: seed.Draw(&seed.Options{Seed: n})}
		for _, step := range steps {
			c := s.Config.Clone()
			if !step.apply(&c) {
				continue
			}
			s = &script.Script{Seed: n, Config: c}
			again, err := script.Parse(s.String())
			if err != nil {
				t.Fatalf("seed %d, %s: %v\n%s", n, step.name, err, s)
			}
			if again.String() != s.String() {
				t.Errorf("seed %d, %s:\n%s\nis read as\n%s", n, step.name, s, again)
			}
		}
		if failure, _ := PlaySim(s); failure != "" {
			t.Errorf("seed %d: %s\n%s", n, failure, s)
		}
	}
}

// A fault that is left out changes nothing before it: the faults before it are the same.
func TestFaultsAreLeftOutOneByOne(t *testing.T) {
	s := &script.Script{Seed: 12, Config: seed.Draw(&seed.Options{Seed: 12})}
	_, whole := PlaySim(s)
	if len(whole.Faults) < 4 {
		t.Fatalf("%d faults in\n%s", len(whole.Faults), whole)
	}
	n := len(whole.Faults) / 2
	part := *whole
	part.Faults = whole.Faults[:n]
	if _, played := PlaySim(&part); !slices.Equal(played.Faults, whole.Faults[:n]) {
		t.Errorf("played %v, want %v", played.Faults, whole.Faults[:n])
	}
	if _, again := PlaySim(whole); again.String() != whole.String() || !strings.Contains(whole.String(), "faults listed\nfault 1 ") {
		t.Errorf("%s\nplays as\n%s", whole, again)
	}
}
