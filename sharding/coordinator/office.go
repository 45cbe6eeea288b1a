package coordinator

import (
	"slices"

	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/sharding/protocol"
)

// viewChanged settles who is in office, takes in what the new view means for
// shards and members, and lets in what waited for it. All that must happen when a
// member is gone happens in this one step: its shards are placed again at once.
func (c *Core) viewChanged(v *view.View) {
	if v == nil || c.view != nil && v.Epoch <= c.view.Epoch {
		return
	}
	old := c.view
	c.view = v
	if c.declined = without(c.declined, c.cfg.Self); !c.cfg.Mutant.Is("declined for good") {
		c.declined = nil
	}
	if c.refused || c.cfg.Reluctant || v.Epoch <= c.cfg.DeclinedIn {
		c.declined = addOnce(c.declined, c.cfg.Self)
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

// standing takes in who else has declined: it may be this node's turn.
func (c *Core) standing(ev Standing) {
	c.refused = ev.Refused
	if c.view == nil || ev.View != c.view.Epoch {
		return
	}
	for _, n := range ev.Declined {
		c.declined = addOnce(c.declined, n)
	}
	c.settleOffice()
}

// settleOffice takes office or leaves it, as the election says. In another generation
// it is taken anew: tokens given out before may be known to nobody.
func (c *Core) settleOffice() {
	elected := protocol.Elect(c.view, c.cfg.Role, c.declined...) == c.cfg.Self
	switch {
	case !elected:
		c.leaveOffice("another is elected")
	case c.term == 0 || c.term.Generation() != c.view.Epoch.Generation():
		c.takeOffice()
	}
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
	c.peers = map[view.NodeID]*peer{}
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
func (c *Core) overtaken(higher view.Epoch) {
	c.fenced = max(c.fenced, higher)
	c.leaveOffice("fenced by " + higher.String())
	c.settleOffice()
}

// received sorts out what comes too early or from outside, and dispatches.
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
	if h.Term > c.term {
		c.overtaken(h.Term)
		return
	}
	c.dispatch(r.From, r.Msg)
}

// decline tells who takes this node for the coordinator that it is none in this view.
func (c *Core) decline(r Received) {
	if _, is := r.Msg.(*protocol.Register); is && slices.Contains(c.declined, c.cfg.Self) {
		c.send(r.From, &protocol.Declined{Head: c.head()})
	}
}

const heldMax = 1024

// hold keeps a message until our view has caught up with its sender's: in a
// takeover regions often hear of the new view before the new coordinator does.
func (c *Core) hold(r Received) {
	if len(c.held) < heldMax {
		c.held = append(c.held, r)
	}
}

func (c *Core) dispatch(from view.NodeID, m protocol.Message) {
	switch m := m.(type) {
	case *protocol.Register:
		// A region that is registered under this term knows all that was published.
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
