package view

import (
	"cmp"
	"fmt"

	"github.com/peerage-go/peerage/internal/wire"
)

// Standing ranks a cluster among clusters of the same name. It is part of every view, so
// all members agree on it, and from view to view it never falls. Of two clusters that
// meet, the one with the higher standing continues (foreign.go).
type Standing struct {
	// Size is the largest number of voters that answered when a contest began. It is 0 in
	// clusters whose nodes authenticate each other: there, Peak can be trusted.
	Size int
	// Peak is the largest number of voters that answered in one view. It does not fall
	// when members leave: the last of twenty holds the data of twenty.
	Peak int
	// Birth is the first epoch, as drawn when the cluster formed.
	Birth Epoch
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

// Foreign is an open contest with another cluster of the same name.
type Foreign struct {
	Cluster uint64
	Verdict Verdict
	// Nodes are some of the other cluster's members, with id, name and address only.
	Nodes []Node
}

// foreignMax bounds the contests of a view, foreignNodesMax the nodes of each.
const (
	foreignMax      = 8
	foreignNodesMax = 16
)

// Contest returns the view's contest with a cluster, nil if there is none.
func (v *View) Contest(cluster uint64) *Foreign {
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
func (v *View) Yields() *Foreign {
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

func (w *writer) putStanding(s Standing) *writer {
	return w.u(uint64(s.Size)).u(uint64(s.Peak)).u(uint64(s.Birth))
}

func (w *writer) putNodes(ns []Node) *writer {
	w.u(uint64(len(ns)))
	for i := range ns {
		w.putNode(&ns[i])
	}
	return w
}

func (w *writer) putForeign(fs []Foreign) *writer {
	w.u(uint64(len(fs)))
	for i := range fs {
		w.i(int64(fs[i].Cluster)).u(uint64(fs[i].Verdict)).putNodes(fs[i].Nodes)
	}
	return w
}

// Minimum sizes of list elements on the wire.
const (
	nodeBytesMin    = 8 + 1 + 1 + 1 + 1 + 1
	foreignBytesMin = idBytes + 1 + 1
)

func (r reader) readStanding() Standing {
	s := Standing{Size: r.readVoters(), Peak: r.readVoters()}
	s.Birth = r.readEpoch()
	return s
}

// readVoters reads a number of voters.
func (r reader) readVoters() int {
	n := r.Uvarint()
	if n > membersMax {
		r.Fail(&wire.LimitError{Field: "voters", Declared: n, Max: membersMax})
		return 0
	}
	return int(n)
}

func (r reader) readVerdict() Verdict {
	v := r.Uvarint()
	if v > uint64(VerdictYields) {
		r.Fail(&wire.LimitError{Field: "verdict", Declared: v, Max: uint64(VerdictYields)})
	}
	return Verdict(v)
}

func (r reader) readNodes() []Node {
	n := r.Count("nodes", nodeBytesMin)
	if n > foreignNodesMax {
		r.Fail(&wire.LimitError{Field: "nodes", Declared: uint64(n), Max: foreignNodesMax})
		return nil
	}
	var out []Node
	for range n {
		out = append(out, r.readNode())
	}
	return out
}

func (r reader) readForeign() []Foreign {
	n := r.Count("contests", foreignBytesMin)
	if n > foreignMax {
		r.Fail(&wire.LimitError{Field: "contests", Declared: uint64(n), Max: foreignMax})
		return nil
	}
	var out []Foreign
	for range n {
		f := Foreign{Cluster: r.U64(), Verdict: r.readVerdict(), Nodes: r.readNodes()}
		if f.Verdict == 0 || f.Cluster == 0 {
			r.Fail(ErrBadView)
			return nil
		}
		out = append(out, f)
	}
	return out
}
