package history

import (
	"fmt"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
)

// stream is the reliable messages of one process to one entity, numbered from 1.
type stream struct {
	entity uint32
	sender uint64
}

func (r *Record) stream() stream { return stream{r.Entity, r.Sender} }

// message is one reliable message.
type message struct {
	stream
	number uint64
}

// Rerun is a run of a reliable message that is not above the run before it in its stream:
// the message was handled twice, or after a later one.
type Rerun struct{ Before, At Record }

func (r Rerun) String() string {
	return fmt.Sprintf("entity %d: node %016x (token %d/%d) handled reliable message %d of process %016x at %d, after node %016x (token %d/%d) had handled its message %d at %d",
		r.At.Entity, r.At.Node, r.At.Term, r.At.Seq, r.At.Value, r.At.Sender, r.At.Start, r.Before.Node, r.Before.Term, r.Before.Seq, r.Before.Value, r.Before.Start)
}

// When returns when the later of the two runs began.
func (r Rerun) When() clock.Instant { return r.At.Start }

// Reruns returns the runs of reliable messages that are not above the run before them. A
// shard that loses its memory with its home may run messages again, so a span of rough
// between the two runs excuses the later one. Checked counts the runs. The records must be
// sorted by Start.
func Reruns(records []Record, rough []Span) (out []Rerun, checked int) {
	last := map[stream]Record{}
	for _, r := range records {
		if r.Op != Delivered {
			continue
		}
		checked++
		before, found := last[r.stream()]
		if found && r.Value <= before.Value && !touched(rough, before.Start, r.Start) {
			out = append(out, Rerun{before, r})
		}
		last[r.stream()] = r
	}
	return out, checked
}

// Omission is a reliable message that was not handled when it had to have been.
type Omission struct {
	// Number is the message.
	Number uint64
	// Found shows that the message was left out: the run of a later one, or its confirmation.
	Found Record
}

func (o Omission) String() string {
	what := fmt.Sprintf("entity %d: reliable message %d of process %016x", o.Found.Entity, o.Number, o.Found.Sender)
	if o.Found.Op == Confirmed {
		return fmt.Sprintf("%s was confirmed at %d, and had not been handled", what, o.Found.Start)
	}
	return fmt.Sprintf("%s had not been handled when node %016x (token %d/%d) handled its message %d at %d",
		what, o.Found.Node, o.Found.Term, o.Found.Seq, o.Found.Value, o.Found.Start)
}

// When returns when the message had to have been handled.
func (o Omission) When() clock.Instant { return o.Found.Start }

// Omissions returns the reliable messages that were left out: the first run of each message
// lies behind the first runs of all earlier ones of its stream, and before its confirmation.
// Nothing excuses an omission. Checked counts the confirmations. The records must be sorted
// by Start.
func Omissions(records []Record) (out []Omission, checked int) {
	handled := map[message]bool{}
	highest := map[stream]uint64{}
	for _, r := range records {
		if r.Op != Delivered {
			continue
		}
		if next := highest[r.stream()] + 1; r.Value > next {
			out = append(out, Omission{next, r})
		}
		highest[r.stream()] = max(highest[r.stream()], r.Value)
	}
	for i := 0; i < len(records); {
		// The runs of an instant come before its confirmations.
		end := i
		for ; end < len(records) && records[end].Start == records[i].Start; end++ {
			if r := records[end]; r.Op == Delivered {
				handled[message{r.stream(), r.Value}] = true
			}
		}
		for ; i < end; i++ {
			if r := records[i]; r.Op == Confirmed {
				if checked++; !handled[message{r.stream(), r.Value}] {
					out = append(out, Omission{r.Value, r})
				}
			}
		}
	}
	return out, checked
}

// Delay is a reliable message that waited too long for its confirmation, in times without
// a fault.
type Delay struct {
	Message Record
	// Until is when the message was confirmed, or when its process is last known to have
	// lived. Calm is how much of the wait lay outside of faults.
	Until clock.Instant
	Calm  time.Duration
}

func (d Delay) String() string {
	return fmt.Sprintf("entity %d: reliable message %d of process %016x was accepted at %d, and not confirmed until %d: %v of that lay outside of faults",
		d.Message.Entity, d.Message.Value, d.Message.Sender, d.Message.End, d.Until, d.Calm)
}

// When returns when the message was accepted.
func (d Delay) When() clock.Instant { return d.Message.Start }

// Delays returns the reliable messages that waited longer than most for their confirmation.
// Only the time within in and outside of faults counts, and only until the last sign of life
// of the process that sent the message: its end takes what it has not had confirmed. Checked
// counts the accepted messages. The faults must not overlap.
func Delays(records []Record, faults []Span, in Span, most time.Duration) (out []Delay, checked int) {
	confirmed := map[message]clock.Instant{}
	alive := map[uint64]clock.Instant{}
	for _, r := range records {
		switch r.Op {
		case Accepted:
			alive[r.Sender] = max(alive[r.Sender], r.End)
		case Confirmed:
			alive[r.Sender] = max(alive[r.Sender], r.Start)
			m := message{r.stream(), r.Value}
			if at, found := confirmed[m]; !found || r.Start.Before(at) {
				confirmed[m] = r.Start
			}
		}
	}
	for _, r := range records {
		if r.Op != Accepted {
			continue
		}
		checked++
		until, found := confirmed[message{r.stream(), r.Value}]
		if !found {
			until = alive[r.Sender]
		}
		calm := calmWithin(faults, max(r.End, in.From), min(until, in.To))
		if calm > most {
			out = append(out, Delay{r, until, calm})
		}
	}
	return out, checked
}

// calmWithin returns how much of a time lies outside of faults.
func calmWithin(faults []Span, from, to clock.Instant) time.Duration {
	if !from.Before(to) {
		return 0
	}
	calm := to.Sub(from)
	for _, f := range faults {
		if f.touches(from, to) {
			calm -= min(f.To, to).Sub(max(f.From, from))
		}
	}
	return calm
}
