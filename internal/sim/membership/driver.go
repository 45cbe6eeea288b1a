// Package membership drives the view core of one simulated process. It does exactly the work of
// the shell in internal/membership: it carries out the effects of the core, keeps connections to
// the members, and draws evidence of crashes from them.
package membership

import (
	"fmt"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/network"
	"github.com/peerage-go/peerage/internal/sim/process"
	"github.com/peerage-go/peerage/internal/sim/record"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/internal/transport"
)

// Owner is the process around a Driver: the layers above, and the run. The Driver calls all
// methods on the process's thread.
type Owner interface {
	// GenerationMet takes the highest generation that the core has met.
	GenerationMet(uint32)
	// Proposed is called when the core first proposes a view.
	Proposed(base, next *gossip.View)
	// ViewHeld takes a newer view before anything else does, ViewChecked after the Judge has
	// checked it.
	ViewHeld(v *gossip.View)
	ViewChecked(former, v *gossip.View)
	// ViewChanged and LeaseTurned inform the layers above, a little later.
	ViewChanged(*gossip.View)
	LeaseTurned(valid bool)
	// LeaseResumed is called when a lease became valid.
	LeaseResumed()
	// AbandonInstances drops all instances. The lease is not valid until each HoldLease is
	// matched by a ReleaseLease.
	AbandonInstances()
	// PeerChanged takes the coming and going of connections.
	PeerChanged(id gossip.NodeID, class transport.Class, up bool)
	// LookAround asks a contact point which cluster it belongs to.
	LookAround()
	// ClusterYields is called when a view shows that the cluster yields to another, Removed
	// when the incarnation is over.
	ClusterYields()
	Removed(gossip.Removed)
}

// Driver drives a view core.
type Driver struct {
	p     *process.Process
	owner Owner
	judge *Judge
	core  *view.Core
	fx    view.Effects
	timer *virtual.Timer
	// events are the one that the view core is stepped with, and those that follow.
	events []view.Event
	// mail is the time before which the layers above see nothing newer.
	mail virtual.Instant

	// view is the newest, before the one that was held before it.
	view, before *gossip.View
	// former is the view that was held before view, of any cluster.
	former    *gossip.View
	lease     lease
	links     links
	isolation isolation
	leaving   bool
}

// Start makes the core of a process that starts. A cluster must have reached the generation
// least when it lets the process in.
func Start(j *Judge, p *process.Process, owner Owner, least uint32) *Driver {
	s := &p.Run.Config
	d := &Driver{p: p, owner: owner, judge: j}
	cfg := view.Config{
		Self: p.Node, Ping: s.Ping, Lease: s.Lease, RemoveAfter: s.RemoveAfter,
		DriftPPM: s.DriftPPM, Evidence: s.Evidence, Partition: s.Policy, Seed: p.Run.Rand.Setup.Uint64(),
		Authenticated: s.Apart && !s.Unauthenticated, Least: least, PackFrom: s.PackFrom,
	}
	d.core = view.New(cfg, p.Now())
	d.lease = lease{p: p, onTurn: func(valid bool) { d.Tell(func() { owner.LeaseTurned(valid) }) }}
	d.timer = p.NewTimer(func() { d.Step(view.Tick{}) })
	d.isolation = isolation{lostSince: virtual.Never, deadSince: virtual.Never}
	d.links = links{p: p, step: d.Step, onPeer: owner.PeerChanged, onTick: d.regroup, peers: map[gossip.NodeID]*link{}}
	d.timer.Set(d.core.Deadline())
	d.links.keep()
	j.drivers[p.ID()] = d
	return d
}

// Step gives the view core one event and carries its effects out. Events that the effects cause
// follow, as in the mailbox of the shell.
func (d *Driver) Step(ev view.Event) {
	d.events = append(d.events, ev)
	if len(d.events) > 1 {
		return
	}
	for len(d.events) > 0 {
		d.stepCore(d.events[0])
		d.events = d.events[1:]
	}
}

// stepCore performs one step of the view core, and its effects in the order of their fields.
func (d *Driver) stepCore(ev view.Event) {
	p := d.p
	if !p.Active() {
		return
	}
	if _, tick := ev.(view.Tick); tick && p.Now() < d.core.Deadline() {
		d.timer.Set(d.core.Deadline())
		return
	}
	d.lease.was = d.lease.held.Until
	fx := &d.fx
	fx.Reset()
	d.core.Step(p.Now(), ev, fx)
	if err := d.core.Check(); err != nil {
		p.Run.Fail("core", "%s: %v", p.Label, err)
	}
	d.owner.GenerationMet(d.core.Generation())
	for i := range fx.Trace {
		d.judge.onTrace(d, &fx.Trace[i])
	}
	if fx.Lease != nil {
		d.lease.setHeld(*fx.Lease)
	}
	if fx.Abandon {
		d.Abandon()
	}
	if fx.View != nil {
		d.setView(fx.View)
	}
	if fx.Lease != nil {
		d.checkLease()
	}
	sends := fx.Send
	for _, s := range sends {
		d.Send(s)
	}
	if fx.Removed != nil {
		d.owner.Removed(*fx.Removed)
		return
	}
	d.timer.Set(d.core.Deadline())
}

// Send sends a message of the view core.
func (d *Driver) Send(s view.Send) {
	p := d.p
	if a := d.judge.onMessage(d, s.To, s.Msg); a != nil {
		d.owner.Proposed(a.base, a.next)
	}
	p.Event("send", uint64(s.To), func() string { return p.Run.Names.Name(s.To) + " " + p.Run.Names.Message(s.Msg) })
	if s.To == p.ID() {
		p.Run.Fail("S9", "%s sends %T to itself", p.Label, s.Msg)
	}
	_ = p.Net.Send(s.To, transport.Control, network.Frame{Kind: transport.KindView, Msg: s.Msg})
}

// Receive takes a frame of the view protocol, and the life that any frame is a sign of.
func (d *Driver) Receive(from gossip.NodeID, f network.Frame) {
	if !d.p.Run.Config.Datagrams || f.Kind != transport.KindView {
		d.links.withdrawProof(from)
	}
	switch f.Kind {
	case transport.KindView:
		d.Step(view.Received{From: from, Msg: f.Msg.(view.Message)})
	case transport.KindEvidence:
		d.links.prove(from, goodbyeProof, "goodbye")
	}
}

// PeerEvent takes an event of the transport.
func (d *Driver) PeerEvent(typ transport.PeerEventType, class transport.Class, id, former gossip.NodeID) {
	d.links.onEvent(typ, class, id, former)
}

// setView takes a newer view.
func (d *Driver) setView(v *gossip.View) {
	p := d.p
	d.before, d.view = d.view, v
	p.Event("view", uint64(v.Epoch), func() string { return p.Run.Names.View(v) })
	d.recordView(v)
	d.owner.ViewHeld(v)
	d.judge.checkView(d, v)
	d.owner.ViewChecked(d.former, v)
	d.former = v
	d.judge.onPublished(d, v)
	p.Net.FenceDropped(v)
	d.links.setMembers(v)
	d.Tell(func() { d.owner.ViewChanged(v) })
	if v.Yields() != nil {
		d.owner.ClusterYields()
	}
}

// recordView records that the process holds a view, if the run is recorded.
func (d *Driver) recordView(v *gossip.View) {
	r := d.p.Run
	if r.Record == nil {
		return
	}
	name := r.Names.Members(v)
	r.Record.EndKind(record.View, d.p.Slot, "a newer view")
	r.Record.Begin(record.Bar{Kind: record.View, Host: d.p.Slot, Name: name, Group: fmt.Sprintf("%x %x", v.Cluster, uint64(v.Epoch)), Text: d.p.Label + " holds view " + r.Names.View(v)})
}

// checkLease reports a changed lease.
func (d *Driver) checkLease() {
	if began := d.judge.onLease(d); began && d.LeaseValid() {
		d.owner.LeaseResumed()
	}
}

// Tell delivers to the layers above, in order, from another goroutine.
func (d *Driver) Tell(do func()) {
	r := d.p.Run
	wait := time.Duration(0)
	if r.Rand.Net.IntN(8) == 0 {
		wait = r.Rand.Net.Duration(0, 8*time.Millisecond)
	}
	d.mail = max(d.mail, r.Now().Add(wait))
	d.p.Thread.At(d.mail, do)
}

// Abandon drops every instance immediately.
// The shell does so before a lease of the new generation becomes valid for dispatch.
func (d *Driver) Abandon() {
	d.p.Run.Hit(coverage.Abandoned)
	d.p.Event("abandon", 0, nil)
	d.owner.AbandonInstances()
}

// SignOff sends a goodbye to all members, as a closing shell does.
func (d *Driver) SignOff() {
	if d.view == nil {
		return
	}
	for i := range d.view.Members {
		if id := d.view.Members[i].ID; id != d.p.ID() {
			_ = d.p.Net.Send(id, transport.Control, network.Frame{Kind: transport.KindEvidence})
		}
	}
}

// regroup handles the nodes outside the view of a node.
// Lineages that wrong evidence has parted are made to meet. A node that has lost its quorum
// ends when it finds a live cluster, or when its whole view has been dead for long.
func (d *Driver) regroup() {
	if d.view == nil || d.leaving {
		return
	}
	r := d.p.Run
	if d.isolation.update(r.Now(), d.lease.isValid(), func() bool { return d.links.allDead(d.view) || d.isForlorn() }) {
		d.owner.Removed(gossip.Removed{Reason: "its whole view is dead"})
		return
	}
	if r.Rand.Contact.IntN(16) == 0 {
		d.owner.LookAround()
	}
}

// isForlorn reports whether the core finds its incarnation beyond help: proofs of deaths leave no
// way to the next view.
func (d *Driver) isForlorn() bool {
	r := d.p.Run
	if !r.Config.Forlorn || !d.core.BeyondHelp() {
		return false
	}
	r.Hit(coverage.BeyondHelp)
	return true
}

// Observe compares what the core shows to operators with what it has told the driver.
func (d *Driver) Observe() {
	r, p, s := d.p.Run, d.p, d.core.State()
	leader, follows := d.core.Leader()
	switch {
	case d.core.Over() != !p.Active():
		r.Fail("core", "%s: the incarnation is over: %v", p.Label, d.core.Over())
	case d.core.Lease() != d.lease.held && p.Active():
		r.Fail("core", "%s shows the lease %+v and has %+v", p.Label, d.core.Lease(), d.lease.held)
	case d.core.LeaderLease() > 0 && (s.Part != "leader" || leader != p.ID()):
		r.Fail("S6", "%s is %s, follows %s, and has a leader lease", p.Label, s.Part, r.Names.Name(leader))
	case follows && s.Leader != leader, d.view != nil && s.Epoch < d.view.Epoch:
		r.Fail("core", "%s shows %+v", p.Label, s)
	}
	r.Hit(coverage.Observed)
}

// WithdrawLease ends the lease of an incarnation that the shell ends, as endIncarnation of
// internal/membership does. An incarnation that the core ends has none.
func (d *Driver) WithdrawLease() {
	if d.lease.held == (view.Lease{}) {
		return
	}
	d.lease.setHeld(view.Lease{})
	d.checkLease()
}

// Thaw takes note that the clock runs again, which has stood still since an instant: the lease
// ends later by as long.
func (d *Driver) Thaw(since virtual.Instant) {
	r := d.p.Run
	until := d.lease.trueEnd()
	outlives, v := d.judge.members.Thawed(time.Duration(r.Now()), time.Duration(since), d.p.ID(), time.Duration(until))
	if outlives {
		r.Hit(coverage.FrozenLease)
	}
	r.Judge(v)
	if d.lease.announced {
		d.lease.watchEnd()
	}
}

// HoldLease makes the lease invalid until ReleaseLease.
func (d *Driver) HoldLease() { d.lease.holds++ }

// ReleaseLease ends one HoldLease. The layers above are notified if the lease is valid again, or
// has expired meanwhile.
func (d *Driver) ReleaseLease() { d.lease.endHold() }

// LeaseValid reports whether the process may act: it holds a lease, and no abandonment is under
// way.
func (d *Driver) LeaseValid() bool { return d.lease.isValid() }

// LeaseReported returns the lease as reported to the layers above last.
func (d *Driver) LeaseReported() bool { return d.lease.announced }

// LeaseLapsed reports whether the lease has expired, and the layers above were not notified yet.
func (d *Driver) LeaseLapsed() bool { return d.lease.hasLapsed() }

// Lease returns the lease that the core gave last.
func (d *Driver) Lease() view.Lease { return d.lease.held }

// Window is the true time at which the lease ends or ended. A lease that came after its own end
// does not count: then it is the end of the newest one that was valid when it was given.
func (d *Driver) Window() virtual.Instant { return min(d.lease.window, d.lease.trueEnd()) }

// Isolated returns for how long the node has been without a lease.
func (d *Driver) Isolated() time.Duration { return d.isolation.lasts(d.p.Run.Now()) }

// StartLeaving records that the process leaves in order.
func (d *Driver) StartLeaving() { d.leaving = true }

// Leaving reports whether the process leaves in order.
func (d *Driver) Leaving() bool { return d.leaving }

// View returns the newest view that is held, nil if none is. It is immutable.
func (d *Driver) View() *gossip.View { return d.view }

// CoreView returns the view of the core, which may have more than View while a step is under
// way.
func (d *Driver) CoreView() *gossip.View { return d.core.View() }

// Generation returns the highest generation that the core has met.
func (d *Driver) Generation() uint32 { return d.core.Generation() }

// LastProof returns when the newest certain proof of a death came.
func (d *Driver) LastProof() virtual.Instant { return d.links.lastProof }

// Unreachable returns the members that were reported as unreachable.
func (d *Driver) Unreachable() []gossip.NodeID { return d.links.reported }
