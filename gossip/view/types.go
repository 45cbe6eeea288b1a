// Package view is the pure core of membership: views, agreement on them, and the leases
// that rest on them. A Core is stepped by events on one thread; it owns no goroutine,
// clock, lock, socket or randomness.
package view

import (
	"fmt"
	"strconv"
	"strings"
)

// NodeID is one incarnation of a node: random, new at every start, never reused.
// The zero NodeID names no node.
type NodeID uint64

// String returns the id as 16 hexadecimal digits.
func (id NodeID) String() string { return fmt.Sprintf("%016x", uint64(id)) }

// MarshalText writes the id as String does: as a number it would lose digits in
// JSON.
func (id NodeID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (id *NodeID) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 16, 64)
	*id = NodeID(n)
	return err
}

// Epoch numbers the views of a cluster: generation<<32 | n. The zero Epoch is
// before every view.
type Epoch uint64

// Generation returns the part of e that an emergency takeover or the forming of
// a cluster opens anew.
func (e Epoch) Generation() uint32 { return uint32(e >> 32) }

// String returns generation.n.
func (e Epoch) String() string {
	return strconv.FormatUint(uint64(e.Generation()), 10) + "." + strconv.FormatUint(uint64(uint32(e)), 10)
}

// MarshalText writes the epoch as String does.
func (e Epoch) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (e *Epoch) UnmarshalText(text []byte) error {
	generation, n, _ := strings.Cut(string(text), ".")
	g, err := strconv.ParseUint(generation, 10, 32)
	if err != nil {
		return err
	}
	low, err := strconv.ParseUint(n, 10, 32)
	*e = Epoch(g<<32 | low)
	return err
}

// FirstEpoch returns the first epoch of a generation that a takeover opens.
func FirstEpoch(generation uint32) Epoch { return Epoch(generation)<<32 | 1 }

// FormingEpoch returns the first epoch of a cluster that is formed in a millisecond, 0 to
// 999, of a second: 2^21 views, one every half microsecond, may follow before the first
// epoch of the next millisecond.
func FormingEpoch(generation uint32, millisecond uint16) Epoch {
	return FirstEpoch(generation) | Epoch(min(millisecond, 999))<<21
}

// GenerationsAhead bounds how far the generation of a received term may lie above that of
// the receiver's view: more takeovers than a node can miss.
const GenerationsAhead = 1 << 16

// FarBeyond reports whether e cannot be the epoch of a view that follows one of epoch have
// soon, since its generation is more than GenerationsAhead above. A zero have is no view,
// and no epoch is far beyond it.
func (e Epoch) FarBeyond(have Epoch) bool {
	return have != 0 && uint64(e.Generation()) > uint64(have.Generation())+GenerationsAhead
}

// Status is a member's stage of membership. It never goes back: a node that finds itself
// in a view with an earlier status was removed in between.
type Status uint8

const (
	// Joining members hold the view and answer the leader; they neither vote nor hold a
	// lease.
	Joining Status = iota + 1
	// Up members vote and hold leases.
	Up
	// Leaving members still vote and hold leases; nothing new is placed on them.
	Leaving
)

// String returns the status in lower case.
func (s Status) String() string {
	switch s {
	case Joining:
		return "joining"
	case Up:
		return "up"
	case Leaving:
		return "leaving"
	}
	return "status(" + strconv.Itoa(int(s)) + ")"
}

// MarshalText writes the status as String does.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *Status) UnmarshalText(text []byte) error {
	for _, known := range []Status{Joining, Up, Leaving} {
		if known.String() == string(text) {
			*s = known
			return nil
		}
	}
	return fmt.Errorf("view: unknown status %q", text)
}

// Votes reports whether members of this status count in quorums and may hold
// leases: up and leaving ones.
func (s Status) Votes() bool { return s == Up || s == Leaving }

// Node is a node's description of itself, constant for one incarnation.
type Node struct {
	ID NodeID
	// Name is the stable label that survives restarts.
	Name string
	// Addr is the host:port at which the peer transport listens.
	Addr string
	// Roles is sorted and without duplicates.
	Roles []string
	// AppVersion orders releases of the application, "" if unset.
	AppVersion string
	// Metadata is the application's description of the node, for other nodes to read. It
	// must not be modified.
	Metadata map[string]string `json:",omitempty"`
}

// HasRole reports whether the node carries the role; every node carries "".
func (n *Node) HasRole(role string) bool {
	if role == "" {
		return true
	}
	for _, r := range n.Roles {
		if r == role {
			return true
		}
	}
	return false
}

// Member is a node in a view.
type Member struct {
	Node
	// Joined is the epoch of the view in which the member joined.
	Joined Epoch
	Status Status
}

// View is the agreed list of members. Views are immutable once published.
type View struct {
	// Cluster is drawn when a cluster forms; two clusters of one name differ in it.
	Cluster uint64
	// Origin is that of the data: the Cluster of the first in a line of clusters that
	// were formed one after the other on the same files. Files of one origin are merged;
	// files of different origins are not.
	Origin uint64
	Epoch  Epoch
	// Members are in order of seniority, the most senior first.
	Members []Member
	// Forks lists the emergency takeovers of the view's lineage, oldest first.
	Forks []Fork
	// Standing ranks the cluster among clusters of its name.
	Standing Standing
	// TokensFrom is the lowest generation of shard tokens: lower ones may lie below
	// tokens that another cluster or lineage has issued. 0 sets no bound.
	TokensFrom uint32
	// Foreign lists the contests with other clusters of the same name, sorted by cluster.
	Foreign []Foreign `json:",omitempty"`
	// Out lists the members of the previous view that this one leaves out, and why.
	Out []Departure `json:",omitempty"`
}

// Fork is one emergency takeover in the history of a view. Forks distinguish two lineages
// that meet after wrong evidence (lineage.go).
type Fork struct {
	// From is the epoch of the view that it continued, To the epoch that it opened.
	From, To Epoch
	// Kept is how many members of the view From it kept, By its leader.
	Kept int
	By   NodeID
}

// Member returns the entry of id, or nil.
func (v *View) Member(id NodeID) *Member {
	if v == nil {
		return nil
	}
	for i := range v.Members {
		if v.Members[i].ID == id {
			return &v.Members[i]
		}
	}
	return nil
}

// WithRole returns the voting members that carry the role, most senior first.
func (v *View) WithRole(role string) []Member {
	if v == nil {
		return nil
	}
	var out []Member
	for i := range v.Members {
		if v.Members[i].Status.Votes() && v.Members[i].HasRole(role) {
			out = append(out, v.Members[i])
		}
	}
	return out
}

// Oldest returns the most senior voting member that carries the role, or nil.
func (v *View) Oldest(role string) *Member {
	if v == nil {
		return nil
	}
	for i := range v.Members {
		if v.Members[i].Status.Votes() && v.Members[i].HasRole(role) {
			return &v.Members[i]
		}
	}
	return nil
}
