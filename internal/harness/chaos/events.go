package chaos

import (
	"slices"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/history"
)

// Event is the first time in a round that something happened, for a mark on the timeline.
type Event struct {
	Round int `json:"round"`
	// An element of EventNames.
	What string  `json:"what"`
	AtMS float64 `json:"at_ms"`
}

// The events of a round: a process was released or its network was healed; a member had evidence that
// a hurt process is dead; a member adopted a view without it; the first of its counters had an instance
// elsewhere; the first of them was answered.
const (
	eventHealed   = "healed"
	eventDetected = "detected"
	eventView     = "new view"
	eventHome     = "new home"
	eventAnswered = "answered"
)

// EventNames are the names of all events, in the order in which they usually follow each other.
func EventNames() []string {
	return []string{eventDetected, eventView, eventHome, eventAnswered, eventHealed}
}

// markEvents fills the events of all rounds.
func (r *Report) markEvents(c *campaign, records []history.Record) {
	if c.calmFrom == 0 {
		return
	}
	for i := range c.faults.Rounds {
		at := c.eventsOf(i, records)
		for _, what := range EventNames() {
			if t, happened := at[what]; happened {
				r.Events = append(r.Events, Event{c.faults.Rounds[i].Number, what, harness.Milliseconds(t.Sub(c.calmFrom))})
			}
		}
	}
}

// eventsOf returns when the events of round i happened.
func (c *campaign) eventsOf(i int, records []history.Record) map[string]clock.Instant {
	ro, in := &c.faults.Rounds[i], c.watched(i)
	around := during(records, history.Span{From: in.From.Add(-lookBack), To: in.To})
	at := map[string]clock.Instant{}
	for _, rec := range around { // sorted by start
		if rec.Start.Before(in.From) || slices.Contains(ro.Nodes, rec.Node) || !slices.Contains(ro.Nodes, rec.Sender) {
			continue
		}
		switch rec.Op {
		case history.Suspected:
			first(at, eventDetected, rec.Start)
		case history.Excluded:
			first(at, eventView, rec.Start)
		}
	}
	if ro.Kind.Kills() {
		for _, m := range failoversIn(around, ro.Nodes, in) {
			keepEarlier(at, eventHome, m[2])
			keepEarlier(at, eventAnswered, m[4])
		}
	}
	switch {
	case ro.HeldTo != 0:
		at[eventHealed] = ro.HeldTo
	case ro.HeldMS > 0: // cut off since the round began
		at[eventHealed] = min(ro.From.Add(time.Duration(ro.HeldMS*float64(time.Millisecond))), ro.To)
	}
	return at
}

func keepEarlier(m map[string]clock.Instant, what string, at clock.Instant) {
	if known, found := m[what]; !found || at.Before(known) {
		m[what] = at
	}
}
