package virtual

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
)

func TestEventsHappenInTheOrderOfTheirInstants(t *testing.T) {
	var s Schedule
	var got []string
	note := func(name string) func() { return func() { got = append(got, name) } }
	s.At(30, note("third"))
	s.At(10, func() {
		got = append(got, "first")
		s.At(5, note("planned too late"))
		s.After(10, note("second of 20"))
	})
	s.At(20, note("first of 20"))
	s.At(Never, note("never"))
	for s.Next(40) {
	}
	want := []string{"first", "planned too late", "first of 20", "second of 20", "third"}
	if !slices.Equal(got, want) || s.Now() != 40 {
		t.Errorf("at %d: %q, want %q", s.Now(), got, want)
	}
	s.At(50, note("later"))
	if s.Next(45) || s.Now() != 45 {
		t.Errorf("an event after 45 happened, or it is %d", s.Now())
	}
}

func TestEqualInstantsKeepTheirOrder(t *testing.T) {
	var s Schedule
	r, order := NewRand(1, 1), []int{}
	for i := range 1000 {
		s.At(Instant(r.IntN(10)), func() { order = append(order, int(s.Now())*1000+i) })
	}
	for s.Next(Never) {
	}
	if len(order) != 1000 || !slices.IsSorted(order) {
		t.Errorf("%d events, in order: %v", len(order), slices.IsSorted(order))
	}
}

// When is the first instant at which a clock shows a reading, whatever its rate.
func TestAClockShowsItsReadingFirstWhenItSays(t *testing.T) {
	r := NewRand(2, 1)
	for range 2000 {
		c := NewClock(int64(r.Uint64()>>14), int64(r.Between(-900_000, 900_000)))
		for from := Instant(0); r.Chance(60); {
			from = from.Add(r.Duration(1, 3*time.Minute))
			c = c.WithRate(from, int64(r.Between(-900_000, 900_000)))
		}
		at := Instant(r.Duration(1, 8*time.Minute))
		reading := c.Read(at)
		first := c.When(reading)
		if first > at || c.Read(first) < reading || first > 0 && c.Read(first-1) >= reading {
			t.Fatalf("%+v shows %d at %d, and first at %d", c, reading, at, first)
		}
	}
	if c := NewClock(5, 0); c.When(clock.Never) != Never || c.When(3) != 0 {
		t.Error("a reading before the origin, or after all runs")
	}
}

// A clock loses and gains by the rate of each part of its run; a rate that is planned is in the
// future of a stopped clock, too.
func TestAClockChangesItsRate(t *testing.T) {
	c := NewClock(7, 1000).WithRate(1_000_000, -2000).WithRate(2_000_000, 0)
	if fork := c.WithRate(2_500_000, 500_000); fork.Read(3_500_000) == c.Read(3_500_000) {
		t.Error("a copy with another rate shows the same")
	}
	for at, want := range map[Instant]clock.Instant{0: 7, 1_000_000: 1_001_007, 1_500_000: 1_500_007, 2_000_000: 1_999_007, 5_000_000: 4_999_007} {
		if got := c.Read(at); got != want {
			t.Errorf("at %d it shows %d, want %d", at, got, want)
		}
	}
	for _, span := range []struct {
		after, until Instant
		want         bool
	}{{0, 999_999, false}, {0, 1_000_000, true}, {1_000_000, 1_999_999, false}, {3_000_000, 9_000_000, false}} {
		if got := c.RateChanges(span.after, span.until); got != span.want {
			t.Errorf("the rate changes from %d to %d: %v", span.after, span.until, got)
		}
	}
	c.Stop(500_000)
	c.Restart(800_000)
	if got := c.Read(1_300_000); got != 1_001_007 || c.When(got) != 1_300_000 {
		t.Errorf("stopped for 300 µs it shows %d at 1.3 ms, and first at %d", got, c.When(got))
	}
}

// The numbers of a seed are the same in every version of Go, and those of another stream differ.
func TestASeedGivesTheSameNumbers(t *testing.T) {
	for _, c := range []struct {
		stream uint64
		want   []int
	}{{1, []int{946, 192, 303, 756, 437, 914, 378, 994}}, {2, []int{565, 291, 516, 421, 954, 933, 323, 784}}} {
		r, got := NewRand(42, c.stream), []int(nil)
		for range 8 {
			got = append(got, r.IntN(1000))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("stream %d: %d, want %d", c.stream, got, c.want)
		}
	}
}

func TestDrawsStayWithinTheirBounds(t *testing.T) {
	r, heads := NewRand(3, 1), 0
	for range 1000 {
		if n := r.Between(3, 5); n < 3 || n > 5 {
			t.Fatalf("Between(3, 5) is %d", n)
		}
		if d := r.Duration(time.Second, 2*time.Second); d < time.Second || d > 2*time.Second {
			t.Fatalf("a duration of 1 to 2 s is %v", d)
		}
		if r.Coin() {
			heads++
		}
		if r.Chance(0) || !r.Chance(100) {
			t.Fatal("chances of 0 and 100 percent are certain")
		}
	}
	if heads < 400 || heads > 600 {
		t.Errorf("%d heads of 1000", heads)
	}
	all := r.Perm(20)
	if slices.Sort(all); all[0] != 0 || all[19] != 19 || len(slices.Compact(all)) != 20 {
		t.Errorf("a permutation of 20 has %d", all)
	}
	if few := r.Subset(20, 4); len(few) != 4 {
		t.Errorf("4 of 20 are %d", few)
	}
}

func TestThreadKeepsTheOrder(t *testing.T) {
	var s Schedule
	th := NewThread(&s)
	var ran []int
	do := func(n int) func() { return func() { ran = append(ran, n) } }
	th.Run(do(1)) // immediately
	th.Pause()
	th.Run(do(2))
	th.Run(do(3))
	s.Next(Instant(time.Second))
	if !slices.Equal(ran, []int{1}) {
		t.Errorf("a paused thread ran %v", ran)
	}
	if !th.Resume() || th.Resume() {
		t.Error("Resume does not report whether there was a pause")
	}
	th.Run(do(4)) // behind those that wait
	for s.Next(Instant(2 * time.Second)) {
	}
	if !slices.Equal(ran, []int{1, 2, 3, 4}) || th.PausedUntil() != Instant(time.Second) {
		t.Errorf("ran %v, paused until %d", ran, th.PausedUntil())
	}
	th.After(time.Second, do(5))
	th.End()
	for s.Next(Instant(time.Minute)) {
	}
	if len(ran) != 4 || th.Alive() {
		t.Errorf("a thread that has ended ran %v", ran)
	}
}

func TestSlowThreadsRunLate(t *testing.T) {
	var s Schedule
	th := NewThread(&s)
	th.SetCost(time.Millisecond)
	var at []Instant
	for range 3 {
		th.Run(func() { at = append(at, s.Now()) })
	}
	for s.Next(Instant(time.Second)) {
	}
	if want := []Instant{1e6, 2e6, 3e6}; !slices.Equal(at, want) {
		t.Errorf("ran at %v, want %v", at, want)
	}
}

func TestTimerFiresAtTheEarliestDeadline(t *testing.T) {
	var s Schedule
	fired := 0
	c := NewClock(1000, 0)
	timer := NewTimer(NewThread(&s), c, func() time.Duration { return 0 }, func() { fired++ })
	timer.Set(c.Read(500))
	timer.Set(c.Read(900)) // ignored until the earlier one has passed
	timer.Set(c.Read(200))
	for s.Next(300) {
	}
	if fired != 1 {
		t.Errorf("fired %d times by 300", fired)
	}
	for s.Next(2000) {
	}
	if fired != 1 {
		t.Errorf("fired %d times: a replaced deadline counts", fired)
	}
}

// A clock that stood still shows all later instants later, by as long as it stood.
func TestClocksThatStandStill(t *testing.T) {
	for _, ppm := range []int64{-200_000, 0, 200_000} {
		c := NewClock(1000, ppm)
		steady, copied := NewClock(1000, ppm), c
		c.Stop(100)
		if !copied.Stopped() || c.Read(500) != steady.Read(100) || c.When(steady.Read(90)) > 90 {
			t.Errorf("%d ppm: a clock that stopped at 100 shows %d at 500, want %d", ppm, c.Read(500), steady.Read(100))
		}
		if since := c.Restart(500); since != 100 || c.Stopped() {
			t.Errorf("it stood since %d", since)
		}
		c.Stop(600)
		c.Restart(700)
		for _, at := range []Instant{50, 100, 501, 599, 701, 5000} {
			shown := c.Read(at)
			if got := c.When(shown); c.Read(got) < shown || got > at || got > 0 && c.Read(got-1) >= shown {
				t.Errorf("%d ppm: %d is shown at %d, and first at %d", ppm, shown, at, got)
			}
		}
		if c.Read(5000) != steady.Read(4500) {
			t.Errorf("%d ppm: after 500 of standing still it shows %d, want %d", ppm, c.Read(5000), steady.Read(4500))
		}
	}
}
