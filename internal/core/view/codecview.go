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
