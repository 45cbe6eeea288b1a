package view

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/wire"
)

// foreignMax bounds the contests of a view, foreignNodesMax the nodes of each.
const (
	foreignMax      = 8
	foreignNodesMax = 16
)

func (w *writer) putStanding(s gossip.Standing) *writer {
	return w.u(uint64(s.Size)).u(uint64(s.Peak)).u(uint64(s.Birth))
}

func (w *writer) putNodes(ns []gossip.Node) *writer {
	w.u(uint64(len(ns)))
	for i := range ns {
		w.putNode(&ns[i])
	}
	return w
}

func (w *writer) putForeign(fs []gossip.Foreign) *writer {
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

func (r reader) readStanding() gossip.Standing {
	s := gossip.Standing{Size: r.readVoters(), Peak: r.readVoters()}
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

func (r reader) readVerdict() gossip.Verdict {
	v := r.Uvarint()
	if v > uint64(gossip.VerdictYields) {
		r.Fail(&wire.LimitError{Field: "verdict", Declared: v, Max: uint64(gossip.VerdictYields)})
	}
	return gossip.Verdict(v)
}

func (r reader) readNodes() []gossip.Node {
	n := r.Count("nodes", nodeBytesMin)
	if n > foreignNodesMax {
		r.Fail(&wire.LimitError{Field: "nodes", Declared: uint64(n), Max: foreignNodesMax})
		return nil
	}
	var out []gossip.Node
	for range n {
		out = append(out, r.readNode())
	}
	return out
}

func (r reader) readForeign() []gossip.Foreign {
	n := r.Count("contests", foreignBytesMin)
	if n > foreignMax {
		r.Fail(&wire.LimitError{Field: "contests", Declared: uint64(n), Max: foreignMax})
		return nil
	}
	var out []gossip.Foreign
	for range n {
		f := gossip.Foreign{Cluster: r.U64(), Verdict: r.readVerdict(), Nodes: r.readNodes()}
		if f.Verdict == 0 || f.Cluster == 0 {
			r.Fail(ErrBadView)
			return nil
		}
		out = append(out, f)
	}
	return out
}
