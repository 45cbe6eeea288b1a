package gossip

import (
	"cmp"
	"fmt"
	"math"
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

// Generation returns the upper part of e. An emergency takeover and the forming of a cluster
// open a new generation; an ordinary change of the view stays in its generation.
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

// FirstEpoch returns the first epoch of a generation that a view opens in order.
func FirstEpoch(generation uint32) Epoch { return Epoch(generation)<<32 | 1 }

// TakeoverEpoch returns the first epoch of a generation that an emergency takeover opens. It
// lies above FirstEpoch and the 65,535 views after it: a leader that has died may have opened
// the same generation in order, and no living member has learned of it.
func TakeoverEpoch(generation uint32) Epoch { return FirstEpoch(generation) | 1<<16 }

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
	return fmt.Errorf("gossip: unknown status %q", text)
}

// Votes reports whether members of this status count in quorums and may hold
// leases: up and leaving ones.
func (s Status) Votes() bool { return s == Up || s == Leaving }

// Node is a node's description of itself, constant for one incarnation.
type Node struct {
	ID NodeID `json:"id"`
	// Name is the stable label that survives restarts.
	Name string `json:"name"`
	// Addr is the host:port at which the peer transport listens.
	Addr string `json:"addr"`
	// Roles is sorted and without duplicates.
	Roles []string `json:"roles,omitempty"`
	// Zone is the part of the data centre that fails as a whole with this node, "" if unset.
	Zone string `json:"zone,omitempty"`
	// AppVersion orders releases of the application, "" if unset.
	AppVersion string `json:"app_version,omitempty"`
	// Metadata is the application's description of the node, for other nodes to read. It
	// must not be modified.
	Metadata map[string]string `json:"metadata,omitempty"`
	// WireOldest and WireNewest are the lowest and the highest wire version that the node
	// speaks.
	WireOldest uint16 `json:"wire_oldest,omitempty"`
	WireNewest uint16 `json:"wire_newest,omitempty"`
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
	Joined Epoch  `json:"joined"`
	Status Status `json:"status"`
}

// View is the agreed list of members. Views are immutable once published.
type View struct {
	// Cluster is drawn when a cluster forms; two clusters of one name differ in it.
	Cluster uint64 `json:"cluster,string"`
	// Origin is that of the data: the Cluster of the first in a line of clusters that
	// were formed one after the other on the same files. Files of one origin are merged;
	// files of different origins are not.
	Origin uint64 `json:"origin,string"`
	Epoch  Epoch  `json:"epoch"`
	// Members are in order of seniority, the most senior first.
	Members []Member `json:"members"`
	// Forks lists the emergency takeovers of the view's lineage, oldest first.
	Forks []Fork `json:"forks,omitempty"`
	// Standing ranks the cluster among clusters of its name.
	Standing Standing `json:"standing"`
	// TokensFrom is the lowest generation of shard tokens: lower ones may lie below
	// tokens that another cluster or lineage has issued. 0 sets no bound.
	TokensFrom uint32 `json:"tokens_from,omitempty"`
	// Least is the generation that the cluster opens next, because the file of a node that
	// joins demands it; 0 if none does. It is opened once every voter holds this view, so a
	// voter that takes over meanwhile opens no lower one.
	Least uint32 `json:"least,omitempty"`
	// Foreign lists the contests with other clusters of the same name, sorted by cluster.
	Foreign []Contest `json:"foreign,omitempty"`
	// Out lists the members of the previous view that this one leaves out, and why.
	Out []Departure `json:"out,omitempty"`
}

// Fork is one emergency takeover in the history of a view. Forks distinguish two lineages
// that meet after wrong evidence.
type Fork struct {
	// From is the epoch of the view that it continued, To the epoch that it opened.
	From Epoch `json:"from"`
	To   Epoch `json:"to"`
	// Kept is how many members of the view From it kept, By its leader.
	Kept int    `json:"kept"`
	By   NodeID `json:"by"`
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

// WireVersions returns the range of wire versions that all members speak, 0 and 0 without
// members. What all nodes must understand may be sent if its version is at most newest. A
// later view may have a lower newest version, as long as the release before is still
// allowed to join.
func (v *View) WireVersions() (oldest, newest uint16) {
	if v == nil || len(v.Members) == 0 {
		return 0, 0
	}
	newest = math.MaxUint16
	for i := range v.Members {
		oldest, newest = max(oldest, v.Members[i].WireOldest), min(newest, v.Members[i].WireNewest)
	}
	return oldest, newest
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

// Standing ranks a cluster among clusters of the same name. It is part of every view, so
// all members agree on it, and from view to view it never falls. Of two clusters that
// meet, the one with the higher standing continues.
type Standing struct {
	// Size is the largest number of voters that answered when a contest began. It is 0 in
	// clusters whose nodes authenticate each other: there, Peak can be trusted.
	Size int `json:"size,omitempty"`
	// Peak is the largest number of voters that answered in one view. It does not fall
	// when members leave: the last of twenty holds the data of twenty.
	Peak int `json:"peak"`
	// Birth is the first epoch, as drawn when the cluster formed.
	Birth Epoch `json:"birth"`
}

// Above reports whether s of cluster own ranks above o of cluster other: by size, then by
// peak, then by age, and last by id, so that any two differ.
func (s Standing) Above(own uint64, o Standing, other uint64) bool {
	return cmp.Or(cmp.Compare(s.Size, o.Size), cmp.Compare(s.Peak, o.Peak),
		cmp.Compare(o.Birth, s.Birth), cmp.Compare(own, other)) > 0
}

// String returns the standing for logs.
func (s Standing) String() string {
	if s.Size > 0 {
		return fmt.Sprintf("%d voters, at most %d at a time, formed in %v", s.Size, s.Peak, s.Birth)
	}
	return fmt.Sprintf("at most %d voters at a time, formed in %v", s.Peak, s.Birth)
}

// Verdict is the state of a contest with another cluster of the same name.
type Verdict uint8

const (
	// VerdictContested: the clusters have met; the standing is frozen.
	VerdictContested Verdict = iota + 1
	// VerdictStands: this cluster continues, and never yields to the other one.
	VerdictStands
	// VerdictYields: this cluster ends, and its nodes join the other one.
	VerdictYields
)

// String returns the verdict in lower case.
func (v Verdict) String() string {
	switch v {
	case VerdictContested:
		return "contested"
	case VerdictStands:
		return "stands"
	case VerdictYields:
		return "yields"
	}
	return fmt.Sprintf("verdict(%d)", uint8(v))
}

// MarshalText writes the verdict as String does.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (v *Verdict) UnmarshalText(text []byte) error {
	for known := VerdictContested; known <= VerdictYields; known++ {
		if known.String() == string(text) {
			*v = known
			return nil
		}
	}
	return fmt.Errorf("gossip: unknown verdict %q", text)
}

// Contest is an open contest with another cluster of the same name.
type Contest struct {
	Cluster uint64  `json:"cluster,string"`
	Verdict Verdict `json:"verdict"`
	// Generation is the highest that the other cluster can reach without new members, as its
	// offer said when this cluster decided to stand over it; 0 before. This cluster opens a
	// higher one when the contest ends, and so does a takeover by any member that holds the view.
	Generation uint32 `json:"generation"`
	// Nodes are some of the other cluster's members, with id, name and address only.
	Nodes []Node `json:"nodes"`
}

// Contest returns the view's contest with a cluster, nil if there is none.
func (v *View) Contest(cluster uint64) *Contest {
	if v == nil {
		return nil
	}
	for i := range v.Foreign {
		if v.Foreign[i].Cluster == cluster {
			return &v.Foreign[i]
		}
	}
	return nil
}

// Yields returns the contest in which the view's cluster has yielded, nil if in none.
func (v *View) Yields() *Contest {
	if v == nil {
		return nil
	}
	for i := range v.Foreign {
		if v.Foreign[i].Verdict == VerdictYields {
			return &v.Foreign[i]
		}
	}
	return nil
}
