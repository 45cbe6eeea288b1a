package terminal

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Pulse is a writer that is never silent for long: when nothing was written for an interval,
// it writes that the program still runs.
type Pulse struct {
	out   io.Writer
	every time.Duration
	began time.Time

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

// NewPulse returns a Pulse that writes to out. Stop ends it.
func NewPulse(out io.Writer, every time.Duration) *Pulse {
	p := &Pulse{out: out, every: every, began: time.Now()}
	p.timer = time.AfterFunc(every, p.beat)
	return p
}

// Write writes b and begins the interval anew.
func (p *Pulse) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopped {
		p.timer.Reset(p.every)
	}
	return p.out.Write(b)
}

func (p *Pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	fmt.Fprintf(p.out, "%7.2fs  still running\n", time.Since(p.began).Seconds())
	p.timer.Reset(p.every)
}

// Stop ends the pulse; Write still works.
func (p *Pulse) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.timer.Stop()
}
