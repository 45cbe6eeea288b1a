package gossip

import (
	"cmp"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/gossip/transport"
	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/internal/clock"
)

const (
	// askEvery is the pace at which a node without a view asks contact points that
	// answer.
	askEvery = 100 * time.Millisecond
	// freshFor is how long an answer counts.
	freshFor = 10 * askEvery
	// probeMin and probeMax bound the back-off towards contact points that do not
	// answer.
	probeMin = 20 * time.Millisecond
	probeMax = time.Second
	// claimFor is how long a claim may take; promiseFor is how long those who
	// granted it grant no other. The gap covers clocks that run differently.
	claimFor   = 300 * time.Millisecond
	promiseFor = time.Second
	// waitingEvery is how often a node that finds no cluster says so.
	waitingEvery = 10 * time.Second
	// formerFor is how long the address of a former member is tried, namedFor that of
	// a contact point since another node last named it.
	formerFor = 10 * time.Minute
	namedFor  = 10 * time.Second
	// muteAfter is how long a contact point may leave questions without an answer.
	muteAfter = 2 * time.Second
	// strangersMax bounds the nodes that are known beside the contact points.
	strangersMax = 1024
)

// forming decides when a node without a view forms a new cluster, and keeps
// looking for clusters for as long as the node lives. It is a plain state machine;
// the loop owns it.
//
// All nodes that were given the same contact points must end in one cluster,
// whenever they start and whichever of them are there. So:
//
//  1. A node asks every contact point, for ever, who it is, which contact points it
//     was given, and whether it belongs to a cluster. As soon as one does, the node
//     asks to be let in there and forms nothing.
//  2. The candidates are the contact points in this node's list and in the lists of
//     those that answer. The lowest candidate that answers may form a cluster when, of
//     its own list and itself, a majority answers, and at least BootstrapExpect. Lists of
//     other nodes never raise that number, and former members are places to look only:
//     both may name addresses that will never answer again.
//  3. If all candidates answer and agree on the list, it does so immediately; otherwise
//     after settleFor without a change. A cluster that lives looks for its lost members
//     and its contact points at least every RejoinInterval, so it is found first.
//  4. Before it does, it claims: every answering candidate must promise, for a
//     while, to let nobody else form one. Who knows a lower candidate, or has a view,
//     or has promised, refuses. So two claims that both reach a majority of the
//     contact points cannot both succeed, however late news travels.
type forming struct {
	self view.Node
	cfg  *Config
	rng  *rand.Rand
	// wall returns the wall clock, for the first epoch.
	wall func() time.Time

	// own are the contact points as given and resolved; resolved is set once they are
	// known.
	own      []string
	resolved bool
	points   map[string]*point
	// order holds the points sorted by address.
	order []*point
	// named caches union; nil when it must be made anew.
	named []string
	// wake is when step is wanted next; a step before that does nothing.
	wake clock.Instant
	// alias maps an address as listed to the one advertised by who answered there.
	alias map[string]string

	view *view.View
	// live says that the node holds a lease.
	live bool

	// set is the last list of candidates and answers, unchanged since setSince.
	set      string
	setSince clock.Instant

	claim     *claimed
	claimNext clock.Instant
	round     uint64
	promise   struct {
		to    view.NodeID
		until clock.Instant
	}

	// deadSince is since when the lease has been gone and the view beyond help.
	deadSince clock.Instant
	// lostSince is since when the node has stood in a view without a lease.
	lostSince clock.Instant
	sayNext   clock.Instant
	foreign   foreigners
	// yieldedAt is since when the view's cluster has yielded to another.
	yieldedAt clock.Instant
}

// claimed is a claim under way.
type claimed struct {
	round   uint64
	sentAt  clock.Instant
	waiting map[view.NodeID]bool
}

// point is an address at which a node may be found.
type point struct {
	addr string
	// listed is set on this node's own contact points, former on its FormerMembers.
	listed, former bool
	// keepUntil makes it be tried for a while: a former member, or a contact point
	// that another node has named.
	keepUntil clock.Instant
	peer      view.NodeID
	info      *contact
	infoAt    clock.Instant
	// askedAt is since when its node has been asked without an answer.
	askedAt clock.Instant
	probing bool
	next    clock.Instant
	wait    time.Duration
	// cause is why it last failed.
	cause string
}

func (p *point) fresh(now clock.Instant) bool {
	return p.info != nil && now.Sub(p.infoAt) <= freshFor
}

func newForming(self view.Node, cfg *Config, wall func() time.Time) *forming {
	return &forming{
		self: self, cfg: cfg, wall: wall,
		rng:    rand.New(rand.NewPCG(cfg.Seed, uint64(self.ID))),
		points: map[string]*point{},
		alias:  map[string]string{},
	}
}

// resolve takes the contact points, resolved to addresses.
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

// lookAt makes sure that an address is looked at, and returns its point: nil for
// our own, and when there are too many.
func (f *forming) lookAt(now clock.Instant, addr string) *point {
	addr = f.canonical(addr)
	p := f.points[addr]
	if p == nil && addr != f.self.Addr && len(f.points) < strangersMax+contactPointsMax {
		p = f.add(&point{addr: addr, next: now})
		f.wake = now
	}
	return p
}

// add keeps a new point in order.
func (f *forming) add(p *point) *point {
	f.points[p.addr] = p
	i, _ := slices.BinarySearchFunc(f.order, p.addr, func(q *point, addr string) int { return compareAddrs(q.addr, addr) })
	f.order = slices.Insert(f.order, i, p)
	return p
}

func (f *forming) remove(p *point) {
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

// discovered takes a node that a connection has shown.
func (f *forming) discovered(now clock.Instant, n transport.Peer) {
	if n.ID == f.self.ID || n.Addr == f.self.Addr {
		return
	}
	p := f.points[n.Addr]
	if p == nil {
		if len(f.points) >= strangersMax {
			return
		}
		p = f.add(&point{addr: n.Addr, next: now})
	}
	if p.peer != n.ID {
		p.peer, p.next, p.askedAt, f.wake = n.ID, now, 0, now
		f.forget(p)
	}
}

// knows reports whether a node is looked for already.
func (f *forming) knows(n transport.Peer) bool {
	p := f.points[n.Addr]
	return p != nil && p.peer == n.ID
}

// lost takes the news that no connection to a node stands.
func (f *forming) lost(now clock.Instant, n transport.Peer) {
	p := f.points[n.Addr]
	if p == nil || p.peer != n.ID {
		return
	}
	f.forget(p)
	p.peer, p.wait, p.next, p.askedAt = 0, 0, now.Add(probeMin), 0
	f.wake = clock.Min(f.wake, p.next)
	if !f.wanted(now, p) {
		f.remove(p)
	}
}

// wanted reports whether a point is looked at even when no node is known there.
func (f *forming) wanted(now clock.Instant, p *point) bool {
	return p.listed || p.former && f.view == nil || now.Before(p.keepUntil)
}

// forget drops what a point's node has said.
func (f *forming) forget(p *point) {
	if p.info != nil {
		p.info, f.named = nil, nil
	}
}

// probed takes the outcome of a look at a contact point.
func (f *forming) probed(now clock.Instant, addr string, who transport.Peer, err error, a *actions) {
	p := f.points[addr]
	if p == nil {
		return
	}
	p.probing, f.wake = false, now
	if err != nil {
		p.wait = min(max(2*p.wait, probeMin), max(probeMax, f.pace()))
		p.next = now.Add(p.wait)
		f.failed(p, err, a)
		return
	}
	p.wait = 0
	if who.Addr != addr {
		f.rename(p, who.Addr)
	}
	if who.ID == f.self.ID {
		f.remove(p)
		return
	}
	p.peer = who.ID
	a.learn = append(a.learn, who)
	f.ask(now, p, a)
}

// rename moves a point to the address that who answers there advertises.
func (f *forming) rename(p *point, addr string) {
	f.alias[p.addr] = addr
	f.remove(p)
	if known := f.points[addr]; known != nil {
		p.listed, p.former = known.listed || p.listed, known.former || p.former
		p.info, p.infoAt = known.info, known.infoAt
		f.remove(known)
	}
	p.addr = addr
	f.add(p)
}

// failed logs why a contact point does not answer, once per distinct cause. That nothing
// listens where others have met somebody, or when this node is in a cluster, is no news.
func (f *forming) failed(p *point, err error, a *actions) {
	cause := causeOf(err)
	if cause == p.cause {
		return
	}
	p.cause = cause
	if f.view == nil && p.listed || !strings.HasPrefix(cause, nothingListens) {
		a.warn("contact point does not answer", p.addr+": "+cause)
	}
}

func (f *forming) ask(now clock.Instant, p *point, a *actions) {
	if p.askedAt == 0 {
		p.askedAt = now
	}
	if now.Sub(p.askedAt) > muteAfter && f.view == nil {
		f.failed(p, errMute{f.self.Addr}, a)
	}
	a.tell(p.peer, f.contact(true))
	p.next = now.Add(f.pace())
}

// pace is the interval between questions to one contact point.
func (f *forming) pace() time.Duration {
	if f.view == nil {
		return askEvery
	}
	return f.cfg.Discovery.RejoinInterval
}

// contact says where this node stands.
func (f *forming) contact(ask bool) *contact {
	m := &contact{Ask: ask, From: f.self, Points: f.given(), Epoch: view.Epoch(f.cfg.MinGeneration) << 32, Origin: f.cfg.Origin}
	if len(m.Points) > contactPointsOnMsg {
		m.Points = m.Points[:contactPointsOnMsg]
	}
	if y := f.view.Yields(); y != nil {
		// Nodes that look for a cluster are sent on to the one that stands.
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

// given lists this node's own contact points, sorted. Others are told these and
// no more: what is heard from others and passed on would never die out.
func (f *forming) given() []string {
	return f.sortAddrs(slices.Clone(f.own))
}

// sortAddrs replaces addresses by those that are advertised there, sorts them and drops
// repetitions, in place.
func (f *forming) sortAddrs(addrs []string) []string {
	for i, addr := range addrs {
		addrs[i] = f.canonical(addr)
	}
	slices.SortFunc(addrs, compareAddrs)
	return slices.Compact(addrs)
}

// union lists all contact points that this node and those that answer were given,
// sorted.
func (f *forming) union() []string {
	if f.named != nil {
		return f.named
	}
	all := f.given()
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

// told takes what another node says of itself.
func (f *forming) told(now clock.Instant, from view.NodeID, m *contact, a *actions) {
	if m.From.ID != from || from == f.self.ID {
		return
	}
	f.discovered(now, transport.Peer{ID: from, Name: m.From.Name, Addr: m.From.Addr})
	a.learn = append(a.learn, transport.Peer{ID: from, Name: m.From.Name, Addr: m.From.Addr})
	p := f.points[m.From.Addr]
	if p == nil {
		return
	}
	news := !p.fresh(now)
	if p.info == nil || !slices.Equal(p.info.Points, m.Points) {
		f.named = nil
	}
	p.info, p.infoAt, p.askedAt, p.cause = m, now, 0, ""
	p.next, f.wake = now.Add(f.pace()), now
	if f.view == nil {
		for _, q := range m.Points {
			if p := f.lookAt(now, q); p != nil {
				p.keepUntil = now.Add(namedFor)
			}
		}
	}
	if m.Ask {
		a.tell(from, f.contact(false))
	} else if news && f.view == nil {
		// It may not know us: it should count us as soon as we count it.
		a.tell(from, f.contact(false))
	}
	if m.Cluster != 0 {
		f.foundCluster(now, m, a)
	}
	f.step(now, a)
}

// foundCluster makes use of the news that a node belongs to a cluster.
func (f *forming) foundCluster(now clock.Instant, m *contact, a *actions) {
	if f.view == nil {
		f.claim = nil
		nodes := []view.Node{m.From}
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
	f.metForeign(now, m, a)
}

// viewed takes a newer view.
func (f *forming) viewed(now clock.Instant, v *view.View, a *actions) {
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
	// Those who ask and wait should not wait for their next question.
	for _, p := range f.order {
		if p.former {
			p.keepUntil = now.Add(formerFor)
		}
		if p.peer != 0 && p.fresh(now) && p.info.Cluster == 0 {
			a.tell(p.peer, f.contact(false))
		}
	}
}

// seekFormer looks for members that the newer view leaves out, but for those that have
// left: they may only have been cut off, and a healed network must find together. Nobody
// else may have kept their addresses: the points of lost nodes are given up, and contact
// points come to stand for other hosts.
func (f *forming) seekFormer(now clock.Instant, former, v *view.View) {
	for i := 0; former != nil && i < len(former.Members); i++ {
		m := &former.Members[i]
		left := slices.ContainsFunc(v.Out, func(d view.Departure) bool { return d.ID == m.ID && d.Cause == view.CauseLeft })
		if left || v.Member(m.ID) != nil {
			continue
		}
		if p := f.lookAt(now, m.Addr); p != nil {
			p.keepUntil, p.next = now.Add(formerFor), now
		}
	}
}

// leased takes the state of the lease.
func (f *forming) leased(now clock.Instant, valid bool) {
	f.live = valid
	switch {
	case valid:
		f.lostSince, f.deadSince = 0, 0
	case f.view != nil && f.lostSince == 0:
		f.lostSince = now
	}
}

// compareAddrs orders addresses: by number where they are numbers.
func compareAddrs(a, b string) int {
	x, errX := netip.ParseAddrPort(a)
	y, errY := netip.ParseAddrPort(b)
	if errX == nil && errY == nil {
		return x.Compare(y)
	}
	return cmp.Compare(a, b)
}
