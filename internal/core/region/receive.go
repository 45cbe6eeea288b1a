package region

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/assert"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// viewChanged finds the coordinator, ends the allocations of departed members, and admits
// waiting messages. The core answers every view with Register: that costs one message,
// and a coordinator that took office anew learns of proxies too.
func (c *Core) viewChanged(v *gossip.View) {
	if v == nil || c.view != nil && v.Epoch <= c.view.Epoch {
		return
	}
	c.view = v
	c.link.viewChanged()
	if c.nextResend == 0 {
		// Floors may have brought stops that must be reported.
		c.nextResend = c.now.Add(c.cfg.Resend)
	}
	c.routes.dropGone()
	c.link.registerAgain()
	c.routes.repeatAll()
	c.replay()
}

// registerRefused notes why we are not registered. The core keeps asking: the other node
// may be restarted with other settings.
func (c *Core) registerRefused(from gossip.NodeID, why protocol.Conflict) {
	c.link.tookOffice(from)
	if from != c.link.node {
		return
	}
	// A census counts as a registration; this overrides it.
	c.link.registered = false
	c.link.setFit(false)
	c.link.notRegistered(from, why)
}

// onAnswer notes that a node is in office as the elected coordinator, and sends a new one what
// its predecessor has not answered.
func (c *Core) onAnswer(from gossip.NodeID, h *protocol.Head) {
	if from == c.link.node && c.link.noteAnswer(h) {
		c.routes.repeatAll()
		c.hosts.reportStopped()
		c.drain.renewDrain()
	}
}

// onReceived holds early messages, rejects those from outside, the past or with impossible
// terms, and dispatches the rest. A node obeys an order only if it holds the coordinator's
// view or a later one: members removed in the coordinator's view are removed in its own.
func (c *Core) onReceived(r Received) {
	h := r.Msg.Header()
	switch m := r.Msg.(type) {
	// These order nothing, and their term may be none, or that of another role's
	// coordinator.
	case *protocol.Declined:
		c.link.hasDeclined(r.From, m)
		return
	case *protocol.RegisterRefused:
		c.registerRefused(r.From, m.Conflict)
		return
	}
	if c.view == nil || h.View > c.view.Epoch {
		c.holdEarly(r, "view")
		return
	}
	if c.view.Member(r.From) == nil {
		c.traceEvent(TraceNotMember, r.From, h.Stamp(), protocol.Name(r.Msg))
		return
	}
	if newest := protocol.NewestTerm(r.Msg); newest > c.view.Epoch {
		// No coordinator has drawn this term. Obeying it would end obedience to all real ones.
		c.traceEvent(TraceFar, r.From, protocol.Token{Term: c.floors.term}, protocol.Name(r.Msg)+" with the term "+newest.String())
		return
	}
	if h.Term < c.floors.term {
		c.refuseStale(r, h)
		return
	}
	if assert.Enabled {
		c.floors.assertTerm(h.Term)
	}
	c.raiseTerm(h.Term)
	if h.Probe {
		c.do(Send{To: r.From, Msg: &protocol.Seen{Head: c.answerHead(h)}})
	}
	c.dispatchMessage(r)
}

// refuseStale rejects a message of a replaced coordinator, and replies with the higher term.
func (c *Core) refuseStale(r Received, h *protocol.Head) {
	c.traceEvent(TraceStaleTerm, r.From, h.Stamp(), protocol.Name(r.Msg))
	switch r.Msg.(type) {
	case *protocol.HostShards, *protocol.Begin, *protocol.HandOff, *protocol.CensusRequest:
		c.do(Send{To: r.From, Msg: &protocol.Refused{Head: c.answerHead(h)}})
	}
}

// raiseTerm obeys a higher term from now on. It drops the starts that a lower term
// has ordered and that still wait for a stop.
func (c *Core) raiseTerm(term gossip.Epoch) {
	if term <= c.floors.term {
		return
	}
	c.floors.term = term
	for _, h := range c.hosts.list.usedShards() {
		if h.stop != nil {
			h.stop.next, h.stop.answers, h.stop.again.seq = nil, 0, 0
		}
	}
}

func (c *Core) dispatchMessage(r Received) {
	switch m := r.Msg.(type) {
	case *protocol.RegisterAck:
		c.link.tookOffice(r.From)
		if c.onAnswer(r.From, &m.Head); r.From == c.link.node {
			c.link.setFit(true)
		}
	case *protocol.Homes:
		c.routes.applyHomes(m, c.hosts.runsUnder)
	case *protocol.HostShards:
		if !c.lease || c.view.Member(c.cfg.Self) == nil {
			c.holdEarly(r, "lease")
			return
		}
		c.hosts.hostShards(r.From, m)
	case *protocol.Begin:
		c.routes.beginMove(r.From, m)
	case *protocol.HandOff:
		if !c.lease && c.hosts.hostsAny(m.Shards) {
			// The type's stop handler is user code: without a lease it must not run.
			c.holdEarly(r, "lease")
			return
		}
		c.hosts.handOff(r.From, m)
	case *protocol.StoppedAck:
		for _, st := range m.Shards {
			c.floors.confirmed(st.Shard, st.Token)
		}
	case *protocol.CensusRequest:
		c.census(r.From, m)
	case *protocol.Drained:
		c.drain.drained(r.From)
	}
}

// census reports the shards that live here. With the term raised, this node no longer
// starts or stops shards for a predecessor: the report stays true until the new
// coordinator, or the end of a lease, changes it. Shards that are starting count:
// a start cannot be called back.
func (c *Core) census(from gossip.NodeID, m *protocol.CensusRequest) {
	c.link.tookOffice(from)
	report := &protocol.CensusReport{Head: c.answerHead(&m.Head), Hosts: c.cfg.Hosts, Settings: c.link.settings()}
	for id, h := range c.hosts.list.usedShards() {
		if h.phase == none {
			continue
		}
		report.Claims = append(report.Claims, h.claim(id))
	}
	report.Held = c.states.heldStates(c.drain.last)
	c.traceEvent(TraceCensus, from, protocol.Token{Term: m.Term}, "")
	if c.drain.on && c.cfg.Hosts {
		// Register before the census ends; otherwise the first message might be a HostShards.
		c.do(Send{To: from, Msg: &protocol.Drain{Head: c.head()}})
	}
	c.do(Send{To: from, Msg: report})
	c.onAnswer(from, &m.Head)
}

const heldMax = 256

// holdEarly keeps a message until the view or the lease allows it. Beyond the bound, messages
// are dropped, and their coordinator retransmits them.
func (c *Core) holdEarly(r Received, missing string) {
	kind := TraceHeld
	if len(c.held) >= heldMax {
		kind = TraceHeldOver
	} else {
		c.held = append(c.held, r)
	}
	c.traceEvent(kind, r.From, r.Msg.Header().Stamp(), protocol.Name(r.Msg)+" waits for a "+missing)
}

func (c *Core) replay() {
	held := c.held
	c.held = nil
	for _, r := range held {
		c.onReceived(r)
	}
}
