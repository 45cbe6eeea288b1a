package membership

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/transport"
)

// stepForming performs the due actions.
func (f *forming) stepForming(now clock.Instant, a *actions) {
	if now.Before(f.wake) {
		return
	}
	for _, p := range slices.Clone(f.order) {
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
		f.dropAnswer(p)
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
		f.removePoint(p)
	}
}

func (f *forming) member(id gossip.NodeID) bool { return id != 0 && f.view.Member(id) != nil }

// decideForming forms a cluster, or advances towards it, when the rules allow.
func (f *forming) decideForming(now clock.Instant, a *actions) {
	if f.cfg.Bootstrap {
		f.formCluster(a)
		return
	}
	if !f.resolved || f.clusterInSight(now) {
		// A cluster that is silent, or does not admit this node yet, may still live:
		// restart the settling time.
		f.claim, f.set = nil, ""
		return
	}
	if f.listless() && f.cfg.BootstrapExpect == 0 && len(f.cfg.FormerMembers) == 0 {
		f.formCluster(a) // this node can have no peers
		return
	}
	if f.claim != nil && now.Sub(f.claim.sentAt) > claimFor {
		f.retryClaim(now)
	}
	candidates, answering := f.findCandidates(now)
	why := f.eligible(now, candidates, answering)
	if why != "" {
		f.claim = nil
		f.logWaiting(now, why, a)
		return
	}
	if f.claim == nil && !now.Before(f.claimNext) {
		f.startClaim(now, answering, a)
	}
}

// clusterInSight reports whether a node that answered recently belongs to a cluster.
func (f *forming) clusterInSight(now clock.Instant) bool {
	for _, p := range f.order {
		if p.isFresh(now) && p.info.Cluster != 0 {
			return true
		}
	}
	return false
}

// listless reports whether this node has no contact points of its own.
func (f *forming) listless() bool { return len(f.cfg.ContactPoints) == 0 && f.cfg.ContactFunc == nil }

// findCandidates returns the contact points in this node's list and in the lists of nodes
// that answer, and those of them that answer. This node is in both if it is one.
func (f *forming) findCandidates(now clock.Instant) (all, answering []string) {
	all = f.allPoints()
	if f.listless() {
		all = f.sortAddrs(append(slices.Clone(all), f.counted()...))
	}
	return all, f.answering(now, all)
}

// answering returns those of addrs that answer, this node included.
func (f *forming) answering(now clock.Instant, addrs []string) (out []string) {
	for _, addr := range addrs {
		if p := f.points[addr]; addr == f.self.Addr || p != nil && p.isFresh(now) {
			out = append(out, addr)
		}
	}
	return out
}

// counted returns the addresses of which a majority must answer before this node forms a
// cluster: its own list and itself, or, without a list, the former members and itself.
func (f *forming) counted() []string {
	list := f.own
	if f.listless() {
		list = f.cfg.FormerMembers
	}
	return f.sortAddrs(append(slices.Clone(list), f.self.Addr))
}

// expected returns how many of the counted addresses must answer.
func (f *forming) expected(counted int) int {
	if f.listless() && f.cfg.BootstrapExpect > 0 {
		return f.cfg.BootstrapExpect
	}
	return max(f.cfg.BootstrapExpect, counted/2+1)
}

// settleFor is how long a node waits before it forms a cluster without all contact
// points: longer than a living cluster takes to dial all addresses that it has.
func (f *forming) settleFor() time.Duration {
	return max(f.cfg.SettleAfter, 2*max(probeMax, f.cfg.Discovery.RejoinInterval))
}

// eligible returns "" when this node may claim, and otherwise why not.
func (f *forming) eligible(now clock.Instant, all, answering []string) string {
	set := strings.Join(all, " ") + "|" + strings.Join(answering, " ")
	if set != f.set {
		f.set, f.setSince = set, now
	}
	counted := f.counted()
	here, expect := f.answering(now, counted), f.expected(len(counted))
	switch {
	case !slices.Contains(all, f.self.Addr):
		return "this node is not a contact point; one of " + strings.Join(all, ", ") + " must form the cluster"
	case len(here) < expect:
		return fmt.Sprintf("%d of the contact points %s answer, %d are expected", len(here), strings.Join(counted, ", "), expect)
	case answering[0] != f.self.Addr:
		return answering[0] + " must form the cluster"
	case len(all) > 1 && len(answering) == len(all) && f.agreed(all):
		return ""
	case now.Sub(f.setSince) < f.settleFor():
		return "waiting for more contact points to answer, or for an existing cluster"
	}
	return ""
}

// agreed reports whether all candidates have the same list, apart from each node's own
// address.
func (f *forming) agreed(all []string) bool {
	if !sameBut(f.ownPoints(), all, f.self.Addr) {
		return false
	}
	for _, addr := range all {
		if p := f.points[addr]; p != nil && !sameBut(p.info.Points, all, addr) {
			return false
		}
	}
	return true
}

// sameBut reports whether list equals all, ignoring own.
func sameBut(list, all []string, own string) bool {
	i := 0
	for _, addr := range all {
		switch {
		case i < len(list) && list[i] == addr:
			i++
		case addr != own:
			return false
		}
	}
	return i == len(list)
}

func (f *forming) startClaim(now clock.Instant, answering []string, a *actions) {
	if f.promised(now) && f.promise.to != f.self.ID {
		f.claimNext = f.promise.until
		return
	}
	f.round++
	f.claim = &claimed{round: f.round, sentAt: now, waiting: map[gossip.NodeID]bool{}}
	f.promise.to, f.promise.until = f.self.ID, now.Add(promiseFor)
	for _, addr := range answering {
		if p := f.points[addr]; p != nil {
			f.claim.waiting[p.peer] = true
			a.addMessage(p.peer, bootstrapClaim{f.round})
		}
	}
	if len(f.claim.waiting) == 0 {
		f.formCluster(a)
	}
}

func (f *forming) promised(now clock.Instant) bool { return now.Before(f.promise.until) }

// retryClaim drops the claim and backs off randomly, so that two claimants do not collide
// again.
func (f *forming) retryClaim(now clock.Instant) {
	f.claim, f.wake = nil, now
	if f.promise.to == f.self.ID {
		f.promise.until = now
	}
	f.claimNext = now.Add(askEvery + time.Duration(f.rng.Int64N(int64(2*askEvery))))
}

// onClaim answers another node's claim.
func (f *forming) onClaim(now clock.Instant, from gossip.NodeID, m bootstrapClaim, a *actions) {
	why := f.objection(now, from)
	if why == "" {
		f.promise.to, f.promise.until = from, now.Add(promiseFor)
	}
	if len(why) > addrBytesMax {
		why = why[:addrBytesMax]
	}
	a.addMessage(from, claimVote{Round: m.Round, Granted: why == "", Why: why})
	if f.view != nil {
		a.addMessage(from, f.contact(false))
	}
}

// objection returns "" if this node allows from to form the cluster, otherwise its
// reason.
func (f *forming) objection(now clock.Instant, from gossip.NodeID) string {
	if f.view != nil {
		return "it belongs to a cluster"
	}
	if f.clusterInSight(now) {
		return "it has found a cluster"
	}
	if f.promised(now) && f.promise.to != from {
		return "it has promised another claimant"
	}
	claimant := ""
	for _, p := range f.order {
		if p.peer == from {
			claimant = p.addr
		}
	}
	if claimant == "" {
		return "it has not met the claimant"
	}
	_, answering := f.findCandidates(now)
	if len(answering) > 0 && compareAddrs(answering[0], claimant) < 0 {
		return answering[0] + " is lower and answers"
	}
	return ""
}

// onVote handles the answer to a claim.
func (f *forming) onVote(now clock.Instant, from gossip.NodeID, m claimVote, a *actions) {
	c := f.claim
	if c == nil || c.round != m.Round || !c.waiting[from] || f.view != nil {
		return
	}
	if !m.Granted {
		a.addNote("claim refused", from, m.Why)
		f.retryClaim(now)
		return
	}
	delete(c.waiting, from)
	if len(c.waiting) == 0 && now.Sub(c.sentAt) <= claimFor {
		f.formCluster(a)
	}
}

// formCluster makes the core form a new cluster.
func (f *forming) formCluster(a *actions) {
	f.claim = nil
	wall := f.wall()
	second := uint32(min(max(wall.Unix(), 1), math.MaxUint32))
	a.core = append(a.core, view.Form{
		Generation: f.generation(second, a), Millisecond: uint16(wall.Nanosecond() / int(time.Millisecond)),
		Origin: f.origin(), Secret: [2]uint64{random(), random()},
	})
	a.addNote("forming a new cluster", f.self.ID, strings.Join(f.allPoints(), ", "))
}

// origin returns the origin for a cluster that this node forms: that of its own files,
// else the most frequent one among the nodes that answered, so that a founder with a new
// disk does not separate the other nodes from their data. It is 0 if none has files.
func (f *forming) origin() uint64 {
	if f.cfg.Origin != 0 {
		return f.cfg.Origin
	}
	count := map[uint64]int{}
	best := uint64(0)
	for _, p := range f.order {
		if p.info == nil || p.info.Origin == 0 {
			continue
		}
		o := p.info.Origin
		if count[o]++; count[o] > count[best] || count[o] == count[best] && o < best {
			best = o
		}
	}
	return best
}

// aheadMax bounds how far another node may raise the generation above the wall clock and
// above this node's own floor: eight years of takeovers, one a second.
const aheadMax = 1 << 28

// generation returns the generation for a cluster formed at a second of the wall clock:
// above all that this node, or a node that answered, has met before.
func (f *forming) generation(second uint32, a *actions) uint32 {
	own := max(second, f.cfg.MinGeneration)
	out := own
	for _, p := range f.order {
		if p.info == nil {
			continue
		}
		floor := uint64(p.info.Epoch.Generation())
		if p.info.Cluster != 0 {
			floor++ // the node has a view, or its answer is stale
		}
		if floor > uint64(own)+aheadMax || floor > math.MaxUint32 {
			a.addWarning("generation of another node ignored: too far ahead", fmt.Sprintf("%s requires %d, this node %d; tokens of a former cluster may repeat: check the clock and the data files of that node", p.addr, floor, own))
			continue
		}
		out = max(out, uint32(floor))
	}
	return out
}

// logWaiting periodically warns the operator why a node has found no cluster.
func (f *forming) logWaiting(now clock.Instant, why string, a *actions) {
	if f.logNext == 0 {
		f.logNext = now.Add(waitingEvery)
	}
	if now.Before(f.logNext) {
		return
	}
	f.logNext = now.Add(waitingEvery)
	var causes []string
	for _, p := range f.order {
		if p.listed && p.cause != "" {
			causes = append(causes, p.addr+": "+p.cause)
		}
	}
	if len(causes) > 0 {
		why += " (" + strings.Join(causes, "; ") + ")"
	}
	a.addWarning("no cluster found yet", why)
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

// nextStepAt returns when stepForming must next be called.
func (f *forming) nextStepAt() clock.Instant { return f.wake }

func (f *forming) nextWake(now clock.Instant) clock.Instant {
	d := clock.Never
	for _, p := range f.order {
		if !p.probing {
			d = clock.Min(d, p.next)
		}
	}
	if f.view != nil {
		if f.deadSince != 0 && f.cfg.ReformAfter >= 0 {
			d = clock.Min(d, f.deadSince.Add(f.cfg.ReformAfter))
		}
		if f.yieldedAt != 0 {
			d = clock.Min(d, f.yieldedAt.Add(dissolveAfter))
		}
		return d
	}
	if f.claim != nil {
		d = clock.Min(d, f.claim.sentAt.Add(claimFor+1))
	} else if now.Before(f.claimNext) {
		d = clock.Min(d, f.claimNext)
	}
	if at := f.setSince.Add(f.settleFor()); f.setSince != 0 && now.Before(at) {
		d = clock.Min(d, at)
	}
	if f.logNext.After(now) { // no warning while a cluster is in sight
		d = clock.Min(d, f.logNext)
	}
	return d
}

// errUnresponsive is the cause when a contact point can be reached but does not answer.
type errUnresponsive struct{ self string }

func (e errUnresponsive) Error() string {
	return "it can be reached, but its answers do not arrive: can it reach this node at " + e.self + ", which it advertises?"
}

const nothingListens = "nothing listens there"

// causeOf returns the description of a probe's error for an operator.
func causeOf(err error) string {
	var refused *transport.RefusedError
	switch {
	case errors.As(err, &refused):
		return "it refused this node: " + refused.Reason
	case errors.Is(err, syscall.ECONNREFUSED):
		return nothingListens + " (connection refused): the node is not started yet, or the address is wrong"
	}
	return err.Error()
}
