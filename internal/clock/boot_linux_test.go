package clock

import (
	"testing"
	"time"
)

// machine is a simulated machine whose clocks a test moves.
type machine struct {
	mono, wall, boot time.Duration
	calls            int
}

func (m *machine) clock() *boot {
	return newBoot(
		func() int64 { return int64(m.mono) },
		func() (int64, int64) { return int64(m.mono), int64(m.wall) },
		func() (int64, bool) { m.calls++; return int64(m.boot), true })
}

// pass lets time pass on a machine that runs.
func (m *machine) pass(d time.Duration) { m.mono, m.wall, m.boot = m.mono+d, m.wall+d, m.boot+d }

// suspend lets time pass on a machine that is suspended.
func (m *machine) suspend(d time.Duration) { m.wall, m.boot = m.wall+d, m.boot+d }

func TestBootCountsSuspend(t *testing.T) {
	m := &machine{mono: 5 * time.Second, wall: 1e18, boot: 7 * time.Second}
	c := m.clock()
	start := c.Now()
	if start != Instant(7*time.Second) {
		t.Fatalf("starts at %d", start)
	}
	m.pass(time.Second)
	m.suspend(time.Hour)
	if got := c.Now().Sub(start); got != time.Hour+time.Second {
		t.Errorf("after 1s and a suspend of 1h it shows %v", got)
	}
	for range 1000 {
		m.suspend(10 * time.Microsecond)
		m.pass(10 * time.Microsecond)
	}
	if got := c.Now().Sub(start); got < time.Hour+time.Second+19*time.Millisecond {
		t.Errorf("many short suspends are lost: it shows %v", got)
	}
}

// A suspend is detected within lookEvery of running time, however often the clock is
// read.
func TestBootNoticesASuspendWhileItIsRead(t *testing.T) {
	m := &machine{mono: time.Second, wall: 1e18, boot: time.Second}
	c := m.clock()
	m.pass(time.Second)
	start := c.Now()
	m.suspend(time.Hour)
	for ran := time.Duration(0); c.Now().Sub(start) < time.Hour; ran += time.Microsecond {
		if ran > 10*time.Microsecond {
			t.Fatalf("a suspend of 1h is not detected after %v of running", ran)
		}
		m.pass(time.Microsecond)
	}
}

func TestBootIgnoresStepsOfTheWallClock(t *testing.T) {
	m := &machine{mono: time.Second, wall: 1e18, boot: time.Second}
	c := m.clock()
	for _, step := range []time.Duration{time.Hour, -2 * time.Hour, time.Minute} {
		before := c.Now()
		m.wall += step
		m.pass(time.Second)
		if got := c.Now().Sub(before); got != time.Second {
			t.Errorf("a step of %v shows as %v in 1s", step, got)
		}
	}
}

func TestBootAsksTheKernelOnlyWhenItMust(t *testing.T) {
	m := &machine{mono: time.Second, wall: 1e18, boot: time.Second}
	c := m.clock()
	calls := m.calls
	for range 1000 {
		m.pass(time.Second)
		c.Now()
	}
	if m.calls != calls {
		t.Errorf("%d system calls on a machine that was never suspended", m.calls-calls)
	}
}

func TestBootFollowsTheKernel(t *testing.T) {
	c := Boot()
	for range 1000 {
		before, _ := bootNanos()
		now := int64(c.Now())
		after, _ := bootNanos()
		if now < before-int64(time.Millisecond) || now > after {
			t.Fatalf("read %d between %d and %d", now, before, after)
		}
	}
}

func BenchmarkBoot(b *testing.B) {
	c := Boot()
	for b.Loop() {
		c.Now()
	}
}
