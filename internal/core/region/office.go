package region

import (
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// link is a region's state about the coordinator that the view elects.
type link struct {
	// node is zero when the view elects no coordinator.
	node gossip.NodeID
	// term is the one under which we are registered, zero if none.
	term       gossip.Epoch
	registered bool
	// refused is the reported reason why the coordinator did not register us.
	refused protocol.Conflict
	// retry is when to register again, wait the step after that.
	retry clock.Instant
	wait  time.Duration
}

// viewChanged finds the coordinator, ends the allocations of departed members, and admits
// waiting messages. The core answers every view with Register: that costs one message,
// and a coordinator that took office anew learns of proxies too.
func (c *Core) viewChanged(v *gossip.View) {
	if v == nil || c.view != nil && v.Epoch <= c.view.Epoch {
		return
	}
	c.presumed = protocol.Presumed(v, c.declined, c.presumed)
	c.view, c.declined, c.noHostReported, c.pace = v, nil, false, c.cfg.Retry
	if c.office.term.Generation() != v.Epoch.Generation() {
		c.office = link{}
	}
	c.elect()
	c.office.wait = c.pace
	if c.nextResend == 0 {
		// Floors may have brought stops that must be reported.
		c.nextResend = c.now.Add(c.cfg.Resend)
	}
	c.dropGone()
	c.register()
	c.askAll()
	c.replay()
}

// elect turns to the coordinator, according to the declines received so far.
//
// A candidate that declines mostly does so in one view after another, and the next
// candidate's office continues (coordinator.Core). So this region stays with the
// coordinator that has registered it, as long as the candidates before that one may
// decline again. The core asks them all the same, since a coordinator learns by being asked.
// If one of them answers as coordinator instead, it has taken office, and the region turns
// to it.
func (c *Core) elect() {
	c.candidate = protocol.Elect(c.view, c.cfg.Role, c.declined...)
	n := c.candidate
	if c.office.term != 0 && protocol.Elect(c.view, c.cfg.Role, slices.Concat(c.declined, c.presumed)...) == c.office.node {
		n = c.office.node
	}
	if n == c.candidate {
		c.presumed = nil
	}
	if n != c.office.node {
		c.office = link{node: n, wait: c.pace}
	}
}

// tookOffice handles an answer as coordinator by a node that was presumed to
// decline again.
func (c *Core) tookOffice(n gossip.NodeID) {
	if n != c.candidate || n == c.office.node {
		return
	}
	c.presumed = nil
	c.elect()
	c.tellStanding()
}

// hasDeclined turns to the next candidate if the candidate asked in our view
// has declined. A node that is not a candidate declines in the same way.
func (c *Core) hasDeclined(from gossip.NodeID, m *protocol.Declined) {
	known := func(d protocol.Decliner) bool { return d.Node == from }
	if c.view == nil || m.View != c.view.Epoch || from != c.candidate || slices.ContainsFunc(c.declined, known) {
		return
	}
	if m.Unbound && !c.cfg.Foreign && c.stands() {
		// It answers what this node asked before it ran the type. Taken for a promise, it
		// would put us in office beside the sender, which may run the type a moment later.
		return
	}
	c.declined = append(c.declined, protocol.Decliner{Node: from, Missing: m.Missing, Unbound: m.Unbound})
	c.trace(TraceDeclined, from, protocol.Token{Term: c.office.term}, "")
	if !c.cfg.Mutant.Is("declines kept from the coordinator") {
		c.tellStanding()
	}
	was := c.office.node
	if c.elect(); c.office.node != was {
		c.register()
	} else {
		c.inquire()
	}
	if !c.noHostReported && protocol.AllMissing(c.view, c.cfg.Role, c.declined) {
		c.noHostReported = true
		c.notRegistered(c.office.node, protocol.Conflict{Setting: protocol.SettingType, Here: "registered", There: "not, on any node of its role"})
	}
}

// stands reports whether this node is a candidate in our view.
func (c *Core) stands() bool { return protocol.Candidate(c.view, c.cfg.Role, c.cfg.Self) }

// unbound reports whether a candidate has declined in our view without a promise.
func (c *Core) unbound() bool {
	return slices.ContainsFunc(c.declined, func(d protocol.Decliner) bool { return d.Unbound })
}

// tellStanding sends our own coordinator core the declines and terms that it lacks.
func (c *Core) tellStanding() {
	c.do(Standing{Refused: c.unfit, View: c.epoch(), Declined: slices.Clone(c.declined), Term: c.floors.term})
}

// setFit records whether a coordinator accepts our settings.
func (c *Core) setFit(fit bool) {
	if c.unfit == !fit {
		return
	}
	c.unfit = !fit
	c.tellStanding()
}

// asking reports whether Register still needs an answer. A candidate that declined without
// a promise may take office in this very view. Candidates learn of it from a census, all
// other regions only if they keep asking.
func (c *Core) asking() bool {
	return !c.office.registered || c.candidate != c.office.node || c.unbound() && !c.stands()
}

// register sends Register, and schedules its repetition.
func (c *Core) register() {
	if c.office.node == 0 {
		return
	}
	c.office.registered = false
	c.say(c.office.node, c.office.term)
	c.inquire()
	c.office.retry = c.now.Add(c.office.wait)
	c.office.wait = min(2*c.office.wait, c.cfg.RetryMax)
}

// askAgain repeats what is unanswered. If all candidates have declined, or some without
// a promise, it starts again with the first: that node may run the type by now,
// and coordinate it. Declines passed to our own coordinator stay valid.
func (c *Core) askAgain() {
	if c.office.registered {
		if c.unbound() {
			c.presumed, c.declined = c.declined, nil
			c.elect()
		}
		c.inquire()
		c.office.retry = c.now.Add(c.office.wait)
		c.office.wait = min(2*c.office.wait, c.cfg.RetryMax)
		return
	}
	if c.unbound() || slices.ContainsFunc(c.declined, func(d protocol.Decliner) bool { return d.Node == c.candidate }) {
		c.declined, c.pace = nil, min(2*c.pace, c.cfg.RetryMax)
		c.elect()
	}
	c.register()
}

// inquire asks the candidate that is presumed to decline.
func (c *Core) inquire() {
	if c.candidate != c.office.node {
		c.say(c.candidate, 0)
	}
}

// say sends Register to a coordinator, with the term under which this region has received
// all published homes.
func (c *Core) say(to gossip.NodeID, term gossip.Epoch) {
	h := c.head()
	h.Term = term
	c.do(Send{To: to, Msg: &protocol.Register{Head: h, Hosts: c.cfg.Hosts, Settings: c.settings()}})
}

// settings returns the settings that must be equal on all nodes, and this node's capacity.
func (c *Core) settings() protocol.Settings {
	if c.cfg.Foreign {
		return protocol.Settings{Role: c.cfg.Role}
	}
	return protocol.Settings{Shards: uint32(c.cfg.Shards), Role: c.cfg.Role, Capacity: c.cfg.Capacity, ShardOf: c.cfg.ShardOf, Keeps: c.cfg.Keeps, Messages: c.cfg.Messages}
}

// registerRefused notes why we are not registered. The core keeps asking: the other node
// may be restarted with other settings.
func (c *Core) registerRefused(from gossip.NodeID, why protocol.Conflict) {
	c.tookOffice(from)
	if from != c.office.node {
		return
	}
	// A census counts as a registration; this overrides it.
	c.office.registered = false
	c.setFit(false)
	c.notRegistered(from, why)
}

// notRegistered traces the refusal once.
func (c *Core) notRegistered(from gossip.NodeID, why protocol.Conflict) {
	if why == c.office.refused {
		return
	}
	c.office.refused = why
	c.trace(TraceRefused, from, protocol.Token{Term: c.office.term}, why.String())
}

// heard notes that the elected coordinator is in office and has registered us. A message
// from an earlier view is no answer in this view: its sender may have left office with that
// view, and the message that reports so may be lost.
func (c *Core) heard(from gossip.NodeID, h *protocol.Head) {
	if from != c.office.node {
		return
	}
	term, registered := h.Term, c.office.registered || h.View == c.epoch()
	if registered && (!c.office.registered || c.office.term != term) {
		c.trace(TraceRegistered, from, protocol.Token{Term: term}, "")
	}
	fresh := c.office.term != term
	c.office.registered, c.office.term, c.office.refused = registered, term, protocol.Conflict{}
	if fresh {
		c.askAll()
		c.reportStopped()
		c.renewDrain()
	}
}

// received holds early messages, rejects those from outside, the past or with impossible
// terms, and dispatches the rest. A node obeys an order only if it holds the coordinator's
// view or a later one: members removed in the coordinator's view are removed in its own.
func (c *Core) received(r Received) {
	h := r.Msg.Header()
	switch m := r.Msg.(type) {
	// These order nothing, and their term may be none, or that of another role's
	// coordinator.
	case *protocol.Declined:
		c.hasDeclined(r.From, m)
		return
	case *protocol.RegisterRefused:
		c.registerRefused(r.From, m.Conflict)
		return
	}
	if c.view == nil || h.View > c.view.Epoch {
		c.hold(r, "view")
		return
	}
	if c.view.Member(r.From) == nil {
		c.trace(TraceNotMember, r.From, h.Stamp(), protocol.Name(r.Msg))
		return
	}
	if newest := protocol.NewestTerm(r.Msg); newest > c.view.Epoch {
		// No coordinator has drawn this term. Obeying it would end obedience to all real ones.
		c.trace(TraceFar, r.From, protocol.Token{Term: c.floors.term}, protocol.Name(r.Msg)+" with the term "+newest.String())
		return
	}
	if h.Term < c.floors.term && !c.cfg.Mutant.Is("no term check") {
		c.refuse(r, h)
		return
	}
	c.raiseTerm(h.Term)
	if h.Probe {
		c.do(Send{To: r.From, Msg: &protocol.Seen{Head: c.answer(h)}})
	}
	c.dispatch(r)
}

// refuse rejects a message of a replaced coordinator, and replies with the higher term.
func (c *Core) refuse(r Received, h *protocol.Head) {
	c.trace(TraceStaleTerm, r.From, h.Stamp(), protocol.Name(r.Msg))
	switch r.Msg.(type) {
	case *protocol.HostShards, *protocol.Begin, *protocol.HandOff, *protocol.CensusRequest:
		c.do(Send{To: r.From, Msg: &protocol.Refused{Head: c.answer(h)}})
	}
}

// raiseTerm obeys a higher term from now on. It drops the starts that a lower term
// has ordered and that still wait for a stop.
func (c *Core) raiseTerm(term gossip.Epoch) {
	if term <= c.floors.term {
		return
	}
	c.floors.term = term
	for i := range c.hosts {
		c.hosts[i].next, c.hosts[i].answers, c.hosts[i].again.seq = nil, 0, 0
	}
}

func (c *Core) dispatch(r Received) {
	switch m := r.Msg.(type) {
	case *protocol.RegisterAck:
		c.tookOffice(r.From)
		if c.heard(r.From, &m.Head); r.From == c.office.node {
			c.setFit(true)
		}
	case *protocol.Homes:
		c.homes(m)
	case *protocol.HostShards:
		c.hostShards(r, m)
	case *protocol.Begin:
		c.begin(r.From, m)
	case *protocol.HandOff:
		c.handOff(r, m)
	case *protocol.StoppedAck:
		for _, st := range m.Shards {
			c.floors.confirmed(st.Shard, st.Token)
		}
	case *protocol.CensusRequest:
		c.census(r.From, m)
	case *protocol.Drained:
		c.drained(r.From)
	}
}

// census reports the shards that live here. With the term raised, this node no longer
// starts or stops shards for a predecessor: the report stays true until the new
// coordinator, or the end of a lease, changes it. Shards that are starting count:
// a start cannot be called back.
func (c *Core) census(from gossip.NodeID, m *protocol.CensusRequest) {
	c.tookOffice(from)
	report := &protocol.CensusReport{Head: c.answer(&m.Head), Hosts: c.cfg.Hosts, Settings: c.settings()}
	for i := range c.hosts {
		h := &c.hosts[i]
		if h.phase == none {
			continue
		}
		cl := protocol.Claim{Shard: protocol.ShardID(i), Token: h.token, State: protocol.ClaimHosted}
		if h.phase == stopping {
			cl.State, cl.To = protocol.ClaimStopping, h.to
		}
		report.Claims = append(report.Claims, cl)
	}
	report.Held = c.heldStates()
	c.trace(TraceCensus, from, protocol.Token{Term: m.Term}, "")
	if c.drain.on && c.cfg.Hosts {
		// Register before the census ends; otherwise the first message might be a HostShards.
		c.do(Send{To: from, Msg: &protocol.Drain{Head: c.head()}})
	}
	c.do(Send{To: from, Msg: report})
	c.heard(from, &m.Head)
}

const heldMax = 256

// hold keeps a message until the view or the lease allows it. Beyond the bound, messages
// are dropped, and their coordinator retransmits them.
func (c *Core) hold(r Received, why string) {
	kind := TraceHeld
	if len(c.held) >= heldMax {
		kind = TraceHeldOver
	} else {
		c.held = append(c.held, r)
	}
	c.trace(kind, r.From, r.Msg.Header().Stamp(), protocol.Name(r.Msg)+" for want of "+why)
}

func (c *Core) replay() {
	held := c.held
	c.held = nil
	for _, r := range held {
		c.received(r)
	}
}

// head is that of a message that answers none.
func (c *Core) head() protocol.Head {
	return protocol.Head{Type: c.cfg.Type, Term: c.floors.term, View: c.epoch()}
}

// answer is the head of an answer to an order.
func (c *Core) answer(order *protocol.Head) protocol.Head {
	h := c.head()
	if order.Term == h.Term {
		h.Seq = order.Seq
	}
	return h
}

func (c *Core) epoch() gossip.Epoch {
	if c.view == nil {
		return 0
	}
	return c.view.Epoch
}
