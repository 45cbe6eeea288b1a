package driver

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
)

// runBatches runs the driver until its events are handled, and returns all batches that are
// not empty.
func runBatches[E any](d *Driver[E]) (batches [][]E) {
	d.Finish()
	d.Run(nil, func(batch []E) clock.Instant {
		if len(batch) > 0 {
			batches = append(batches, slices.Clone(batch))
		}
		return clock.Never
	})
	return batches
}

func TestFramesAreDroppedAboveTheBoundAndEventsAreNot(t *testing.T) {
	d := New(Config[string]{Clock: clock.Runtime(), Frames: 3})
	for range 3 {
		if !d.PutFrame("frame") {
			t.Fatal("a frame is dropped below the bound")
		}
	}
	if d.PutFrame("frame") {
		t.Error("a frame above the bound is kept")
	}
	if !d.Put("event") {
		t.Error("an event is dropped")
	}
	if waiting, most, dropped := d.Counts(); waiting != 4 || most != 4 || dropped != 1 {
		t.Errorf("%d wait, %d at most, %d dropped, want 4, 4, 1", waiting, most, dropped)
	}
	if batch, _ := d.takeBatch(nil); len(batch) != 4 {
		t.Errorf("%d events, want 4", len(batch))
	}
	if !d.PutFrame("frame") {
		t.Error("a frame is dropped although all were taken")
	}
}

func TestEventsAreJoinedWithTheNewestOnly(t *testing.T) {
	d := New(Config[string]{Clock: clock.Runtime(), Join: func(a, b string) (string, bool) { return a + b, a[0] == b[0] }})
	for _, ev := range []string{"a", "a", "b", "a", "a"} {
		d.Put(ev)
	}
	if got := runBatches(d); len(got) != 1 || !slices.Equal(got[0], []string{"aa", "b", "aa"}) {
		t.Errorf("batches %v", got)
	}
}

func TestHintsWaitBehindEventsAFewAtATime(t *testing.T) {
	d := New(Config[int]{Clock: clock.Runtime(), Hints: 5, HintsPerBatch: 2})
	for i := range 5 {
		if !d.PutHint(i) {
			t.Fatalf("hint %d is dropped below the bound", i)
		}
	}
	if d.PutHint(5) {
		t.Error("a hint above the bound is kept")
	}
	d.Put(100)
	stop := make(chan struct{})
	var got []string
	d.Run(stop, func(batch []int) clock.Instant {
		if got = append(got, fmt.Sprint(batch)); len(got) == 3 {
			close(stop)
		}
		return clock.Never
	})
	if want := []string{"[100 0 1]", "[2 3]", "[4]"}; !slices.Equal(got[:3], want) {
		t.Errorf("batches %v, want %v", got, want)
	}
}

func TestAFinishedDriverHandlesItsEventsAndTakesNoMore(t *testing.T) {
	d := New(Config[string]{Clock: clock.Runtime(), Frames: 9, Hints: 9})
	if !d.Idle() || d.Closed() {
		t.Error("a new driver is not idle, or closed")
	}
	d.Put("last")
	d.Finish()
	if d.Put("late") || d.PutFrame("late") || d.PutHint("late") {
		t.Error("a finished driver takes events")
	}
	if d.Idle() || !d.Closed() {
		t.Error("a finished driver is idle, or open")
	}
	if got := runBatches(d); len(got) != 1 || !slices.Equal(got[0], []string{"last"}) {
		t.Errorf("batches %v", got)
	}
}

// A caller that steps the core itself asks Idle first. It must not overtake events that Run
// has taken from the queue and not handled yet.
func TestADriverIsNotIdleWhileItHandlesABatch(t *testing.T) {
	d := New(Config[string]{Clock: clock.Runtime()})
	d.Put("event")
	stop := make(chan struct{})
	d.Run(stop, func(batch []string) clock.Instant {
		if len(batch) == 0 {
			return clock.Never // for the wake of Put
		}
		if d.Idle() {
			t.Errorf("idle while %v is being handled", batch)
		}
		close(stop)
		return clock.Never
	})
	if !d.Idle() {
		t.Error("not idle after the batch")
	}
}

func TestStepsComeAtDeadlinesAndAfterWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock.Runtime()
		d := New(Config[string]{Clock: c})
		stop, ended := make(chan struct{}), make(chan struct{})
		began := c.Now()
		steps := make(chan time.Duration, 16)
		var next atomic.Int64
		next.Store(int64(3 * time.Second))
		go func() {
			defer close(ended)
			d.Run(stop, func([]string) clock.Instant {
				steps <- c.Now().Sub(began)
				return began.Add(time.Duration(next.Load()))
			})
		}()
		at := func(after time.Duration) {
			t.Helper()
			synctest.Wait()
			select {
			case got := <-steps:
				if got != after {
					t.Fatalf("the next step came after %v, want %v", got, after)
				}
			default:
				t.Fatalf("no step has come after %v", after)
			}
		}
		at(0)
		<-time.After(time.Second)
		d.Wake()
		at(time.Second)
		next.Store(int64(8 * time.Second))
		<-time.After(2 * time.Second)
		at(3 * time.Second)
		// A later instant changes nothing, an earlier one does.
		d.ArmTimer(began.Add(9 * time.Second))
		d.ArmTimer(began.Add(5 * time.Second))
		<-time.After(2 * time.Second)
		at(5 * time.Second)
		<-time.After(3 * time.Second)
		at(8 * time.Second)
		if len(steps) != 0 {
			t.Errorf("%d steps too many", len(steps))
		}
		close(stop)
		<-ended
	})
}

// A caller that steps the core and arms the timer, while a batch is being handled, must not
// lose its deadline to the later one that the batch ends with.
func TestATimerArmedDuringAStepIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock.Runtime()
		d := New(Config[string]{Clock: c})
		stop := make(chan struct{})
		began := c.Now()
		steps := 0
		d.Run(stop, func([]string) clock.Instant {
			if steps++; steps == 2 {
				close(stop)
			} else {
				d.ArmTimer(began.Add(time.Second))
			}
			return clock.Never
		})
		if took := c.Now().Sub(began); took != time.Second {
			t.Errorf("the second step came after %v, want 1s", took)
		}
	})
}
