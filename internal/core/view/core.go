// Package view is the pure core of membership: views, agreement on them, and the leases
// that rest on them. A Core is stepped by events on one thread; it owns no goroutine,
// clock, lock, socket or randomness.
package view

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// Core is the view and lease protocol of one node: acceptor, member, candidate and
// leader. It routes each event to the machines that it concerns, and drives them. It is
// stepped by one thread; none of its methods is safe for concurrent use.
//
// Every step does two things. It records the event in the state (the on... methods). Then
// it drives: the part that this node currently plays (joiner, member, candidate, leader)
// advances until it must wait. Driving depends only on the state, never on which event
// changed it, so a lost message, a late timer or a reordered answer needs no case of its
// own.
type Core struct {
	env
	history
	holder    leaseHolder
	evidence  evidence
	quorums   quorums
	acceptor  acceptor
	departure departure
	follower  follower
	campaign  campaign

	// ended is set once this incarnation has left or was removed; Step is then a no-op.
	ended bool

	leadership *leadership
	joining    joining

	lineage lineage
	foreign encounters
	// farewell is set when this node has left as leader and only distributes the last
	// view.
	farewell *farewell

	// silence is set only for AssumeCrash.
	silence *silence
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
	c := &Core{
		env:     env{cfg: cfg, rng: cfg.Seed ^ uint64(cfg.Self.ID), now: now},
		history: history{packFrom: cmp.Or(cfg.PackFrom, packFrom), gone: map[gossip.NodeID]bool{}},
		silence: newSilence(cfg.Partition), follower: follower{leaderlessSince: now},
		acceptor:  acceptor{attempts: map[gossip.Epoch]*attempt{}},
		evidence:  evidence{proofs: map[gossip.NodeID]*proof{}, early: map[gossip.NodeID]*proof{}, links: map[gossip.NodeID]bool{}},
		departure: departure{leavers: map[gossip.NodeID]bool{}},
	}
	c.wireMachines()
	return c
}

// wireMachines gives each machine those that it works with.
func (c *Core) wireMachines() {
	c.history.env = &c.env
	c.holder.history, c.evidence.history = &c.history, &c.history
	c.quorums = quorums{history: &c.history, evidence: &c.evidence, holder: &c.holder, silence: c.silence}
	c.acceptor.history, c.acceptor.evidence = &c.history, &c.evidence
	c.departure.history, c.departure.evidence = &c.history, &c.evidence
	c.follower.history, c.follower.holder, c.follower.acceptor = &c.history, &c.holder, &c.acceptor
	c.campaign.history, c.campaign.evidence, c.campaign.quorums = &c.history, &c.evidence, &c.quorums
	c.campaign.acceptor, c.campaign.departure, c.campaign.follower = &c.acceptor, &c.departure, &c.follower
	c.foreign.history, c.foreign.quorums, c.foreign.follower = &c.history, &c.quorums, &c.follower
	c.foreign.mayRule = func() bool { return c.leadership != nil && c.leadership.mayRule() }
	c.foreign.allHeard = func() bool { return c.leadership != nil && c.leadership.allHeard(c.view) }
	c.joining.history = &c.history
	c.lineage.history, c.lineage.evidence, c.lineage.follower, c.lineage.joining = &c.history, &c.evidence, &c.follower, &c.joining
	if o := c.leadership; o != nil {
		o.history, o.evidence, o.quorums, o.acceptor, o.holder = &c.history, &c.evidence, &c.quorums, &c.acceptor, &c.holder
		o.departure, o.foreign, o.membership = &c.departure, &c.foreign, &c.lineage.membership
		o.wireMachines()
	}
	if f := c.farewell; f != nil {
		f.history, f.evidence, f.quorums = &c.history, &c.evidence, &c.quorums
	}
	if c.silence != nil {
		c.silence.history, c.silence.evidence, c.silence.holder = &c.history, &c.evidence, &c.holder
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
			c.farewell.countAnswer(m.From, m.Msg)
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
		c.joining.onContacts(e.Nodes)
	case AnnounceLeave:
		c.departure.announced = true
	case Leave:
		c.onLeave()
	case ProvenDead:
		if c.evidence.onProof(e) {
			c.actOnProof(e.Subject)
		}
	case Alive:
		c.evidence.withdrawProof(e.Subject)
		if c.leadership != nil {
			delete(c.leadership.doubts.asked, e.Subject)
		}
	case Link:
		c.silence.signOfLife(e.Subject) // up, or up until now
		c.evidence.setLink(e.Subject, e.Up)
	case Unreachable:
		c.evidence.unreachable = slices.Clone(e.Nodes)
	case Yield:
		c.onYield(e.Subject, e.Reporter)
	case ForeignSeen:
		c.foreign.onForeign(e.Cluster, e.Nodes)
	}
}

// actOnProof makes the leader or candidate act on a new proof of a member's death.
func (c *Core) actOnProof(id gossip.NodeID) {
	c.requestReview()
	if id == c.follower.leader && c.evidence.certainlyDead(id) {
		c.follower.leaderlessSince = min(c.follower.leaderlessSince, c.now)
	}
	c.campaign.restartCampaign()
}

func (c *Core) receiveMessage(from gossip.NodeID, msg Message) {
	if !speaksForItself(from, msg) {
		c.traceEvent("message in another node's name, ignored", from, "")
		return
	}
	c.silence.signOfLife(from)
	if !c.lineage.mayAccept(from, msg) {
		return
	}
	switch m := msg.(type) {
	case *Ping:
		c.onPing(from, m)
	case *Pong:
		c.leadership.onPong(from, m)
	case *Accept:
		c.onAccept(from, m)
	case *PreVote:
		if c.learnView(from, m.Base) {
			c.acceptor.onPreVote(from, m)
		}
	case *PreVoted:
		c.campaign.onPreVoted(from, m)
	case *Prepare:
		if c.learnView(from, m.Base) && c.acceptor.onPrepare(from, m) {
			c.leaveField()
		}
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
		if c.leadership != nil {
			c.leadership.queueNotice(from)
		}
	case *YieldRequest:
		if c.leadership != nil {
			c.onYield(m.Subject, from)
		}
	case *Doubt:
		c.sendTo(from, &Doubted{Ballot: m.Ballot, Asked: m.Dead, Linked: c.evidence.linkedOf(m.Dead)})
	case *Doubted:
		c.leadership.onDoubted(from, m)
	case *Contest:
		c.onContest(from, m)
	case *Contested:
		if c.lineage.onContested(from, m) {
			c.stepAside(m.View.View)
		}
	default:
		if c.foreign.receiveForeign(from, msg) {
			c.requestReview()
		}
	}
}

// driveStep advances the part that this node plays, and reports whether anything changed.
func (c *Core) driveStep() bool {
	moved := c.departure.leaving && c.driveLeave()
	moved = !c.ended && (c.driveAnnounce() || c.assumeDeaths()) || moved
	switch {
	case c.ended:
		return false
	case c.view == nil:
		return c.joining.driveJoining() || moved
	case c.leadership != nil:
		return c.driveLeader() || moved
	case c.campaign.candidacy != nil:
		w, won, changed := c.campaign.advanceCandidacy()
		if won {
			c.becomeLeader(w)
		}
		return changed || moved
	}
	return c.driveCampaign() || moved
}

// assumeDeaths acts on the deaths that silence makes this node assume.
func (c *Core) assumeDeaths() bool {
	assumed := c.silence.driveAssume()
	for _, id := range assumed {
		c.actOnProof(id)
	}
	return len(assumed) > 0
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
	if c.departure.leaving {
		d = c.departure.nextLeave
	}
	if c.departure.announces() {
		d = clock.Min(d, c.departure.nextAnnounce)
	}
	d = clock.Min(d, c.silence.assumeAt())
	switch {
	case c.view == nil:
		return clock.Min(d, c.joining.joiningDeadline())
	case c.leadership != nil:
		return clock.Min(d, c.leadership.leaderDeadline())
	case c.campaign.candidacy != nil:
		return clock.Min(d, c.campaign.candidacy.wakeAt())
	}
	return clock.Min(d, c.campaign.campaignAt())
}

// formCluster makes this node the only member of a new cluster.
func (c *Core) formCluster(f Form) {
	if c.view != nil || c.departure.leaving {
		return
	}
	c.noteGeneration(max(f.Generation, 1))
	epoch := gossip.FormingEpoch(c.generation, f.Millisecond)
	id := c.random() | 1
	c.lineage.membership.secret = f.Secret
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
			reason := c.reasonLeftOut(v)
			if c.departure.leaving {
				reason = "left"
			}
			c.endIncarnation(v.Epoch, reason)
		}
		return
	}
	if c.view != nil && (me.Joined > c.joined || me.Status < c.status) {
		c.endIncarnation(v.Epoch, "removed and admitted again under the same id")
		return
	}
	if c.view == nil {
		c.follower.pingedAt = c.now
	}
	for _, id := range c.advanceTo(v, me) {
		c.evidence.forgetMember(id)
		delete(c.departure.leavers, id)
	}
	c.silence.meetMembers(v)
	c.evidence.countEarlyProofs()
	c.acceptor.dropSuperseded()
	c.campaign.candidacy = nil
	if c.follower.leader == 0 || v.Member(c.follower.leader) == nil {
		c.follower.leader, c.follower.leaderlessSince = 0, min(c.follower.leaderlessSince, c.now)
		c.departure.repeatLeave()
	}
	c.out.View = v
	c.traceEvent("view", 0, fmt.Sprintf("%d members", len(v.Members)))
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
	case older:
		c.sendTo(from, &Decided{View: c.ref()})
	case wins:
		c.sendTo(from, &Decided{View: Whole(c.view)})
	case loses:
		c.lineage.noteLineage(from, v)
		if c.lineage.confirmPeer(from, v) {
			c.stepAside(v.View)
		}
	case otherCluster:
		c.traceEvent("other cluster", from, "view of another cluster")
	}
	return false
}

// endIncarnation ends the incarnation: it drops all instances and its lease.
func (c *Core) endIncarnation(epoch gossip.Epoch, reason string) {
	c.ended = true
	c.leadership, c.campaign.candidacy = nil, nil
	c.holder.dropLease()
	c.out.Abandon = true
	c.out.Removed = &gossip.Removed{Epoch: epoch, Reason: reason}
	c.traceEvent("removed", c.self(), reason)
}
