package sim

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/internal/transport"
)

// membership is the driver of the view core.
// It does exactly the work of the shell in package gossip.
type membership struct {
	core  *view.Core
	fx    view.Effects
	timer timer
	view  *gossip.View
	lease view.Lease
	// leaseWas is when the lease ended that was held before the step under way.
	leaseWas clock.Instant
	valid    bool
	leaving  bool
	links    links
	// events are the one that the view core is stepped with, and those that follow.
	events []view.Event
	// mail is the time before which the subscribers see nothing newer.
	mail virtual.Instant
	// lostSince is when the lease was lost, deadSince when all other members were
	// proven dead; never if not.
	lostSince, deadSince virtual.Instant
	// abandoning counts the abandonments under way: meanwhile no lease is valid.
	abandoning int
	// lastProof is when the newest certain proof of a death came.
	lastProof virtual.Instant
}

func (p *proc) links() *links { return &p.member.links }

func (p *proc) startMembership() {
	m := &p.member
	s := &p.w.swarm
	cfg := view.Config{
		Self: p.node, Ping: s.ping, Lease: s.lease, RemoveAfter: s.removeAfter,
		DriftPPM: s.driftPPM, Evidence: s.evidence, Partition: s.policy, Seed: p.w.setRand.Uint64(),
		Authenticated: s.apart, Least: p.least,
	}
	m.core = view.New(cfg, p.now())
	if p.w.cfg.onView != nil {
		p.w.cfg.onView(m.core)
	}
	m.timer = newTimer(p, func() { p.step(view.Tick{}) })
	m.lostSince, m.deadSince = virtual.Never, virtual.Never
	m.links = links{p: p, peers: map[nodeID]*link{}}
	m.timer.set(m.core.Deadline())
	p.links().keep()
	p.askAround()
}

// step gives the view core one event and carries its effects out. Events that the effects cause
// follow, as in the mailbox of the shell.
func (p *proc) step(ev view.Event) {
	m := &p.member
	m.events = append(m.events, ev)
	if len(m.events) > 1 {
		return
	}
	for len(m.events) > 0 {
		stepView(p, m.events[0])
		m.events = m.events[1:]
	}
}

// stepView performs one step of the view core, and its effects in the order of their fields.
func stepView(p *proc, ev view.Event) {
	m := &p.member
	if p.over || !p.alive {
		return
	}
	if _, tick := ev.(view.Tick); tick && p.now() < m.core.Deadline() {
		m.timer.set(m.core.Deadline())
		return
	}
	m.leaseWas = m.lease.Until
	m.fx.Reset()
	m.core.Step(p.now(), ev, &m.fx)
	p.noteGeneration(m.core.Generation())
	fx := &m.fx
	for i := range fx.Trace {
		p.w.viewTrace(p, &fx.Trace[i])
	}
	if fx.Lease != nil {
		p.setLease(*fx.Lease)
	}
	if fx.Abandon {
		p.abandon()
	}
	if fx.View != nil {
		p.setView(fx.View)
	}
	if fx.Lease != nil {
		p.w.checkLease(p)
	}
	sends := fx.Send
	for _, s := range sends {
		p.sendView(s)
	}
	if fx.Removed != nil {
		p.removed(*fx.Removed)
		return
	}
	m.timer.set(m.core.Deadline())
}

func (p *proc) sendView(s view.Send) {
	p.w.watchView(p, s.To, s.Msg)
	p.w.event(p, "send", uint64(s.To), func() string { return p.w.name(s.To) + " " + p.w.messageText(s.Msg) })
	if s.To == p.node.ID {
		p.w.fail("S9", "%s sends %T to itself", p.label, s.Msg)
	}
	_ = p.send(s.To, transport.Control, frame{transport.KindView, s.Msg})
}

// setLease takes a lease that the core gave or withdrew. LeaseValid is asked at
// every dispatch; the upper layers are notified of changes a little later.
func (p *proc) setLease(l view.Lease) {
	m := &p.member
	m.lease = l
	valid := p.leaseValid()
	p.w.event(p, "lease", uint64(l.Until), func() string {
		kind := "member"
		if l.Leader {
			kind = "leader"
		}
		return kind + " for " + l.Until.Sub(p.now()).String()
	})
	if valid != m.valid {
		m.valid = valid
		p.leaseTurned(valid)
	}
	if valid {
		p.w.At(p.clk.When(l.Until), func() { p.run(p.lapse) })
	}
}

// lapse notifies the upper layers when a lease has expired.
func (p *proc) lapse() {
	m := &p.member
	if m.valid && !p.leaseValid() {
		m.valid = false
		p.leaseTurned(false)
	}
}

// regain notifies the upper layers when a lease becomes valid after an abandonment.
func (p *proc) regain() {
	m := &p.member
	if !m.valid && p.leaseValid() {
		m.valid = true
		p.leaseTurned(true)
		p.w.At(p.clk.When(m.lease.Until), func() { p.run(p.lapse) })
	}
}

func (p *proc) leaseTurned(valid bool) {
	if valid {
		p.w.hit(markLeaseResumed)
	} else {
		p.w.hit(markLeaseLapsed)
	}
	p.w.event(p, "lease valid", b2u(valid), nil)
	p.tell(func() { p.upperLease(valid) })
}

func (p *proc) leaseValid() bool {
	return p.alive && !p.over && p.member.abandoning == 0 && p.member.lease.Valid(p.now())
}

// setView takes a newer view.
func (p *proc) setView(v *gossip.View) {
	p.member.view = v
	p.w.event(p, "view", uint64(v.Epoch), func() string { return p.w.viewText(v) })
	p.w.noteFormed(p, v)
	p.w.noteAbsorbed(p, v)
	p.w.checkView(p, v)
	p.fenceDropped(v)
	p.links().members(v)
	p.tell(func() { p.upperView(v) })
	p.dissolves(v)
}

// tell delivers to the layers above, in order, from another goroutine.
func (p *proc) tell(do func()) {
	d := time.Duration(0)
	if p.w.netRand.IntN(8) == 0 {
		d = p.w.netRand.Duration(0, 8*time.Millisecond)
	}
	p.member.mail = max(p.member.mail, p.w.Now().Add(d))
	p.w.At(p.member.mail, func() { p.run(do) })
}

// abandon drops every instance immediately.
// The shell does so before a lease of the new generation becomes valid for dispatch.
func (p *proc) abandon() {
	p.w.hit(markAbandoned)
	p.w.event(p, "abandon", 0, nil)
	p.abandonUpper()
}

// removed ends the incarnation; the root package starts the next one, unless the
// node left of its own will.
func (p *proc) removed(r gossip.Removed) {
	w := p.w
	if p.over {
		return
	}
	w.event(p, "removed", uint64(r.Epoch), func() string { return r.Reason })
	p.abandon()
	p.over, p.outranked = true, r.Outranked
	slot := p.slot
	left := p.member.leaving
	if left {
		w.hit(markLeft)
		p.signOff()
	}
	w.After(w.faultRand.Duration(time.Millisecond, 60*time.Millisecond), func() {
		if !p.alive {
			return
		}
		p.end()
		w.event(p, "closed", 0, nil)
		if left {
			return
		}
		w.hosts[slot].rejoins = true
		w.After(w.faultRand.Duration(5*time.Millisecond, 800*time.Millisecond), func() {
			w.hosts[slot].rejoins = false
			if w.hosts[slot].proc == nil && !w.hosts[slot].down && !w.hosts[slot].stay {
				w.hit(markRejoined)
				w.startNext(slot, p)
			}
		})
	})
}

// signOff sends a goodbye to all members, as a closing shell does.
func (p *proc) signOff() {
	v := p.member.view
	if v == nil {
		return
	}
	for i := range v.Members {
		if id := v.Members[i].ID; id != p.node.ID {
			_ = p.send(id, transport.Control, frame{transport.KindEvidence, nil})
		}
	}
}

func (p *proc) goodbye(from nodeID) { p.links().prove(from, goodbyeProof, "goodbye") }

// leaseEnd is the true time at which the process's lease ends.
func (p *proc) leaseEnd() virtual.Instant {
	if p.member.lease.Until == 0 {
		return 0
	}
	return p.clk.When(min(p.member.lease.Until, clock.Never))
}
