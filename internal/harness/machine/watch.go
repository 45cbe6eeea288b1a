package machine

import (
	"fmt"
	"sync"
	"time"
)

const (
	// tick is how often the watch looks at its timer, window over what time it sums up.
	tick   = 10 * time.Millisecond
	window = time.Second

	// lateMax is how late the timer of the harness may be. A node that waits as long for a
	// processor misses heartbeats and deadlines that it is built to keep.
	lateMax = 50 * time.Millisecond
	// stolenMax is the part of the processors that the host of this machine may take.
	stolenMax = 0.2
	// othersMax is the part that programs other than those of the run may take while the
	// processors are busy for busyMin of the time.
	othersMax = 0.25
	busyMin   = 0.95

	// A machine was overloaded if more than starvedMax windows of a run were starved, or more
	// than starvedPart of them and at least starvedMin.
	starvedMax  = 5
	starvedMin  = 2
	starvedPart = 0.1
)

// Window is what the watch saw in one second.
type Window struct {
	// At is the end of the window, from the begin of the watch.
	AtMS float64 `json:"at_ms"`
	// LateMS is how late the timer of the harness was at the worst moment.
	LateMS float64 `json:"late_ms"`
	// The parts of the processors: that the run used, that other programs used, and that the
	// host of this machine took. 0 where the system does not report them.
	Ours   float64 `json:"ours"`
	Others float64 `json:"others"`
	Stolen float64 `json:"stolen"`
}

// beyondBounds reports whether the processes of the run may have waited too long for a processor.
func (w *Window) beyondBounds() bool {
	return w.LateMS > float64(lateMax.Milliseconds()) || w.Stolen > stolenMax ||
		w.Others > othersMax && w.Ours+w.Others+w.Stolen > busyMin
}

// Summary is what a watch has seen.
type Summary struct {
	Windows int `json:"windows"`
	// Starved counts the windows in which the timer was late by more than 50 ms, the host took
	// more than a fifth of the processors, or other programs took more than a quarter of the
	// busy processors. Overloaded is set beyond 5 of them, and for two
	// or more that are more than a tenth of all.
	Starved    int  `json:"starved"`
	Overloaded bool `json:"overloaded"`
	// LateMaxMS is how late the timer was at the worst moment.
	LateMaxMS float64 `json:"late_max_ms"`
	// The parts of the processors over the whole run.
	Ours   float64 `json:"ours"`
	Others float64 `json:"others"`
	Stolen float64 `json:"stolen"`
	// Worst are windows that were starved, at most 20.
	Worst []Window `json:"worst,omitempty"`
}

// worstShown bounds Summary.Worst.
const worstShown = 20

// String words the summary.
func (s Summary) String() string {
	return fmt.Sprintf("%d of %d seconds starved; processors: %.0f %% by the run, %.0f %% by other programs, %.0f %% stolen; the harness was late by up to %.0f ms",
		s.Starved, s.Windows, 100*s.Ours, 100*s.Others, 100*s.Stolen, s.LateMaxMS)
}

// Watch looks at the machine until Stop.
type Watch struct {
	pids func() []int
	read func(pids []int) usage
	stop chan struct{}
	done sync.WaitGroup
	sum  Summary
}

// Start begins a watch. Pids returns the processes of the run that live, besides this one.
func Start(pids func() []int) *Watch {
	w := &Watch{pids: pids, read: readUsage, stop: make(chan struct{})}
	w.done.Go(w.watchMachine)
	return w
}

// Stop ends the watch and returns what it has seen.
func (w *Watch) Stop() Summary {
	close(w.stop)
	w.done.Wait()
	return w.sum
}

func (w *Watch) watchMachine() {
	began := time.Now()
	last, from := began, w.read(w.pids())
	first := from
	windowEnd, late := began.Add(window), time.Duration(0)
	timer := time.NewTimer(tick)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-w.stop:
			return
		}
		now := time.Now()
		late = max(late, now.Sub(last)-tick)
		if !now.Before(windowEnd) {
			to := w.read(w.pids())
			w.addWindow(Window{AtMS: float64(now.Sub(began).Milliseconds()), LateMS: float64(late.Milliseconds())}, from, to)
			w.sum.Ours, w.sum.Others, w.sum.Stolen = to.partsSince(first)
			from, windowEnd, late = to, now.Add(window), 0
		}
		last = time.Now() // reading takes time of its own
		timer.Reset(tick)
	}
}

// addWindow adds a window to the sums.
func (w *Watch) addWindow(win Window, from, to usage) {
	win.Ours, win.Others, win.Stolen = to.partsSince(from)
	s := &w.sum
	s.Windows++
	s.LateMaxMS = max(s.LateMaxMS, win.LateMS)
	if win.beyondBounds() {
		if s.Starved++; len(s.Worst) < worstShown {
			s.Worst = append(s.Worst, win)
		}
	}
	s.Overloaded = s.Starved > starvedMax || s.Starved >= starvedMin && float64(s.Starved) > starvedPart*float64(s.Windows)
}

// ProcessorSeconds returns the processor time of this process, of its children that have ended,
// and of the processes pids, since some origin; 0 where it cannot be measured.
func ProcessorSeconds(pids ...int) float64 { return readUsage(pids).ours }
