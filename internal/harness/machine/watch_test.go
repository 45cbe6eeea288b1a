package machine

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// invented plays a machine with two processors, of which parts are taken.
func invented(ours, others, stolen float64) func([]int) usage {
	begun := time.Now()
	return func([]int) usage {
		s := 2 * time.Since(begun).Seconds()
		return usage{total: s, busy: (ours + others) * s, stolen: stolen * s, ours: ours * s}
	}
}

func TestAMachineIsOverloadedByOthersAndNotByTheRun(t *testing.T) {
	for name, c := range map[string]struct {
		ours, others, stolen float64
		overloaded           bool
	}{
		"idle":                              {0.2, 0.01, 0, false},
		"the run takes all":                 {0.97, 0.02, 0, false},
		"others take what the run does not": {0.3, 0.4, 0, false},
		"others compete with the run":       {0.5, 0.48, 0, true},
		"the host takes processors":         {0.3, 0.1, 0.3, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &Watch{pids: func() []int { return nil }, read: invented(c.ours, c.others, c.stolen), stop: make(chan struct{})}
				w.done.Go(w.watchMachine)
				<-time.After(10*window + window/2)
				s := w.Stop()
				if s.Overloaded != c.overloaded || s.Windows < 9 || s.Ours < c.ours-0.01 || s.Others > c.others+0.01 || s.LateMaxMS > 1 {
					t.Errorf("%+v", s)
				}
				if c.overloaded != (len(s.Worst) > 0) || !strings.Contains(s.String(), "seconds starved") {
					t.Errorf("%v: %+v", s, s.Worst)
				}
			})
		})
	}
}

// A timer that is late starves a window, and one window is no overloaded machine.
func TestLateTimersStarveWindows(t *testing.T) {
	w := &Watch{}
	for range 30 {
		w.addWindow(Window{LateMS: 4}, usage{}, usage{})
	}
	w.addWindow(Window{LateMS: 51}, usage{}, usage{})
	if s := w.sum; s.Starved != 1 || s.Overloaded || s.LateMaxMS != 51 || len(s.Worst) != 1 {
		t.Errorf("%+v", s)
	}
	for range 5 {
		w.addWindow(Window{LateMS: 80}, usage{}, usage{})
	}
	if s := w.sum; s.Starved != 6 || !s.Overloaded {
		t.Errorf("%+v", s)
	}
	short := &Watch{}
	short.addWindow(Window{LateMS: 60}, usage{}, usage{})
	if short.sum.Overloaded {
		t.Error("one window is an overloaded machine")
	}
	short.addWindow(Window{LateMS: 60}, usage{}, usage{})
	if !short.sum.Overloaded {
		t.Error("a run of two windows that are both starved is no overloaded machine")
	}
}

// The time that this process takes is its own, and not that of other programs.
func TestUsageCountsThisProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	from := readUsage([]int{os.Getpid()}) // twice, as self and as a process of the run
	for to := from; to.ours < from.ours+0.2; to = readUsage([]int{os.Getpid()}) {
		if d := to.total - from.total; d > 120*float64(runtime.NumCPU()) {
			t.Fatalf("%v s used in %v s", to.ours-from.ours, d)
		}
	}
	if to := readUsage(nil); to.busy <= from.busy || to.total <= from.total {
		t.Errorf("%+v after %+v", to, from)
	}
}
