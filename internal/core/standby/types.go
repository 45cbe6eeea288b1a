package standby

import (
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// Mode decides when a change counts as kept. It is equal on all nodes.
type Mode uint8

const (
	// Quorum: when a majority of its holders has it.
	Quorum Mode = iota + 1
	// Async: the reply does not wait; changes not yet spread when the home dies are lost.
	Async
)

// ReplicasAll asks for a copy on every member of the role.
const ReplicasAll = 1 << 16

// Tag orders the states of one entity: by the token of the allocation under which
// the change was made, then by version. The zero Tag is before every state.
type Tag struct {
	Token protocol.Token
	// Version counts the changes of the entity, over all its homes.
	Version uint64
}

// Less reports whether t is before u.
func (t Tag) Less(u Tag) bool {
	if c := t.Token.Compare(u.Token); c != 0 {
		return c < 0
	}
	return t.Version < u.Version
}

// Copy is one entity's state. State is shared and never changed; nil is a state
// too: the entity has none.
type Copy struct {
	ID    string
	Tag   Tag
	State []byte
}

// copyBytes is what a copy costs beyond its id and state.
const copyBytes = 96

func (c *Copy) bytes() int { return copyBytes + len(c.ID) + len(c.State) }

// Layout lists the holders of a shard's copies. The zero Layout has none.
type Layout struct {
	// Token and Seq order layouts: Seq counts those of one token.
	Token protocol.Token
	Seq   uint64
	// Active: acknowledgements rest on Members alone.
	Active bool
	// Members hold copies, the owner first.
	Members []gossip.NodeID
	// Before are the sets on which acknowledgements may still rest besides Members
	// while the layout is not Active.
	Before [][]gossip.NodeID
}

// beforeMax bounds Layout.Before. It grows only when owner after owner dies before
// its layout became active; beyond it a collection needs the answer of all.
const beforeMax = 8

// IsZero reports whether l is no layout.
func (l *Layout) IsZero() bool { return len(l.Members) == 0 }

// newer reports whether l supersedes m.
func (l *Layout) newer(m *Layout) bool {
	if c := l.Token.Compare(m.Token); c != 0 {
		return c > 0
	}
	if l.Seq != m.Seq {
		return l.Seq > m.Seq
	}
	return l.Active && !m.Active
}

// sets returns the sets on which acknowledgements under l may rest.
func (l *Layout) sets() [][]gossip.NodeID {
	if l.IsZero() {
		return nil
	}
	sets := [][]gossip.NodeID{l.Members}
	if !l.Active {
		sets = append(sets, l.Before...)
	}
	return sets
}

// quorum returns how many of a set of n make a majority.
func quorum(n int) int { return n/2 + 1 }

// answersNeeded returns how many of a set of n must answer an owner, so that every quorum
// of the set has one among them. In Async mode, only the lost former home may
// be missing.
func answersNeeded(m Mode, n int) int {
	if m == Async {
		return max(n-1, 1)
	}
	return n - quorum(n) + 1
}

func countNodes(set []gossip.NodeID, has func(gossip.NodeID) bool) int {
	n := 0
	for _, id := range set {
		if has(id) {
			n++
		}
	}
	return n
}

func union(sets ...[]gossip.NodeID) []gossip.NodeID {
	var all []gossip.NodeID
	for _, s := range sets {
		all = append(all, s...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
