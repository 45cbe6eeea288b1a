package invariant

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// Durable checks S4: every majority read that succeeds returns each write acknowledged at
// a majority before the read began, unless more of the members at that time were lost
// since than a majority covers. ReadIn checks a cluster that may part into lineages.
type Durable struct {
	acked []ackedWrite
}

// ackedWrite is a write that was acknowledged. in is the view that its writer held.
type ackedWrite struct {
	word   string
	voters []gossip.NodeID
	in     *gossip.View
}

// Acked records that a write was acknowledged while these members of a view voted.
func (d *Durable) Acked(word string, in *gossip.View, voters []gossip.NodeID) {
	d.acked = append(d.acked, ackedWrite{word, voters, in})
}

// Missing returns a violation if an acknowledged word is missing: for words that a
// majority has stored on disks, when all nodes are back and equal. Function setAside
// reports whether the host of a voter has set its file aside with the word, and does not
// hold the word again. A word may be missing only if a majority of its voters did so: fewer
// leave a disk that must hold it.
func (d *Durable) Missing(at time.Duration, has func(string) bool, setAside func(voter gossip.NodeID, word string) bool) *Violation {
	for _, w := range d.acked {
		if has(w.word) {
			continue
		}
		aside := 0
		for _, id := range w.voters {
			if setAside(id, w.word) {
				aside++
			}
		}
		if aside <= len(w.voters)/2 {
			return broken("S4", at, "%q, acknowledged on the disks of a majority of %d, is gone though all nodes are back, and %d have set their files aside", w.word, len(w.voters), aside)
		}
	}
	return nil
}

// Begin records that a read begins and returns the argument for Read.
func (d *Durable) Begin() int { return len(d.acked) }

// Read records that a read that began at begun succeeded. Function has reports its
// content, present the nodes that have stayed members without a break.
func (d *Durable) Read(at time.Duration, begun int, has func(string) bool, present func(gossip.NodeID) bool) *Violation {
	return d.ReadIn(at, begun, nil, has, present)
}

// ReadIn is Read at a member of its newest view, of a cluster that may part into lineages: a
// write counts if its view precedes that of the reader. All writes count if in is nil.
func (d *Durable) ReadIn(at time.Duration, begun int, in *gossip.View, has func(string) bool, present func(gossip.NodeID) bool) *Violation {
	for _, w := range d.acked[:begun] {
		if has(w.word) || in != nil && !Precedes(w.in, in) {
			continue
		}
		if Retains(w.voters, present) {
			return broken("S4", at, "a majority read misses %q, acknowledged with %d voters of which too few are lost", w.word, len(w.voters))
		}
	}
	return nil
}

// Retains reports whether what these voters have stored at majority must be in later reads at
// majority, given which of them have stayed members: fewer are lost than a majority covers.
func Retains(voters []gossip.NodeID, present func(gossip.NodeID) bool) bool {
	lost := 0
	for _, id := range voters {
		if !present(id) {
			lost++
		}
	}
	return lost <= (len(voters)-1)/2
}
