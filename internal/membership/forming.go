package membership

import (
	"cmp"
	"math/rand/v2"
	"net/netip"
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
	// waitingEvery is how often a node that finds no cluster logs that.
	waitingEvery = 10 * time.Second
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
	rng  *rand.Rand
	// wall returns the wall clock, for the first epoch.
	wall func() time.Time

	// own are the configured contact points as resolved; resolved is set after the first
	// resolution.
	own      []string
	resolved bool
	points   map[string]*point
	// order holds the points sorted by address.
	order []*point
	// named caches allPoints; nil when it must be recomputed.
	named []string
	// wake is when stepForming must next run; an earlier call does nothing.
	wake clock.Instant
	// alias maps a listed address to the one advertised by the node that answered there.
	alias map[string]string

	view *gossip.View
	// live is set while the node holds a lease.
	live bool

	// set is the last list of candidates and answers, unchanged since setSince.
	set      string
	setSince clock.Instant

	claim     *claimed
	claimNext clock.Instant
	round     uint64
	promise   struct {
		to    gossip.NodeID
		until clock.Instant
	}

	// deadSince is since when the lease has been gone and the view beyond help.
	deadSince clock.Instant
	// lostSince is since when the node has been in a view without a lease.
	lostSince clock.Instant
	logNext   clock.Instant
	foreign   foreigners
	// yieldedAt is since when the view's cluster has yielded to another.
	yieldedAt clock.Instant
}

// claimed is a claim in flight.
type claimed struct {
	round   uint64
	sentAt  clock.Instant
	waiting map[gossip.NodeID]bool
}

// point is an address at which a node may be found.
type point struct {
	addr string
	// listed is set on this node's own contact points, former on its FormerMembers.
	listed, former bool
	// keepUntil is until when it is tried: a former member, or a contact point that
	// another node has listed.
	keepUntil clock.Instant
	peer      gossip.NodeID
	info      *contact
	infoAt    clock.Instant
	// askedAt is since when its node has been asked without an answer.
	askedAt clock.Instant
	probing bool
	next    clock.Instant
	wait    time.Duration
	// cause is the reason of its last failure.
	cause string
}

func (p *point) isFresh(now clock.Instant) bool {
	return p.info != nil && now.Sub(p.infoAt) <= freshFor
}

func newForming(self gossip.Node, cfg *Config, wall func() time.Time) *forming {
	return &forming{
		self: self, cfg: cfg, wall: wall,
		rng:    rand.New(rand.NewPCG(cfg.Seed, uint64(self.ID))),
		points: map[string]*point{},
		alias:  map[string]string{},
	}
}

// resolve sets the contact points, resolved to addresses.
func (f *forming) resolve(now clock.Instant, addrs []string) {
	f.own, f.resolved, f.named, f.wake = addrs, true, nil, now
	for _, p := range f.order {
		p.listed = false
	}
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
	addr = f.canonical(addr)
	p := f.points[addr]
	if p == nil && addr != f.self.Addr && len(f.points) < strangersMax+contactPointsMax {
		p = f.addPoint(&point{addr: addr, next: now})
		f.wake = now
	}
	return p
}

// addPoint inserts a new point in order.
func (f *forming) addPoint(p *point) *point {
	f.points[p.addr] = p
	i, _ := slices.BinarySearchFunc(f.order, p.addr, func(q *point, addr string) int { return compareAddrs(q.addr, addr) })
	f.order = slices.Insert(f.order, i, p)
	return p
}

func (f *forming) removePoint(p *point) {
	delete(f.points, p.addr)
	f.order = slices.DeleteFunc(f.order, func(q *point) bool { return q == p })
	f.named = nil
}

func (f *forming) canonical(addr string) string {
	if a := f.alias[addr]; a != "" {
		return a
	}
	return addr
}

// discovered handles a node that a connection has identified.
func (f *forming) discovered(now clock.Instant, n transport.Peer) {
	if n.ID == f.self.ID || n.Addr == f.self.Addr {
		return
	}
	p := f.points[n.Addr]
	if p == nil {
		if len(f.points) >= strangersMax {
			return
		}
		p = f.addPoint(&point{addr: n.Addr, next: now})
	}
	if p.peer != n.ID {
		p.peer, p.next, p.askedAt, f.wake = n.ID, now, 0, now
		f.dropAnswer(p)
	}
}

// tracks reports whether a node is already probed.
func (f *forming) tracks(n transport.Peer) bool {
	p := f.points[n.Addr]
	return p != nil && p.peer == n.ID
}

// onNodeLost handles the loss of the last connection to a node.
func (f *forming) onNodeLost(now clock.Instant, n transport.Peer) {
	p := f.points[n.Addr]
	if p == nil || p.peer != n.ID {
		return
	}
	f.dropAnswer(p)
	p.peer, p.wait, p.next, p.askedAt = 0, 0, now.Add(probeMin), 0
	f.wake = clock.Min(f.wake, p.next)
	if !f.isWanted(now, p) {
		f.removePoint(p)
	}
}

// isWanted reports whether a point is probed even without a node there.
func (f *forming) isWanted(now clock.Instant, p *point) bool {
	return p.listed || p.former && f.view == nil || now.Before(p.keepUntil)
}

// dropAnswer drops the answer of a point's node.
func (f *forming) dropAnswer(p *point) {
	if p.info != nil {
		p.info, f.named = nil, nil
	}
}

// onProbe handles the outcome of a probe of a contact point.
func (f *forming) onProbe(now clock.Instant, addr string, who transport.Peer, err error, a *actions) {
	p := f.points[addr]
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
		f.movePoint(p, who.Addr)
	}
	if who.ID == f.self.ID {
		f.removePoint(p)
		return
	}
	p.peer = who.ID
	a.learn = append(a.learn, who)
	f.askPoint(now, p, a)
}

// movePoint moves a point to the address that its node advertises.
func (f *forming) movePoint(p *point, addr string) {
	f.alias[p.addr] = addr
	f.removePoint(p)
	if known := f.points[addr]; known != nil {
		p.listed, p.former = known.listed || p.listed, known.former || p.former
		p.info, p.infoAt = known.info, known.infoAt
		f.removePoint(known)
	}
	p.addr = addr
	f.addPoint(p)
}

// logFailure logs why a contact point does not answer, once per distinct cause. A refused
// connection is logged only for this node's own contact points, and only while it is in
// no cluster.
func (f *forming) logFailure(p *point, err error, a *actions) {
	cause := causeOf(err)
	if cause == p.cause {
		return
	}
	p.cause = cause
	if f.view == nil && p.listed || !strings.HasPrefix(cause, nothingListens) {
		a.addWarning("contact point does not answer", p.addr+": "+cause)
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
		return askEvery
	}
	return f.cfg.Discovery.RejoinInterval
}

// contact returns a description of this node and its cluster.
func (f *forming) contact(ask bool) *contact {
	m := &contact{Ask: ask, From: f.self, Points: f.ownPoints(), Epoch: gossip.Epoch(f.cfg.MinGeneration) << 32, Origin: f.cfg.Origin}
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

// ownPoints lists this node's own contact points, sorted. Only these are sent to other nodes:
// addresses learned from other nodes and sent on would never disappear.
func (f *forming) ownPoints() []string {
	return f.sortAddrs(slices.Clone(f.own))
}

// sortAddrs replaces addresses by those advertised there, sorts them and drops
// duplicates, in place.
func (f *forming) sortAddrs(addrs []string) []string {
	for i, addr := range addrs {
		addrs[i] = f.canonical(addr)
	}
	slices.SortFunc(addrs, compareAddrs)
	return slices.Compact(addrs)
}

// allPoints lists the contact points of this node and of the nodes that answer, sorted.
func (f *forming) allPoints() []string {
	if f.named != nil {
		return f.named
	}
	all := f.ownPoints()
	for _, p := range f.order {
		if p.info != nil {
			for _, q := range p.info.Points {
				all = append(all, f.canonical(q))
			}
		}
	}
	slices.SortFunc(all, compareAddrs)
	f.named = slices.Compact(all)
	return f.named
}

// onContact handles another node's contact message.
func (f *forming) onContact(now clock.Instant, from gossip.NodeID, m *contact, a *actions) {
	if m.From.ID != from || from == f.self.ID {
		return
	}
	f.discovered(now, transport.Peer{ID: from, Name: m.From.Name, Addr: m.From.Addr})
	a.learn = append(a.learn, transport.Peer{ID: from, Name: m.From.Name, Addr: m.From.Addr})
	p := f.points[m.From.Addr]
	if p == nil {
		return
	}
	news := !p.isFresh(now)
	if p.info == nil || !slices.Equal(p.info.Points, m.Points) {
		f.named = nil
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
		f.claim = nil
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
	f.claim = nil
	// Nodes that wait for a cluster should learn of it before their next question.
	for _, p := range f.order {
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

// compareAddrs orders addresses, numerically if they are IP addresses.
func compareAddrs(a, b string) int {
	x, errX := netip.ParseAddrPort(a)
	y, errY := netip.ParseAddrPort(b)
	if errX == nil && errY == nil {
		return x.Compare(y)
	}
	return cmp.Compare(a, b)
}
