// Package trace records what happens in a run: a hash of all events, the newest lines for a
// report, and the names by which the lines call nodes, views and messages.
package trace

import (
	"fmt"
	"io"
	"strings"

	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// Trace folds every event of a run into one hash, and writes a line for each
// when there is a listener. Two runs of one seed must end with the same hash.
type Trace struct {
	hash   uint64
	events int
	out    io.Writer
	// tail keeps the newest lines for a failure report.
	tail []string
	keep int
}

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// New returns an empty Trace. It writes lines to out, if that is not nil, and keeps the newest
// ones.
func New(out io.Writer, keep int) Trace { return Trace{hash: fnvOffset, out: out, keep: keep} }

func (t *Trace) mixNumber(v uint64) {
	h := t.hash
	for range 4 {
		h = (h ^ v&0xffff) * fnvPrime
		v >>= 16
	}
	t.hash = h
}

func (t *Trace) mixString(s string) {
	h := t.hash
	for i := 0; i < len(s); i++ {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	t.hash = h
}

// Event records one event at a node, which is a label, or "" for an event of the run. It calls
// detail only when there is a listener.
func (t *Trace) Event(now virtual.Instant, node, kind string, num uint64, detail func() string) {
	t.events++
	t.mixNumber(uint64(now))
	t.mixString(node)
	t.mixString(kind)
	t.mixNumber(num)
	if t.out == nil && t.keep == 0 {
		return
	}
	text := ""
	if detail != nil {
		text = detail()
	}
	line := fmt.Sprintf("%10.3fms %-4s %-18s %s", float64(now)/1e6, node, kind, text)
	if t.out != nil {
		fmt.Fprintln(t.out, line)
	}
	if t.keep > 0 {
		t.tail = append(t.tail, line)
		if len(t.tail) > 2*t.keep {
			t.tail = append(t.tail[:0], t.tail[len(t.tail)-t.keep:]...)
		}
	}
}

// Hash returns the hash of all events.
func (t *Trace) Hash() uint64 { return t.hash }

// Events returns the number of events.
func (t *Trace) Events() int { return t.events }

// LastLines returns the newest lines.
func (t *Trace) LastLines() string {
	return strings.Join(t.tail[max(0, len(t.tail)-t.keep):], "\n")
}
