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

// NameBytesMax is the most bytes that a view carries of a node's name.
const NameBytesMax = 256

// Limits of the contents of a view; the frame's size bounds the lists as well.
const (
	roleBytesMax     = 128
	metadataMax      = 64
	evidenceBytesMax = 64
	// foreignMax bounds the contests of a view, foreignNodesMax the nodes of each.
	foreignMax      = 8
	foreignNodesMax = 16
)

func codeView(p **SentView, c *wire.Coder) {
	kind := viewNone
	switch v := *p; {
	case v == nil:
	case v.change == nil:
		kind = viewWhole
	default:
		kind = viewChange
	}
	wire.Byte(c, "form of a view", &kind, viewChange)
	if kind == viewNone {
		return
	}
	if c.Reading() {
		*p = &SentView{View: &gossip.View{}}
		if kind == viewChange {
			(*p).change = &change{}
		}
	}
	c.Body("view", wire.NoLimit, (*p).codeFields)
}

func (v *SentView) codeFields(c *wire.Coder) {
	wire.U64(c, &v.Cluster)
	codeEpoch(&v.Epoch, c)
	if v.change != nil {
		v.change.codeFields(c)
	} else {
		codeMembers(&v.Members, c)
	}
	if c.Reading() && !v.possible() {
		c.Fail(ErrBadView)
		return
	}
	wire.Slice(c, "forks", &v.Forks, forksMax, codeFork)
	wire.U64(c, &v.Origin)
	codeStanding(&v.Standing, c)
	wire.Uvarint(c, &v.TokensFrom)
	wire.Bounded(c, "generation", &v.Least, leastMax)
	wire.Slice(c, "contests", &v.Foreign, foreignMax, codeForeign)
	wire.Slice(c, "departures", &v.Out, membersMax, codeDeparture)
}

// possible reports whether the view has an epoch, and distinct members or an earlier base.
func (v *SentView) possible() bool {
	if v.change != nil {
		return v.Epoch != 0 && v.change.base <= v.Epoch
	}
	return v.Epoch != 0 && distinct(v.Members)
}

func (d *change) codeFields(c *wire.Coder) {
	codeEpoch(&d.base, c)
	codeIDs(&d.gone, c)
	wire.Slice(c, "statuses", &d.other, wire.NoLimit, (*statusOf).codeFields)
	codeMembers(&d.added, c)
}

func (s *statusOf) codeFields(c *wire.Coder) {
	wire.U64(c, &s.id)
	codeStatus(&s.status, c)
}

func codeStatus(s *gossip.Status, c *wire.Coder) {
	wire.Bounded(c, "status", s, uint64(gossip.Leaving))
	if *s < gossip.Joining {
		c.Fail(&wire.LimitError{Field: "status", Declared: uint64(*s), Max: uint64(gossip.Leaving)})
	}
}

func codeMembers(ms *[]gossip.Member, c *wire.Coder) {
	wire.Slice(c, "members", ms, membersMax, codeMember)
}

func codeMember(m *gossip.Member, c *wire.Coder) {
	codeNode(&m.Node, c)
	codeEpoch(&m.Joined, c)
	codeStatus(&m.Status, c)
}

func codeNode(n *gossip.Node, c *wire.Coder) {
	c.Body("node", wire.NoLimit, func(c *wire.Coder) {
		wire.U64(c, &n.ID)
		c.String("name", &n.Name, NameBytesMax)
		c.String("address", &n.Addr, NameBytesMax)
		c.String("zone", &n.Zone, NameBytesMax)
		c.String("version", &n.AppVersion, NameBytesMax)
		c.Strings("roles", &n.Roles, wire.NoLimit, roleBytesMax)
		c.StringMap("metadata", &n.Metadata, metadataMax, roleBytesMax, NameBytesMax)
		wire.Uvarint(c, &n.WireOldest)
		wire.Uvarint(c, &n.WireNewest)
	})
}

func codeNodes(ns *[]gossip.Node, c *wire.Coder) {
	wire.Slice(c, "nodes", ns, foreignNodesMax, codeNode)
}

func codeFork(f *gossip.Fork, c *wire.Coder) {
	codeEpoch(&f.From, c)
	codeEpoch(&f.To, c)
	wire.Uvarint(c, &f.Kept)
	wire.U64(c, &f.By)
}

func codeStanding(s *gossip.Standing, c *wire.Coder) {
	wire.Bounded(c, "voters", &s.Size, membersMax)
	wire.Bounded(c, "voters", &s.Peak, membersMax)
	codeEpoch(&s.Birth, c)
}

func codeVerdict(v *gossip.Verdict, c *wire.Coder) {
	wire.Bounded(c, "verdict", v, uint64(gossip.VerdictYields))
}

func codeForeign(f *gossip.Contest, c *wire.Coder) {
	wire.U64(c, &f.Cluster)
	codeVerdict(&f.Verdict, c)
	wire.Bounded(c, "generation", &f.Generation, generationMax)
	codeNodes(&f.Nodes, c)
	if f.Verdict == 0 || f.Cluster == 0 {
		c.Fail(ErrBadView)
	}
}

func codeDeparture(d *gossip.Departure, c *wire.Coder) {
	wire.U64(c, &d.ID)
	wire.Bounded(c, "cause", &d.Cause, uint64(gossip.CauseAssumed))
	c.String("evidence", &d.Evidence, evidenceBytesMax)
}
