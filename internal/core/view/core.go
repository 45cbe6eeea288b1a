// Package view is the pure core of membership: views, agreement on them, and the leases
// that rest on them. A Core is stepped by events on one thread; it owns no goroutine,
// clock, lock, socket or randomness.
package view

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// Core is the view and lease protocol of one node: acceptor, member, candidate
// and leader in one state machine. It is stepped by one thread; none of its
// methods is safe for concurrent use.
//
// Every step does two things. It records the event in the state (the on... methods). Then
// it drives: the part that this node currently plays (joiner, member, candidate, leader)
// advances until it must wait. Driving depends only on the state, never on which event
// changed it, so a lost message, a late timer or a reordered answer needs no case of its
// own.
type Core struct {
	cfg Config
	rng uint64
	// now and out are those of the current step.
	now clock.Instant
	out *Effects
	// ended is set once this incarnation has left or was removed; Step is then a no-op.
	ended bool

	// view is the newest decided view that this node has learned, nil before the node is
	// admitted. Invariant: it contains this node.
	view *gossip.View
	// before is the predecessor of view, if this node held it.
	before *gossip.View
	// packFrom is the constant packFrom; tests change it.
	packFrom int
	// joined and status are from this node's own entry in the newest view. Invariant:
	// they never go back.
	joined gossip.Epoch
	status gossip.Status
	// gone holds the members that later views left out, oldest first in goneOrder.
	gone      map[gossip.NodeID]bool
	goneOrder []gossip.NodeID

	// promised is the highest ballot that this acceptor has promised. Invariant: it
	// never goes down.
	promised gossip.Ballot
	// roundSeen is the highest round met in any ballot: this node's next round is above
	// it.
	roundSeen uint64
	// attempts holds the accepted attempt per base epoch. Invariant: no epoch before
	// view's.
	attempts map[gossip.Epoch]*attempt
	// generation is the highest met in any view or attempt.
	generation uint32
	guard      guard

	lease Lease
	// grantedAt is when the newest grant was requested: the t0 of the answer that it
	// echoed. For a leader it is when the newest round was sent that a plain quorum
	// answered.
	grantedAt clock.Instant

	// proofs holds the proven deaths of members, early those of nodes that are in no view
	// of this node yet.
	proofs map[gossip.NodeID]*proof
	early  map[gossip.NodeID]*proof
	links  map[gossip.NodeID]bool
	// unreachable is never modified in place: sent answers share it.
	unreachable []gossip.NodeID
	// heardAt is when the last ping or accept of a leader arrived.
	heardAt clock.Instant
	// nextAsk is when a joiner without a leader next asks for a newer view.
	nextAsk clock.Instant

	// leader is the node that this node follows, zero if none.
	leader gossip.NodeID
	// leaderlessSince is the time from which this node counts as having no leader.
	leaderlessSince clock.Instant
	// campaignAfter is the earliest time of the next candidacy after a failed one.
	campaignAfter clock.Instant
	// candidateUntil is until when this node leaves the field to the candidate that it promised
	// last.
	candidateUntil clock.Instant
	failures       int

	candidacy       *candidacy
	leadership      *leadership
	joining         joining
	lineageConflict lineageConflict
	membership      membership
	foreign         encounters
	ahead           ahead
	// farewell is set when this node has left as leader and only distributes the last
	// view.
	farewell *farewell

	leaving   bool
	nextLeave clock.Instant
	// leavers holds the members that sent LeaveRequest while there was no leader.
	leavers map[gossip.NodeID]bool
	// announced is set once this node has announced that it will leave.
	announced    bool
	nextAnnounce clock.Instant

	// silence is set only for AssumeCrash.
	silence *silence

	// nextConsult is when the members may next be asked about a non-member's view.
	nextConsult clock.Instant
	// lineageNodes holds nodes of another lineage that a member has shown (speaker.go).
	lineageNodes map[gossip.NodeID]bool

	mutant mutant
}

// New returns a core without a view. It panics on an invalid Config, which the shell must
// have checked.
func New(cfg Config, now clock.Instant) *Core {
	if cfg.Self.ID == 0 || cfg.Ping <= 0 || cfg.Lease < 2*cfg.Ping || cfg.RemoveAfter < cfg.Lease || cfg.DriftPPM < 0 {
		panic(fmt.Sprintf("view: bad config %+v", cfg))
	}
	if cfg.Partition == nil {
		cfg.Partition = gossip.KeepMajority{}
	}
	return &Core{
		cfg: cfg, packFrom: packFrom, silence: newSilence(cfg.Partition), rng: cfg.Seed ^ uint64(cfg.Self.ID), now: now, leaderlessSince: now,
		gone: map[gossip.NodeID]bool{}, attempts: map[gossip.Epoch]*attempt{},
		proofs: map[gossip.NodeID]*proof{}, early: map[gossip.NodeID]*proof{}, links: map[gossip.NodeID]bool{}, leavers: map[gossip.NodeID]bool{},
	}
}

// Step applies ev and appends the resulting actions to out. It never fails; an event that
// does not apply is ignored.
func (c *Core) Step(now clock.Instant, ev Event, out *Effects) {
	if c.ended {
		return
	}
	c.now, c.out = now, out
	if c.farewell != nil {
		if m, ok := ev.(Received); ok {
			c.onFarewell(m.From, m.Msg)
		}
		c.driveFarewell()
		c.out = nil
		return
	}
	c.applyEvent(ev)
	// Each turn advances a phase, a view or a timer for good, so the loop ends; the bound
	// turns a mistake into a trace instead of a hang.
	for i := 0; !c.ended && c.farewell == nil && c.driveStep(); i++ {
		if i == drivesMax {
			c.traceEvent("drive does not end", 0, "")
			break
		}
	}
	c.out = nil
}

const drivesMax = 64

func (c *Core) applyEvent(ev Event) {
	switch e := ev.(type) {
	case Tick:
	case Received:
		c.receiveMessage(e.From, e.Msg)
	case Form:
		c.formCluster(e)
	case Contacts:
		c.onContacts(e.Nodes)
	case AnnounceLeave:
		c.announced = true
	case Leave:
		c.onLeave()
	case ProvenDead:
		c.onProof(e)
	case Alive:
		c.onAlive(e.Subject)
	case Link:
		c.links[e.Subject] = e.Up
		c.signOfLife(e.Subject) // up, or up until now
		if !e.Up {
			delete(c.links, e.Subject)
		}
	case Unreachable:
		c.unreachable = slices.Clone(e.Nodes)
	case Yield:
		c.onYield(e.Subject, e.Reporter)
	case ForeignSeen:
		c.onForeign(e.Cluster, e.Nodes)
	}
}

func (c *Core) receiveMessage(from gossip.NodeID, msg Message) {
	if !speaksForItself(from, msg) {
		c.traceEvent("message in another node's name, ignored", from, "")
		return
	}
	c.signOfLife(from)
	if !c.mayAccept(from, msg) {
		return
	}
	switch m := msg.(type) {
	case *Ping:
		c.onPing(from, m)
	case *Pong:
		c.onPong(from, m)
	case *Accept:
		c.onAccept(from, m)
	case *PreVote:
		c.onPreVote(from, m)
	case *PreVoted:
		c.onPreVoted(from, m)
	case *Prepare:
		c.onPrepare(from, m)
	case *Promised:
		c.onPromised(from, m)
	case *Nack:
		c.onNack(m)
	case *Decided:
		if c.learnView(from, m.View) && c.view.Member(from) == nil {
			c.sendTo(from, &Decided{View: c.ref()}) // acknowledges a leader's farewell
		}
	case *JoinRequest:
		c.onJoinRequest(from, m)
	case *JoinRefused:
		if c.view == nil {
			c.endIncarnation(0, "refused: "+m.Reason)
		}
	case *JoinPassed:
		c.joining.onPassed(m.Leader)
	case *LeaveRequest:
		c.onLeaveRequest(from)
	case *NeedView:
		c.onNeedView(from)
	case *LeaveNotice:
		c.onLeaveNotice(from)
	case *YieldRequest:
		if c.leadership != nil {
			c.onYield(m.Subject, from)
		}
	case *Doubt:
		c.onDoubt(from, m)
	case *Doubted:
		c.onDoubted(from, m)
	case *Contest:
		c.onContest(from, m)
	case *Contested:
		c.onContested(from, m)
	default:
		c.receiveForeign(from, msg)
	}
}

// receiveForeign handles messages between clusters of one name, and those about another
// cluster.
func (c *Core) receiveForeign(from gossip.NodeID, msg Message) {
	switch m := msg.(type) {
	case *Encounter:
		c.onEncounter(from, m)
	case *Sighted:
		if c.leadership != nil && c.view.Member(from) != nil {
			c.onForeign(m.Cluster, m.Nodes)
		}
	case *Vouch:
		c.onVouch(from, m)
	case *Vouched:
		c.onVouched(from, m)
	case *Confront:
		c.onConfront(from, m)
	case *Confronted:
		c.onConfronted(from, m)
	}
}

// driveStep advances the part that this node plays, and reports whether anything changed.
func (c *Core) driveStep() bool {
	moved := c.leaving && c.driveLeave()
	moved = !c.ended && (c.driveAnnounce() || c.driveAssume()) || moved
	switch {
	case c.ended:
		return false
	case c.view == nil:
		return c.driveJoining() || moved
	case c.leadership != nil:
		return c.driveLeader() || moved
	case c.candidacy != nil:
		return c.driveCandidacy() || moved
	}
	return c.driveCampaign() || moved
}

// Deadline returns when the core next needs a Tick, or Never if it waits for events only.
// An early Tick does nothing.
func (c *Core) Deadline() clock.Instant {
	if c.ended {
		return clock.Never
	}
	if c.farewell != nil {
		return clock.Min(c.farewell.next, c.farewell.until)
	}
	d := clock.Never
	if c.leaving {
		d = c.nextLeave
	}
	if c.announces() {
		d = clock.Min(d, c.nextAnnounce)
	}
	d = clock.Min(d, c.assumeAt())
	switch {
	case c.view == nil:
		return clock.Min(d, c.joiningDeadline())
	case c.leadership != nil:
		return clock.Min(d, c.leaderDeadline())
	case c.candidacy != nil:
		return clock.Min(d, c.candidacy.deadline)
	}
	return clock.Min(d, c.campaignAt())
}

// formCluster makes this node the only member of a new cluster.
func (c *Core) formCluster(f Form) {
	if c.view != nil || c.leaving {
		return
	}
	c.generation = max(c.generation, f.Generation, 1)
	epoch := gossip.FormingEpoch(c.generation, f.Millisecond)
	id := c.random() | 1
	c.membership.secret = f.Secret
	c.adoptView(&gossip.View{
		Cluster: id, Origin: cmp.Or(f.Origin, id), Epoch: epoch, Standing: gossip.Standing{Peak: 1, Birth: epoch},
		Members: []gossip.Member{{Node: c.cfg.Self, Joined: epoch, Status: gossip.Up}},
	})
	c.traceEvent("cluster formed", c.self(), "")
}

// adoptView makes v this node's view. v continues the present one, or is the first.
func (c *Core) adoptView(v *gossip.View) {
	me := v.Member(c.self())
	if me == nil {
		if c.view != nil {
			c.endIncarnation(v.Epoch, c.reasonLeftOut(v))
		}
		return
	}
	if c.view != nil && (me.Joined > c.joined || me.Status < c.status) {
		c.endIncarnation(v.Epoch, "removed and admitted again under the same id")
		return
	}
	c.forgetLeftOut(v)
	if c.view == nil {
		c.heardAt = c.now
	}
	c.before = c.view
	c.view, c.joined, c.status = v, me.Joined, me.Status
	c.meetMembers(v)
	c.countEarlyProofs()
	c.generation = max(c.generation, v.Epoch.Generation())
	for base := range c.attempts { // order-free: each entry is checked by itself
		if base < v.Epoch {
			delete(c.attempts, base)
		}
	}
	c.candidacy = nil
	if v.Member(c.guard.leader) == nil {
		c.guard = guard{} // the leader has left or was removed, and no longer leads
	}
	if c.leader == 0 || v.Member(c.leader) == nil {
		c.leader, c.leaderlessSince = 0, min(c.leaderlessSince, c.now)
		c.repeatLeave()
	}
	c.out.View = v
	c.traceEvent("view", 0, fmt.Sprintf("%d members", len(v.Members)))
}

func (c *Core) reasonLeftOut(v *gossip.View) string {
	if c.leaving {
		return "left"
	}
	for _, d := range v.Out {
		if d.ID != c.self() {
			continue
		}
		if d.Evidence != "" {
			return "left out of the view: " + d.Cause.String() + ", " + d.Evidence
		}
		return "left out of the view: " + d.Cause.String()
	}
	return "left out of the view"
}

// goneMax bounds the former members that gone holds.
const goneMax = 1024

func (c *Core) forgetLeftOut(v *gossip.View) {
	if c.view == nil {
		return
	}
	for i := range c.view.Members {
		id := c.view.Members[i].ID
		if v.Member(id) != nil || c.gone[id] {
			continue
		}
		delete(c.proofs, id)
		delete(c.links, id)
		delete(c.leavers, id)
		c.gone[id] = true
		c.goneOrder = append(c.goneOrder, id)
		c.traceEvent("left out", id, "")
	}
	for len(c.goneOrder) > goneMax {
		delete(c.gone, c.goneOrder[0])
		c.goneOrder = c.goneOrder[1:]
	}
}

// learnView learns a decided view from a peer and reports whether this node now holds it. A
// peer with an older view, or of a lineage that loses, is sent ours.
func (c *Core) learnView(from gossip.NodeID, v *SentView) bool {
	if v == nil {
		return false
	}
	if c.view == nil {
		whole := c.unpackView(v)
		if whole == nil {
			c.requestWholeView(from, v)
			return false
		}
		c.adoptView(whole)
		return c.view == whole
	}
	switch compareViews(c.view, v.View) {
	case same:
		return true
	case newer:
		whole := c.unpackView(v)
		if whole == nil {
			c.requestWholeView(from, v)
			return false
		}
		c.stepDown("a newer view was decided")
		c.adoptView(whole)
		return !c.ended
	case older, wins:
		c.sendTo(from, &Decided{View: Whole(c.view)})
	case loses:
		c.noteLineage(from, v)
		c.confirmPeer(from, v)
	case otherCluster:
		c.traceEvent("other cluster", from, "view of another cluster")
	}
	return false
}

// endIncarnation ends the incarnation: it drops all instances and its lease.
func (c *Core) endIncarnation(epoch gossip.Epoch, reason string) {
	c.ended = true
	c.lease, c.leadership, c.candidacy = Lease{}, nil, nil
	c.out.Lease, c.out.Abandon = &Lease{}, true
	c.out.Removed = &gossip.Removed{Epoch: epoch, Reason: reason}
	c.traceEvent("removed", c.self(), reason)
}

func (c *Core) self() gossip.NodeID { return c.cfg.Self.ID }

// votes reports whether this node is a voter of its view.
func (c *Core) votes() bool { return c.view != nil && c.status.Votes() }

func (c *Core) sendTo(to gossip.NodeID, m Message) {
	if to != c.self() && to != 0 {
		c.out.Send = append(c.out.Send, Send{To: to, Msg: m})
	}
}

func (c *Core) traceEvent(kind string, subject gossip.NodeID, detail string) {
	ev := TraceEvent{Kind: kind, Subject: subject, Detail: detail}
	if c.view != nil {
		ev.Epoch = c.view.Epoch
	}
	c.out.Trace = append(c.out.Trace, ev)
}

// margin is how far one clock may run ahead of another over d.
func (c *Core) margin(d time.Duration) time.Duration {
	return time.Duration(int64(d)/1e6*int64(c.cfg.DriftPPM)) + time.Microsecond
}

// random draws from the seed: splitmix64.
func (c *Core) random() uint64 {
	c.rng += 0x9e3779b97f4a7c15
	z := c.rng
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// upTo draws a random wait below d.
func (c *Core) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(c.random() % uint64(d))
}
