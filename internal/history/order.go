package history

import (
	"fmt"

	"github.com/peerage-go/peerage/internal/clock"
)

// Inversion is a message that an entity handled after a later one, or twice.
type Inversion struct {
	Entity uint32
	Sender uint64
	// Before is the highest number handled earlier, At the message that was handled after
	// it.
	Before uint64
	At     Record
}

func (i Inversion) String() string {
	return fmt.Sprintf("entity %d: node %016x (token %d/%d) handled message %d of process %016x at %d, after its message %d",
		i.Entity, i.At.Node, i.At.Term, i.At.Seq, i.At.Value, i.Sender, i.At.Start, i.Before)
}

// When returns when the message was handled.
func (i Inversion) When() clock.Instant { return i.At.Start }

// Inversions returns the messages that were not handled in the order in which their
// process sent them, across the incarnations of that process and the instances of the
// entity. Gaps are allowed. The records must be sorted by Start.
func Inversions(records []Record) (out []Inversion) {
	type stream struct {
		entity uint32
		sender uint64
	}
	highest := map[stream]uint64{}
	for _, r := range records {
		if r.Op != Told {
			continue
		}
		s := stream{r.Entity, r.Sender}
		if before := highest[s]; r.Value <= before {
			out = append(out, Inversion{r.Entity, r.Sender, before, r})
			continue
		}
		highest[s] = r.Value
	}
	return out
}
