//go:build unix

package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/harness/fleet"
	"github.com/peerage-go/peerage/internal/harness/namespace"
)

// mustPlay deals a fault that must take effect.
func mustPlay(t *testing.T, in *Injector, k Kind) *Round {
	t.Helper()
	r, err := in.Play(t.Context(), k)
	if err != nil {
		t.Fatalf("%s: %v", k, err)
	}
	if !r.TookEffect || r.To <= r.From || r.Kind != k || r.Number != len(in.Rounds) {
		t.Errorf("%s: %+v", k, r)
	}
	return r
}

// hurtBy returns the places whose processes have ended since before, which must be those of r.
func hurtBy(t *testing.T, in *Injector, r *Round, before []*fleet.Process) (places []int) {
	t.Helper()
	var names []string
	for i, p := range before {
		if !isGone(p) {
			continue
		}
		places, names = append(places, i), append(names, p.Name)
		if ids := p.NodeIDs(); !slices.Contains(r.Nodes, ids[0]) {
			t.Errorf("the round has the incarnations %x, not %x of %s", r.Nodes, ids, p.Name)
		}
	}
	listed := slices.Sorted(slices.Values(r.Places))
	if !slices.Equal(names, listed) {
		t.Errorf("%s: the processes at %v have ended, the round lists %v", r.Kind, names, listed)
	}
	for i, p := range in.Fleet.Now {
		if p == nil || isGone(p) {
			t.Errorf("%s: no process stands at place %d", r.Kind, i)
		}
	}
	return places
}

func TestKillsEndProcessesAndReplaceThem(t *testing.T) {
	in := newInjector(t, 3, 1, nil)
	for _, c := range []struct {
		kind      Kind
		least     int
		most      int
		emergency bool
	}{{Kill, 1, 1, false}, {KillRest, 2, 2, true}, {KillMany, 1, 2, false}} {
		before := slices.Clone(in.Fleet.Now)
		r := mustPlay(t, in, c.kind)
		if n := len(hurtBy(t, in, r, before)); n < c.least || n > c.most || r.Emergency != (n > 1) {
			t.Errorf("%s ended %d processes, want %d to %d; emergency %v", c.kind, n, c.least, c.most, r.Emergency)
		}
	}
	two := newInjector(t, 2, 1, nil)
	if r := mustPlay(t, two, Kill); !r.Emergency {
		t.Error("a kill of one of two leaves no majority, and the round is no emergency")
	}
}

func TestAHeldProcessIsSilentAndGoesOn(t *testing.T) {
	in := newInjector(t, 2, 1, nil)
	before := slices.Clone(in.Fleet.Now)
	r, err := in.deal(t.Context(), Stop, func(ctx context.Context, in *Injector, r *Round) error { return in.hold(ctx, r, heldMin) })
	if err != nil {
		t.Fatal(err)
	}
	if len(hurtBy(t, in, &Round{}, before)) != 0 || len(r.Places) != 1 || !slices.Equal(in.Fleet.Now, before) {
		t.Errorf("a process that was held was replaced: %+v", r)
	}
	held := r.HeldTo.Sub(r.HeldFrom)
	if !r.TookEffect || r.HeldFrom < r.From || r.To < r.HeldTo || held < heldMin || float64(held.Milliseconds()) < r.HeldMS {
		t.Errorf("%+v: held for %v", r, held)
	}
}

func TestADrainEndsAProcessInOrder(t *testing.T) {
	in := newInjector(t, 2, 1, nil)
	before := slices.Clone(in.Fleet.Now)
	r := mustPlay(t, in, Drain)
	if len(hurtBy(t, in, r, before)) != 1 || r.DrainMS != drainMS {
		t.Errorf("%+v", r)
	}
}

func TestRestartsKeepTheAddresses(t *testing.T) {
	in := newInjector(t, 3, 1, nil)
	for _, k := range []Kind{Restart, RestartMany} {
		before := slices.Clone(in.Fleet.Now)
		r := mustPlay(t, in, k)
		for _, i := range hurtBy(t, in, r, before) {
			if was, is := reports(before[i]).Listen, reports(in.Fleet.Now[i]).Listen; was != is {
				t.Errorf("%s: %s listened at %s, its successor at %s", k, before[i].Name, was, is)
			}
		}
		if r.DrainMS <= 0 {
			t.Errorf("%s: an orderly end of %v ms", k, r.DrainMS)
		}
	}
}

func TestRenewStartsASuccessorInPlaceOrBefore(t *testing.T) {
	in := newInjector(t, 2, 1, nil)
	for _, inPlace := range []bool{true, false} {
		before := slices.Clone(in.Fleet.Now)
		r, err := in.Renew(t.Context(), 1, inPlace)
		if err != nil {
			t.Fatal(err)
		}
		if places := hurtBy(t, in, r, before); !slices.Equal(places, []int{1}) || !r.TookEffect || r.Kind != Restart {
			t.Errorf("in place %v: %+v", inPlace, r)
		}
		if same := reports(before[1]).Listen == reports(in.Fleet.Now[1]).Listen; same != inPlace {
			t.Errorf("in place %v, and the address is the same: %v", inPlace, same)
		}
	}
}

func TestClocksAreSetAndSetRight(t *testing.T) {
	t.Parallel()
	in := newInjector(t, 3, 3, func(f *fleet.Fleet) { f.Registers = 1 })
	for _, c := range []struct {
		killed int
		how    string
	}{
		{3, "all killed and started again, in the second in which their cluster was formed"},
		{0, ""}, {1, "killed and started again, "}, {3, "all killed and started again, set back"},
	} {
		before := slices.Clone(in.Fleet.Now)
		r := mustPlay(t, in, Clock)
		if r.Killed != c.killed || !strings.HasPrefix(r.How, c.how) || r.How == "" {
			t.Errorf("%d killed, %q; want %d, %q", r.Killed, r.How, c.killed, c.how)
		}
		if c.killed > 0 && len(hurtBy(t, in, r, before)) != c.killed {
			t.Errorf("%q: %v", r.How, r.Places)
		}
		for i, p := range in.Fleet.Now {
			if in.Fleet.Ahead[i] != 0 || time.Until(time.UnixMilli(reports(p).WallMillis)).Abs() > time.Minute {
				t.Errorf("after %q the clock of %s is still off: %v", r.How, p.Name, time.UnixMilli(reports(p).WallMillis))
			}
		}
	}
}

// A cluster that forms again with the generation of the last one is an error.
func TestAGenerationThatDoesNotRiseFailsTheRound(t *testing.T) {
	in := newInjector(t, 2, 1, func(f *fleet.Fleet) { f.Registers = 1 })
	makeFile(t, in.Fleet.Dir, stuckFile)
	r, err := in.Play(t.Context(), Clock)
	if err == nil || !strings.Contains(err.Error(), "the generation went from 1 to 1") || r.TookEffect {
		t.Errorf("%+v: %v", r, err)
	}
	if len(in.Rounds) != 1 {
		t.Errorf("a round that failed is not among the %d rounds", len(in.Rounds))
	}
}

func makeFile(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
		t.Fatal(err)
	}
}

// A full disk takes effect when its process reports it to callers, in its readiness and in its
// gauge. Meanwhile each process is asked for new entities.
func TestAFullDiskMustBeReported(t *testing.T) {
	t.Parallel()
	in := newInjector(t, 2, 1, func(f *fleet.Fleet) { f.Files = true })
	makeFile(t, in.Fleet.DataDir(1), "filler")
	r := &Round{Number: 5}
	if err := in.diskFails(t.Context(), r, []int{1}); err != nil || !r.TookEffect || r.HeldMS <= 0 {
		t.Errorf("%+v: %v", r, err)
	}
	asked, _ := os.ReadFile(filepath.Join(in.Fleet.Dir, newcomersFile))
	lines := strings.Fields(string(asked))
	if slices.Sort(lines); len(slices.Compact(lines)) != 2*newcomers || lines[0] != "/v1/counters/newcomer-5-0-0/ask" {
		t.Errorf("entities asked: %q", lines)
	}
	makeFile(t, in.Fleet.Dir, readyFile)
	r = &Round{}
	if err := in.diskFails(t.Context(), r, []int{1}); err == nil || !strings.Contains(err.Error(), "/readyz answers") || r.TookEffect {
		t.Errorf("a process with a full disk is ready: %+v, %v", r, err)
	}
}

// The disks of a fleet without disks of its own are the machine's: they are not filled.
func TestADirectoryThatIsNoDiskIsNotFilled(t *testing.T) {
	t.Parallel()
	in := newInjector(t, 2, 1, func(f *fleet.Fleet) { f.Files = true })
	r, err := in.Play(t.Context(), Disk)
	if err == nil || !strings.Contains(err.Error(), "not a disk of its own") {
		t.Errorf("%+v: %v", r, err)
	}
	for i := range 2 {
		if files, _ := os.ReadDir(in.Fleet.DataDir(i)); len(files) > 0 {
			t.Errorf("%v is left in the directory of place %d", files, i)
		}
	}
}

// The stand-ins use no processor time, so nothing throttles them: the round does not claim an
// effect, with control groups or without.
func TestAProcessThatWasNotThrottledWasNotSlowed(t *testing.T) {
	t.Parallel()
	in := newInjector(t, 2, 1, nil)
	r, err := in.Play(t.Context(), Slow)
	if err != nil || r.TookEffect || !strings.Contains(r.How, "10 % of a processor") {
		t.Errorf("%+v: %v", r, err)
	}
}

func TestTheLeaderIsTheOldest(t *testing.T) {
	in := newInjector(t, 3, 1, nil)
	if i := in.oldest(); i != 0 {
		t.Errorf("the leader is at place %d", i)
	}
	if _, err := in.Renew(t.Context(), 0, true); err != nil {
		t.Fatal(err)
	}
	if i := in.oldest(); i != 1 {
		t.Errorf("after the restart of the first, the leader is at place %d", i)
	}
}

func TestAProcessThatEndsByItselfFailsTheRound(t *testing.T) {
	in := newInjector(t, 2, 1, nil)
	taken := reports(in.Fleet.Now[0]).Listen
	_, err := in.deal(t.Context(), Kill, func(_ context.Context, in *Injector, _ *Round) error { return in.fillPlace(t.Context(), 1, taken) })
	if err == nil || !strings.Contains(err.Error(), "node b ended") || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a process whose address is taken: %v, want its name and its log", err)
	}
}

func TestMinoritiesAreLessThanHalf(t *testing.T) {
	for places := 2; places <= 7; places++ {
		in := newRandom(places)
		sizes := map[int]bool{}
		for range 200 {
			some, others := in.minority()
			sizes[len(some)] = true
			if all := slices.Sorted(slices.Values(append(slices.Clone(some), others...))); len(all) != places || all[0] != 0 || len(slices.Compact(all)) != places {
				t.Fatalf("%d places are %v and %v", places, some, others)
			}
			if len(some) == 0 || places > 2 && 2*len(some) >= places {
				t.Fatalf("%v of %d places are no minority", some, places)
			}
		}
		if want := max(1, (places-1)/2); len(sizes) != want {
			t.Errorf("minorities of %d places have the sizes %v, want 1 to %d", places, sizes, want)
		}
	}
}

func TestTimesAndOffsetsVary(t *testing.T) {
	in := newRandom(3)
	least, most := HeldMax, heldMin
	signs := map[bool]int{}
	for range 500 {
		d := in.heldFor()
		least, most = min(least, d), max(most, d)
		off := in.wallOffset()
		if !slices.Contains(offsets, off.Abs()) {
			t.Fatalf("an offset of %v", off)
		}
		signs[off < 0]++
	}
	if least < heldMin || most > HeldMax || least > time.Second || most < 3*time.Second {
		t.Errorf("processes are held for %v to %v", least, most)
	}
	if signs[true] < 150 || signs[false] < 150 {
		t.Errorf("%d clocks are set back, %d ahead", signs[true], signs[false])
	}
}

func TestVariantsTakeTurns(t *testing.T) {
	in := newRandom(3)
	for i, k := range []Kind{Clock, Disk, Clock, Kill} {
		if n := in.turnOf(Clock); n != []int{0, 1, 1, 2}[i] {
			t.Errorf("before round %d it is turn %d", i, n)
		}
		in.Rounds = append(in.Rounds, Round{Kind: k})
	}
}

func ExampleRound_Detail() {
	for _, r := range []Round{
		{Other: "b", HeldMS: 1500}, {How: "from there only", HeldMS: 900}, {How: "by 50 to 60 ms", HeldMS: 900, Delay: &namespace.Delayed{BeforeMS: 0.04, DuringMS: 112}}, {How: "full"}, {HeldMS: 400}, {DrainMS: 12}, {},
	} {
		fmt.Printf("a was hurt%s\n", r.Detail())
	}
	// Output:
	// a was hurt from b for 1500 ms
	// a was hurt (from there only) for 900 ms
	// a was hurt (by 50 to 60 ms) for 900 ms, with round trips of 112 ms, 0.04 ms before
	// a was hurt (full)
	// a was hurt for 400 ms
	// a was hurt, out after 12 ms
	// a was hurt
}
