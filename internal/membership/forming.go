package membership

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/transport"
)

const (
	// askEvery is the interval at which a node without a view asks contact points that
	// answer.
	askEvery = 100 * time.Millisecond
	// askedOften is how many contact points a node asks at this interval. It asks more of them less
	// often: with n nodes, n*n of these questions are in flight.
	askedOften = 16
	// askSeldom bounds the interval. An answer still counts when one of the next two is lost.
	askSeldom = freshFor / 3
	// freshFor is how long an answer counts.
	freshFor = 10 * askEvery
	// probeMin and probeMax bound the back-off towards contact points that do not
	// answer.
	probeMin = 20 * time.Millisecond
	probeMax = time.Second
	// claimFor is how long a claim may take; promiseFor is how long a node that granted
	// it grants no other. The gap covers clocks with different rates.
	claimFor   = 300 * time.Millisecond
	promiseFor = time.Second
	// waitingSoon is after how long a node that finds no cluster logs that, waitingFirst after
	// how long it warns, and waitingEvery how often then.
	waitingSoon  = 3 * time.Second
	waitingFirst = 10 * time.Second
	waitingEvery = time.Minute
	// formerFor is how long the address of a former member is tried, namedFor that of a
	// contact point since another node last listed it.
	formerFor = 10 * time.Minute
	namedFor  = 10 * time.Second
	// unresponsiveAfter is how long a contact point may leave questions unanswered.
	unresponsiveAfter = 2 * time.Second
	// strangersMax bounds the tracked nodes that are not contact points.
	strangersMax = 1024
)

// forming decides when a node without a view forms a new cluster, and searches for other
// clusters for as long as the node lives. It is a plain state machine; the loop owns it.
//
// All nodes with the same contact points must end in one cluster, whenever they start and
// whichever of them are up. So:
//
//  1. A node keeps asking every contact point for its identity, its contact points, and
//     its cluster. As soon as one belongs to a cluster, the node asks for admission there
//     and forms none.
//  2. The candidates are the contact points in this node's list and in the lists of
//     those that answer. The lowest candidate that answers may form a cluster when, of
//     its own list and itself, a majority answers, and at least BootstrapExpect. Lists of
//     other nodes never raise that number, and former members are only addresses to
//     probe: both may name addresses that will never answer again.
//  3. If all candidates answer and agree on the list, it does so immediately; otherwise
//     after settleFor without a change. A living cluster probes its lost members and its
//     contact points at least every RejoinInterval, so it is found first.
//  4. Before it does, it claims: every answering candidate must promise, for a while, to
//     let no other node form one. A node that has found a lower candidate, or has a view,
//     or has promised, refuses. So two claims that both reach a majority of the contact
//     points cannot both succeed, however late messages arrive.
type forming struct {
	self gossip.Node
	cfg  *Config
	// wall returns the wall clock, for the first epoch.
	wall func() time.Time

	points pointTable
	// wake is when stepForming must next run; an earlier call does nothing.
	wake clock.Instant

	view *gossip.View
	// live is set while the node holds a lease.
	live bool

	// set is the last list of candidates and answers, unchanged since setSince.
	set      string
	setSince clock.Instant

	claims claims

	// deadSince is since when the lease has been gone and the view beyond help.
	deadSince clock.Instant
	// lostSince is since when the node has been in a view without a lease.
	lostSince clock.Instant
	// logNext is when the node logs that it finds no cluster; waiting is set once it did.
	logNext clock.Instant
	waiting bool
	foreign foreigners
	// yieldedAt is since when the view's cluster has yielded to another.
	yieldedAt clock.Instant
}

func newForming(self gossip.Node, cfg *Config, wall func() time.Time) *forming {
	return &forming{
		self: self, cfg: cfg, wall: wall,
		points: newPointTable(self.Addr),
		claims: claims{self: self.ID, rng: rand.New(rand.NewPCG(cfg.Seed, uint64(self.ID)))},
	}
}

// stepForming performs the due actions.
func (f *forming) stepForming(now clock.Instant, a *actions) {
	if now.Before(f.wake) {
		return
	}
	for _, p := range slices.Clone(f.points.order) {
		if !p.probing && !now.Before(p.next) {
			f.visitPoint(now, p, a)
		}
	}
	if f.view == nil {
		f.decideForming(now, a)
	} else {
		f.endBeyondHelp(now, a)
		f.checkDissolve(now, a)
	}
	f.wake = f.nextWake(now)
}

// visitPoint asks the node at a point, or dials the point to find its node.
func (f *forming) visitPoint(now clock.Instant, p *point, a *actions) {
	if p.peer != 0 && p.info != nil && now.Sub(p.infoAt) > 3*f.askInterval()+freshFor {
		p.peer = 0
		f.points.dropAnswer(p)
	}
	switch {
	case f.view != nil && f.member(p.peer):
		p.next = clock.Never
	case p.peer != 0:
		f.askPoint(now, p, a)
	case f.isWanted(now, p):
		p.probing = true
		a.probe = append(a.probe, p.addr)
	default:
		f.points.removePoint(p)
	}
}

func (f *forming) member(id gossip.NodeID) bool { return id != 0 && f.view.Member(id) != nil }

// nextStepAt returns when stepForming must next be called.
func (f *forming) nextStepAt() clock.Instant { return f.wake }

func (f *forming) nextWake(now clock.Instant) clock.Instant {
	d := f.points.nextVisitAt()
	if f.view != nil {
		if f.deadSince != 0 && f.cfg.ReformAfter >= 0 {
			d = clock.Min(d, f.deadSince.Add(f.cfg.ReformAfter))
		}
		if f.yieldedAt != 0 {
			d = clock.Min(d, f.yieldedAt.Add(dissolveAfter))
		}
		return d
	}
	d = clock.Min(d, f.claims.nextClaimAt(now))
	if at := f.setSince.Add(f.settleFor()); f.setSince != 0 && now.Before(at) {
		d = clock.Min(d, at)
	}
	if f.logNext.After(now) { // no warning while a cluster is in sight
		d = clock.Min(d, f.logNext)
	}
	return d
}

// resolve sets the contact points, resolved to addresses.
func (f *forming) resolve(now clock.Instant, addrs []string) {
	f.points.setOwn(addrs)
	f.wake = now
	for _, a := range addrs {
		if p := f.lookAt(now, a); p != nil {
			p.listed = true
		}
	}
	if f.view != nil {
		return
	}
	for _, a := range f.cfg.FormerMembers {
		if p := f.lookAt(now, a); p != nil {
			p.former = true
		}
	}
}

// lookAt makes sure that an address is probed, and returns its point: nil for our own,
// and when there are too many.
func (f *forming) lookAt(now clock.Instant, addr string) *point {
	p, added := f.points.findOrAdd(now, addr)
	if added {
		f.wake = now
	}
	return p
}

// discovered handles a node that a connection has identified.
func (f *forming) discovered(now clock.Instant, n transport.Peer) {
	if n.ID == f.self.ID || n.Addr == f.self.Addr {
		return
	}
	p := f.points.byAddr[n.Addr]
	if p == nil {
		if len(f.points.byAddr) >= strangersMax {
			return
		}
		p = f.points.addPoint(&point{addr: n.Addr, next: now})
	}
	if p.peer != n.ID {
		p.peer, p.next, p.askedAt, f.wake = n.ID, now, 0, now
		f.points.dropAnswer(p)
	}
}

// onNodeLost handles the loss of the last connection to a node.
func (f *forming) onNodeLost(now clock.Instant, n transport.Peer) {
	p := f.points.byAddr[n.Addr]
	if p == nil || p.peer != n.ID {
		return
	}
	f.points.dropAnswer(p)
	p.peer, p.wait, p.next, p.askedAt = 0, 0, now.Add(probeMin), 0
	f.wake = clock.Min(f.wake, p.next)
	if !f.isWanted(now, p) {
		f.points.removePoint(p)
	}
}

// isWanted reports whether a point is probed even without a node there.
func (f *forming) isWanted(now clock.Instant, p *point) bool {
	return p.listed || p.former && f.view == nil || now.Before(p.keepUntil)
}

// onProbe handles the outcome of a probe of a contact point.
func (f *forming) onProbe(now clock.Instant, addr string, who transport.Peer, err error, a *actions) {
	p := f.points.byAddr[addr]
	if p == nil {
		return
	}
	p.probing, f.wake = false, now
	if err != nil {
		p.wait = min(max(2*p.wait, probeMin), max(probeMax, f.askInterval()))
		p.next = now.Add(p.wait)
		f.logFailure(p, err, a)
		return
	}
	p.wait = 0
	if who.Addr != addr {
		f.points.movePoint(p, who.Addr)
	}
	if who.ID == f.self.ID {
		f.points.removePoint(p)
		return
	}
	p.peer = who.ID
	a.learn = append(a.learn, who)
	f.askPoint(now, p, a)
}

// logFailure logs why a contact point does not answer, once per distinct cause. A refused
// connection is no warning yet: when nodes start, some come later. If no cluster is found,
// logWaiting names it.
func (f *forming) logFailure(p *point, err error, a *actions) {
	cause := causeOf(err)
	if cause == p.cause {
		return
	}
	p.cause = cause
	if !strings.HasPrefix(cause, nothingListens) {
		a.addWarning("contact point does not answer", p.addr+": "+cause)
	} else if f.view == nil && p.listed {
		a.addNote("contact point does not answer", 0, p.addr+": "+cause)
	}
}

func (f *forming) askPoint(now clock.Instant, p *point, a *actions) {
	if p.askedAt == 0 {
		p.askedAt = now
	}
	if now.Sub(p.askedAt) > unresponsiveAfter && f.view == nil {
		f.logFailure(p, errUnresponsive{f.self.Addr}, a)
	}
	a.addMessage(p.peer, f.contact(true))
	p.next = now.Add(f.askInterval())
}

// askInterval returns the interval between questions to one contact point.
func (f *forming) askInterval() time.Duration {
	if f.view == nil {
		return min(askEvery*time.Duration(max(len(f.points.order), askedOften))/askedOften, askSeldom)
	}
	return f.cfg.Discovery.RejoinInterval
}

// contact returns a description of this node and its cluster.
func (f *forming) contact(ask bool) *contact {
	m := &contact{Ask: ask, From: f.self, Points: f.points.ownPoints(), Epoch: gossip.Epoch(f.cfg.MinGeneration) << 32, Origin: f.cfg.Origin}
	if len(m.Points) > contactPointsOnMsg {
		m.Points = m.Points[:contactPointsOnMsg]
	}
	if y := f.view.Yields(); y != nil {
		// Nodes that search for a cluster are redirected to the one that stands.
		m.Cluster, m.Members = y.Cluster, y.Nodes
	} else if f.view != nil {
		m.Cluster, m.Epoch, m.Origin, m.Live = f.view.Cluster, f.view.Epoch, f.view.Origin, f.live
		for i := range f.view.Members {
			if len(m.Members) < contactMembersMax {
				m.Members = append(m.Members, f.view.Members[i].Node)
			}
		}
	}
	return m
}

// onContact handles another node's contact message.
func (f *forming) onContact(now clock.Instant, from gossip.NodeID, m *contact, a *actions) {
	if m.From.ID != from || from == f.self.ID {
		return
	}
	f.discovered(now, transport.Peer{ID: from, Name: m.From.Name, Addr: m.From.Addr})
	a.learn = append(a.learn, transport.Peer{ID: from, Name: m.From.Name, Addr: m.From.Addr})
	p := f.points.byAddr[m.From.Addr]
	if p == nil {
		return
	}
	news := !p.isFresh(now)
	if p.info == nil || !slices.Equal(p.info.Points, m.Points) {
		f.points.named = nil
	}
	p.info, p.infoAt, p.askedAt, p.cause = m, now, 0, ""
	p.next, f.wake = now.Add(f.askInterval()), now
	if f.view == nil {
		for _, q := range m.Points {
			if p := f.lookAt(now, q); p != nil {
				p.keepUntil = now.Add(namedFor)
			}
		}
	}
	if m.Ask {
		a.addMessage(from, f.contact(false))
	} else if news && f.view == nil {
		// It may not have met this node: it should count us as soon as we count it.
		a.addMessage(from, f.contact(false))
	}
	if m.Cluster != 0 {
		f.foundCluster(now, m, a)
	}
	f.stepForming(now, a)
}

// foundCluster handles the message of a node that belongs to a cluster.
func (f *forming) foundCluster(now clock.Instant, m *contact, a *actions) {
	if f.view == nil {
		f.claims.dropClaim()
		nodes := []gossip.Node{m.From}
		for _, n := range m.Members {
			if n.ID != f.self.ID && n.ID != m.From.ID {
				nodes = append(nodes, n)
				a.learn = append(a.learn, transport.Peer{ID: n.ID, Name: n.Name, Addr: n.Addr})
			}
		}
		a.core = append(a.core, view.Contacts{Nodes: nodes})
		return
	}
	if m.Cluster == f.view.Cluster {
		// Also when the epochs are equal: two takeovers may have opened one generation.
		if f.view.Member(m.From.ID) == nil {
			a.show = append(a.show, m.From.ID)
		}
		return
	}
	if !m.Live {
		return
	}
	if f.lostSince != 0 && now.Sub(f.lostSince) > f.cfg.RemoveAfter+f.cfg.Lease {
		a.over, a.outranked = reasonOvertaken+m.From.Addr, true
		return
	}
	f.onForeign(now, m, a)
}

// onView handles a newer view.
func (f *forming) onView(now clock.Instant, v *gossip.View, a *actions) {
	former := f.view
	f.view, f.wake = v, now
	f.seekFormer(now, former, v)
	if !f.live && f.lostSince == 0 {
		// A joiner has never held a lease: its cluster may be lost before it gets one.
		f.lostSince = now
	}
	if former != nil {
		return
	}
	f.claims.dropClaim()
	// Nodes that wait for a cluster should learn of it before their next question.
	for _, p := range f.points.order {
		if p.former {
			p.keepUntil = now.Add(formerFor)
		}
		if p.peer != 0 && p.isFresh(now) && p.info.Cluster == 0 {
			a.addMessage(p.peer, f.contact(false))
		}
	}
}

// seekFormer probes members that the newer view leaves out, except those that have left:
// they may only have been cut off, and a healed network must reunite. No other list may
// hold their addresses: the points of lost nodes are dropped, and contact points may
// resolve to new hosts.
func (f *forming) seekFormer(now clock.Instant, former, v *gossip.View) {
	for i := 0; former != nil && i < len(former.Members); i++ {
		m := &former.Members[i]
		left := slices.ContainsFunc(v.Out, func(d gossip.Departure) bool { return d.ID == m.ID && d.Cause == gossip.CauseLeft })
		if left || v.Member(m.ID) != nil {
			continue
		}
		if p := f.lookAt(now, m.Addr); p != nil {
			p.keepUntil, p.next = now.Add(formerFor), now
		}
	}
}

// onLease records the state of the lease.
func (f *forming) onLease(now clock.Instant, valid bool) {
	f.live = valid
	switch {
	case valid:
		f.lostSince, f.deadSince = 0, 0
	case f.view != nil && f.lostSince == 0:
		f.lostSince = now
	}
}

// endBeyondHelp ends an incarnation whose view has been beyond help for ReformAfter. The next
// incarnation is a fresh node: it joins a living cluster, or forms one with enough of the
// contact points, among them the other members of the view, which end likewise, and dead
// members that have restarted.
func (f *forming) endBeyondHelp(now clock.Instant, a *actions) {
	if f.deadSince == 0 || f.cfg.ReformAfter < 0 || now.Sub(f.deadSince) < f.cfg.ReformAfter {
		return
	}
	a.quorumLost = true
	a.over = "the lease has ended, too many members are proven dead for a quorum, and no cluster was found: this node joins or forms a new one"
}

// beyondHelp records whether the view can never act again.
func (f *forming) beyondHelp(now clock.Instant, lost bool) {
	switch {
	case !lost || f.live || f.view == nil:
		f.deadSince = 0
	case f.deadSince == 0:
		f.deadSince, f.wake = now, now
	}
}
