package invariant

import (
	"time"

	"github.com/peerage-go/peerage/gossip/view"
)

// Durable checks S4: what was acknowledged at WriteMajority is in every
// ReadMajority that begins later and succeeds, unless more of the members that
// stood at the acknowledgement were lost since than a majority covers.
type Durable struct {
	acked []ackedWrite
}

type ackedWrite struct {
	word   string
	voters []view.NodeID
}

// Acked tells that a write was acknowledged while these members voted.
func (d *Durable) Acked(word string, voters []view.NodeID) {
	d.acked = append(d.acked, ackedWrite{word, voters})
}

// Missing returns a violation if a word that was ever acknowledged is not there: for words
// that a majority has stored on disks, when all nodes are back and equal.
func (d *Durable) Missing(at time.Duration, has func(string) bool) *Violation {
	for _, w := range d.acked {
		if !has(w.word) {
			return broken("S4", at, "%q, acknowledged on the disks of a majority of %d, is gone though all nodes are back", w.word, len(w.voters))
		}
	}
	return nil
}

// Begin tells that a read begins and returns what to hand to Read.
func (d *Durable) Begin() int { return len(d.acked) }

// Read tells that a read that began at begun succeeded. has says what it
// contained, present which nodes have stayed members without a break.
func (d *Durable) Read(at time.Duration, begun int, has func(string) bool, present func(view.NodeID) bool) *Violation {
	for _, w := range d.acked[:begun] {
		if has(w.word) {
			continue
		}
		lost := 0
		for _, id := range w.voters {
			if !present(id) {
				lost++
			}
		}
		if lost <= (len(w.voters)-1)/2 {
			return broken("S4", at, "a majority read misses %q, acknowledged with %d voters of which %d are lost", w.word, len(w.voters), lost)
		}
	}
	return nil
}
