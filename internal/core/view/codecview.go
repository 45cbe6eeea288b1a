package view

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/wire"
)

// How a frame represents a view: none, whole, or as a change of another (diff.go).
const (
	viewNone byte = iota
	viewWhole
	viewChange
)

func (w *writer) putView(v *SentView) *writer {
	switch {
	case v == nil:
		w.b = append(w.b, viewNone)
		return w
	case v.change == nil:
		w.b = append(w.b, viewWhole)
		w.i(int64(v.Cluster)).u(uint64(v.Epoch)).putMembers(v.Members)
	default:
		w.b = append(w.b, viewChange)
		d := v.change
		w.i(int64(v.Cluster)).u(uint64(v.Epoch)).u(uint64(d.base)).putIDs(d.gone).u(uint64(len(d.other)))
		for _, s := range d.other {
			w.id(s.id).u(uint64(s.status))
		}
		w.putMembers(d.added)
	}
	w.u(uint64(len(v.Forks)))
	for _, f := range v.Forks {
		w.u(uint64(f.From)).u(uint64(f.To)).u(uint64(f.Kept)).id(f.By)
	}
	return w.i(int64(v.Origin)).putStanding(v.Standing).u(uint64(v.TokensFrom)).putForeign(v.Foreign).putDepartures(v.Out)
}

func (w *writer) putMembers(ms []gossip.Member) *writer {
	w.u(uint64(len(ms)))
	for i := range ms {
		w.putNode(&ms[i].Node).u(uint64(ms[i].Joined)).u(uint64(ms[i].Status))
	}
	return w
}

func (r reader) readView() *SentView {
	v := &SentView{View: &gossip.View{}}
	switch kind := r.Byte(); kind {
	case viewNone:
		return nil
	case viewWhole:
		v.Cluster, v.Epoch, v.Members = r.U64(), r.readEpoch(), r.readMembers()
		if v.Epoch == 0 || !distinct(v.Members) {
			r.Fail(ErrBadView)
			return nil
		}
	case viewChange:
		v.Cluster, v.Epoch = r.U64(), r.readEpoch()
		v.change = r.readChange()
		if v.Epoch == 0 || v.change == nil || v.change.base > v.Epoch {
			r.Fail(ErrBadView)
			return nil
		}
	default:
		r.Fail(ErrBadView)
		return nil
	}
	v.Forks, v.Origin, v.Standing, v.TokensFrom, v.Foreign, v.Out = r.readForks(), r.U64(), r.readStanding(), uint32(r.Uvarint()), r.readForeign(), r.readDepartures()
	return v
}

// statusBytesMin is the minimum size of a member's new status.
const statusBytesMin = idBytes + 1

func (r reader) readChange() *change {
	d := &change{base: r.readEpoch(), gone: r.readIDs()}
	for range r.Count("statuses", statusBytesMin) {
		d.other = append(d.other, statusOf{r.id(), r.readStatus()})
	}
	if d.added = r.readMembers(); len(d.added) == 0 {
		d.added = nil
	}
	return d
}

func (r reader) readStatus() gossip.Status {
	s := gossip.Status(r.Uvarint())
	if s < gossip.Joining || s > gossip.Leaving {
		r.Fail(&wire.LimitError{Field: "status", Declared: uint64(s), Max: uint64(gossip.Leaving)})
	}
	return s
}

func (r reader) readMembers() []gossip.Member {
	n := r.Count("members", memberBytesMin)
	if n > membersMax {
		r.Fail(&wire.LimitError{Field: "members", Declared: uint64(n), Max: membersMax})
		return nil
	}
	out := make([]gossip.Member, 0, n)
	for range n {
		out = append(out, gossip.Member{Node: r.readNode(), Joined: r.readEpoch(), Status: r.readStatus()})
		if r.Err() != nil {
			return nil
		}
	}
	return out
}

func (r reader) readForks() []gossip.Fork {
	n := r.Count("forks", forkBytesMin)
	if n > forksMax {
		r.Fail(&wire.LimitError{Field: "forks", Declared: uint64(n), Max: forksMax})
		return nil
	}
	var out []gossip.Fork
	for range n {
		out = append(out, gossip.Fork{From: r.readEpoch(), To: r.readEpoch(), Kept: int(r.Uvarint()), By: r.id()})
	}
	return out
}

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

// evidenceBytesMax bounds Departure.Evidence.
const evidenceBytesMax = 64

func (w *writer) putDepartures(out []gossip.Departure) *writer {
	w.u(uint64(len(out)))
	for _, d := range out {
		w.id(d.ID).u(uint64(d.Cause)).str(d.Evidence)
	}
	return w
}

// departureBytesMin is the minimum size of a departure on the wire.
const departureBytesMin = idBytes + 2

func (r reader) readDepartures() []gossip.Departure {
	n := r.Count("departures", departureBytesMin)
	if n > membersMax {
		r.Fail(ErrBadView)
		return nil
	}
	var out []gossip.Departure
	for range n {
		d := gossip.Departure{ID: r.id(), Cause: gossip.Cause(min(r.Uvarint(), uint64(gossip.CauseAssumed+1))), Evidence: r.String("evidence", evidenceBytesMax)}
		if d.Cause > gossip.CauseAssumed {
			r.Fail(ErrBadView)
			return nil
		}
		out = append(out, d)
	}
	return out
}
