package coordinator

import (
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// viewChanged decides who is in office, applies the new view to
// shards and members, and admits the messages held for it. All consequences of a
// member's departure happen in this one step: its shards are placed again immediately.
func (c *Core) viewChanged(v *gossip.View) {
	if v == nil || c.view != nil && v.Epoch <= c.view.Epoch {
		return
	}
	old := c.view
	c.view = v
	c.presumed = protocol.Presumed(v, c.declined, c.presumed)
	if c.declined = nil; c.cfg.Mutant.Is("declined for good") {
		c.declined = slices.DeleteFunc(slices.Clone(c.presumed), func(d protocol.Decliner) bool { return d.Node == c.cfg.Self })
	}
	if early := v.Epoch <= c.cfg.DeclinedIn; early || c.refused || c.cfg.Reluctant {
		c.declined = append(c.declined, protocol.Decliner{Node: c.cfg.Self, Missing: early})
	}
	c.settleOffice()
	if c.term == v.Epoch {
		c.noteVoters(old)
	}
	if c.term != 0 {
		c.dropGone()
		c.widenCensus()
		c.dirty = true
	}
	held := c.held
	c.held = nil
	for _, r := range held {
		c.received(r)
	}
}

// standing records which candidates have declined: it may now be this node's turn.
func (c *Core) standing(ev Standing) {
	c.refused = ev.Refused
	if c.term != 0 && ev.Term > c.term && !c.far(c.cfg.Self, ev.Term, "Standing") {
		c.overtaken(ev.Term)
	}
	if c.view == nil || ev.View != c.view.Epoch {
		return
	}
	// The first value counts: a node does not change it within a view.
	c.declined = protocol.Presumed(c.view, c.declined, ev.Declined)
	c.settleOffice()
}

// settleOffice takes or leaves office according to the election. In another generation
// it takes office anew: the tokens given out before may have left no trace.
//
// A newer view collects declines afresh. Within a generation, a coordinator stays in office
// as long as the declines received so far, together with those of earlier views, elect it.
// Mostly the same nodes decline again. A new term at each view, with its read and its
// census, would cut moves short and delay allocations.
//
// Staying is safe. The term stays the one in which office was taken, so it has a single
// holder. If another node does take office under a higher term, this coordinator is
// merely stale: regions that have reported to the new one reject its orders, and the fence
// rejects its writes. Its own region reports the higher term (Standing.Term).
func (c *Core) settleOffice() {
	anew := c.term == 0 || c.term.Generation() != c.view.Epoch.Generation()
	switch {
	case c.elects(c.declined):
		if c.presumed = nil; anew {
			c.takeOffice()
		}
	case anew || !c.elects(protocol.Presumed(c.view, c.declined, c.presumed)):
		c.stepBack()
	}
}

// stepBack leaves office to the elected node. Members that have registered in this
// view would not look for the elected node until the next view. The elected node may be
// among them, unaware that all candidates have declined.
func (c *Core) stepBack() {
	for i := range c.view.Members {
		n := c.view.Members[i].ID
		if p := c.peers[n]; p != nil && p.registered && n != c.cfg.Self {
			c.sayDeclined(n)
		}
	}
	c.leaveOffice("another is elected")
}

// elects reports whether this node is to coordinate if these decline.
func (c *Core) elects(declined []protocol.Decliner) bool {
	return protocol.Elect(c.view, c.cfg.Role, declined...) == c.cfg.Self
}

// takeOffice begins a term: the fenced read and the census leave together. The
// term is the view's epoch; views have one coordinator each, so terms do.
func (c *Core) takeOffice() {
	term := c.view.Epoch
	if term < c.fenced || term <= c.lastTerm {
		return
	}
	c.leaveOffice("taken anew")
	c.term, c.lastTerm = term, term
	c.shards = make([]shard, c.cfg.Shards)
	c.peers = map[gossip.NodeID]*peer{}
	c.nextRebalance = c.now.Add(c.cfg.Rebalance)
	c.trace(TraceOffice, 0, c.termToken(), "")
	c.startCensus()
}

func (c *Core) leaveOffice(why string) {
	if c.term == 0 {
		return
	}
	c.trace(TraceOfficeLeft, 0, c.termToken(), why)
	c.office = office{}
}

// overtaken leaves office because a higher term is held, and takes it again if
// the present view allows a term above that.
func (c *Core) overtaken(higher gossip.Epoch) {
	c.fenced = max(c.fenced, higher)
	c.leaveOffice("fenced by " + higher.String())
	c.settleOffice()
}

// far refuses a term in a replicated record or a fence that no view can
// have reached. A term below that limit may belong to a view not yet received here.
func (c *Core) far(from gossip.NodeID, term gossip.Epoch, what string) bool {
	if c.view == nil || !term.FarBeyond(c.view.Epoch) {
		return false
	}
	c.trace(TraceFar, from, c.termToken(), what+" with the term "+term.String())
	return true
}

// drawn is the last token of the present term that was given out.
type drawn protocol.Token

// forged reports whether t is of the present term and was not given out in it: only this
// core draws tokens of its term. A region that obeyed a forged, higher token would leave
// its shard without a home.
func (d drawn) forged(t protocol.Token) bool { return t.Term == d.Term && t.Seq > d.Seq }

// forgedIn reports whether m names such a token.
func (d drawn) forgedIn(m protocol.Message) (found bool) {
	protocol.EachToken(m, func(t protocol.Token) { found = found || d.forged(t) })
	return found
}

// received holds early messages, rejects those from outside or with impossible
// terms, and dispatches the rest. A message with a term above this node's view that does
// not wait for a later view is forged. To obey it would leave the type without a
// coordinator until views have caught up with that term.
func (c *Core) received(r Received) {
	h := r.Msg.Header()
	if c.view == nil || h.View > c.view.Epoch {
		c.hold(r)
		return
	}
	if c.term == 0 {
		c.decline(r)
		return
	}
	if c.view.Member(r.From) == nil {
		c.trace(TraceStale, r.From, c.termToken(), protocol.Name(r.Msg)+" from outside the view")
		return
	}
	if newest := protocol.NewestTerm(r.Msg); newest > c.view.Epoch {
		c.trace(TraceFar, r.From, c.termToken(), protocol.Name(r.Msg)+" with the term "+newest.String())
		return
	}
	if h.Term > c.term {
		c.overtaken(h.Term)
		return
	}
	if (drawn{c.term, c.seq}).forgedIn(r.Msg) {
		c.trace(TraceFar, r.From, c.termToken(), protocol.Name(r.Msg)+" with a token that was not given out")
		return
	}
	c.dispatch(r.From, r.Msg)
}

// decline replies to regions that take this node for the coordinator: it is none in this
// view. It answers the messages that regions repeat until they have an answer.
func (c *Core) decline(r Received) {
	switch r.Msg.(type) {
	case *protocol.Register, *protocol.GetHome, *protocol.Drain, *protocol.Stopped:
		c.sayDeclined(r.From)
	}
}

func (c *Core) sayDeclined(to gossip.NodeID) {
	at := slices.IndexFunc(c.declined, func(d protocol.Decliner) bool { return d.Node == c.cfg.Self })
	if at >= 0 {
		c.send(to, &protocol.Declined{Head: c.head(), Missing: c.declined[at].Missing})
	}
}

const heldMax = 1024

// hold keeps a message until our view has caught up with its sender's: in a
// takeover, regions often receive the new view before the new coordinator does.
func (c *Core) hold(r Received) {
	if len(c.held) < heldMax {
		c.held = append(c.held, r)
	}
}

func (c *Core) dispatch(from gossip.NodeID, m protocol.Message) {
	switch m := m.(type) {
	case *protocol.Register:
		// A region that is registered under this term has received all published homes.
		if c.register(from, m.Hosts, &m.Settings, m.Term != c.term) {
			c.send(from, &protocol.RegisterAck{Head: c.head()})
		}
	case *protocol.GetHome:
		c.getHome(from, m)
	case *protocol.ShardsHosted:
		c.answered(from)
		c.shardsHosted(from, m)
	case *protocol.BeginAck:
		c.answered(from)
		c.beginAck(from, m.Shards)
	case *protocol.Stopped:
		c.stopped(from, m)
	case *protocol.CensusReport:
		c.answered(from)
		c.censusReport(from, m)
	case *protocol.Drain:
		c.drainRequest(from)
	case *protocol.Seen:
		c.answered(from)
	}
}
