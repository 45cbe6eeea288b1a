package membership

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/view"
)

// decideForming forms a cluster, or advances towards it, when the rules allow.
func (f *forming) decideForming(now clock.Instant, a *actions) {
	if f.cfg.Bootstrap {
		f.formCluster(a)
		return
	}
	if !f.points.resolved || f.points.clusterInSight(now) {
		// A cluster that is silent, or does not admit this node yet, may still live:
		// restart the settling time.
		f.claims.dropClaim()
		f.set = ""
		return
	}
	if f.listless() && f.cfg.BootstrapExpect == 0 && len(f.cfg.FormerMembers) == 0 {
		f.formCluster(a) // this node can have no peers
		return
	}
	if f.claims.isExpired(now) {
		f.claims.retryLater(now)
		f.wake = now
	}
	candidates, answering := f.findCandidates(now)
	why := f.eligible(now, candidates, answering)
	if why != "" {
		f.claims.dropClaim()
		f.logWaiting(now, why, a)
		return
	}
	if f.claims.mayClaim(now) {
		f.startClaim(now, answering, a)
	}
}

// listless reports whether this node has no contact points of its own.
func (f *forming) listless() bool { return len(f.cfg.Join) == 0 && f.cfg.JoinFunc == nil }

// findCandidates returns the contact points in this node's list and in the lists of nodes
// that answer, and those of them that answer. This node is in both if it is one.
func (f *forming) findCandidates(now clock.Instant) (all, answering []string) {
	all = f.points.allPoints()
	if f.listless() {
		all = f.points.sortAddrs(append(slices.Clone(all), f.counted()...))
	}
	return all, f.points.answering(now, all)
}

// counted returns the addresses of which a majority must answer before this node forms a
// cluster: its own list and itself, or, without a list, the former members and itself.
func (f *forming) counted() []string {
	list := f.points.own
	if f.listless() {
		list = f.cfg.FormerMembers
	}
	return f.points.sortAddrs(append(slices.Clone(list), f.self.Addr))
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
	here, expect := f.points.answering(now, counted), f.expected(len(counted))
	switch {
	case !slices.Contains(all, f.self.Addr):
		return "this node is not a contact point; one of " + joinFirst(all, ", ") + " must form the cluster"
	case len(here) < expect:
		return fmt.Sprintf("%d of the contact points %s answer, %d are expected", len(here), joinFirst(counted, ", "), expect)
	case answering[0] != f.self.Addr:
		return answering[0] + " must form the cluster"
	case len(all) > 1 && len(answering) == len(all) && f.points.agreed(all):
		return ""
	case now.Sub(f.setSince) < f.settleFor():
		return "waiting for more contact points to answer, or for an existing cluster"
	}
	return ""
}

// shownMax is how many addresses, or causes, a line of the log lists.
const shownMax = 5

// joinFirst joins the first shownMax items, and counts the rest.
func joinFirst(items []string, separator string) string {
	if rest := len(items) - shownMax; rest > 0 {
		return strings.Join(items[:shownMax], separator) + separator + fmt.Sprint(rest, " more")
	}
	return strings.Join(items, separator)
}

// startClaim asks the nodes that answer to let this one form the cluster.
func (f *forming) startClaim(now clock.Instant, answering []string, a *actions) {
	var voters []gossip.NodeID
	for _, addr := range answering {
		if p := f.points.byAddr[addr]; p != nil {
			voters = append(voters, p.peer)
		}
	}
	round, ok := f.claims.beginClaim(now, voters)
	if !ok {
		return
	}
	for _, id := range voters {
		a.addMessage(id, &bootstrapClaim{round})
	}
	if len(voters) == 0 {
		f.formCluster(a)
	}
}

// onClaim answers another node's claim.
func (f *forming) onClaim(now clock.Instant, from gossip.NodeID, m *bootstrapClaim, a *actions) {
	why := f.objection(now, from)
	if why == "" {
		f.claims.promiseTo(now, from)
	}
	if len(why) > addrBytesMax {
		why = why[:addrBytesMax]
	}
	a.addMessage(from, &claimVote{Round: m.Round, Granted: why == "", Why: why})
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
	if f.points.clusterInSight(now) {
		return "it has found a cluster"
	}
	if f.claims.promisedOther(now, from) {
		return "it has promised another claimant"
	}
	claimant := f.points.addrOf(from)
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
func (f *forming) onVote(now clock.Instant, from gossip.NodeID, m *claimVote, a *actions) {
	if f.view != nil || !f.claims.expects(from, m) {
		return
	}
	if !m.Granted {
		a.addNote("claim refused", from, m.Why)
		f.claims.retryLater(now)
		f.wake = now
		return
	}
	if f.claims.countGrant(now, from) {
		f.formCluster(a)
	}
}

// formCluster makes the core form a new cluster.
func (f *forming) formCluster(a *actions) {
	f.claims.dropClaim()
	wall := f.wall()
	second := uint32(min(max(wall.Unix(), 1), math.MaxUint32))
	a.core = append(a.core, view.Form{
		Generation: f.generation(second, a), Millisecond: uint16(wall.Nanosecond() / int(time.Millisecond)),
		Origin: f.origin(), Secret: [2]uint64{random(), random()},
	})
	a.addNote("forming a new cluster", f.self.ID, strings.Join(f.points.allPoints(), ", "))
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
	for _, p := range f.points.order {
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
	for _, p := range f.points.order {
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

// logWaiting logs why a node has found no cluster: first for a person who watches the start,
// then periodically as a warning.
func (f *forming) logWaiting(now clock.Instant, why string, a *actions) {
	if f.logNext == 0 {
		f.logNext = now.Add(waitingSoon)
	}
	if now.Before(f.logNext) {
		return
	}
	if causes := f.points.failureCauses(); len(causes) > 0 {
		why += " (" + joinFirst(causes, "; ") + ")"
	}
	if !f.waiting {
		f.waiting = true
		f.logNext = now.Add(waitingFirst - waitingSoon)
		a.addProgress("waiting for other nodes", why)
		return
	}
	f.logNext = now.Add(waitingEvery)
	a.addWarning("no cluster found yet", why)
}

// claims holds this node's claim to form a cluster, and its promise to let another node form
// one. A claim is a promise to this node itself, so at most one of them is in force.
type claims struct {
	self gossip.NodeID
	rng  *rand.Rand
	// current is the claim in flight, nil without one; round is the number of the newest.
	current *claimed
	round   uint64
	// next is when this node may claim again.
	next clock.Instant
	// promised is the node that may form a cluster, until promisedUntil.
	promised      gossip.NodeID
	promisedUntil clock.Instant
}

// claimed is a claim in flight.
type claimed struct {
	sentAt clock.Instant
	// waiting are the nodes that have not granted it yet.
	waiting map[gossip.NodeID]bool
}

// mayClaim reports whether there is neither a claim in flight nor a pause after one.
func (c *claims) mayClaim(now clock.Instant) bool { return c.current == nil && !now.Before(c.next) }

// beginClaim starts a claim that all voters must grant, and returns its number. If another
// node has been promised, it reports false, and this node may claim after the promise.
func (c *claims) beginClaim(now clock.Instant, voters []gossip.NodeID) (round uint64, ok bool) {
	if c.promisedOther(now, c.self) {
		c.next = c.promisedUntil
		return 0, false
	}
	c.round++
	c.current = &claimed{sentAt: now, waiting: map[gossip.NodeID]bool{}}
	c.promiseTo(now, c.self)
	for _, id := range voters {
		c.current.waiting[id] = true
	}
	return c.round, true
}

func (c *claims) dropClaim() { c.current = nil }

// isExpired reports whether the claim in flight has taken too long.
func (c *claims) isExpired(now clock.Instant) bool {
	return c.current != nil && now.Sub(c.current.sentAt) > claimFor
}

// retryLater drops the claim and backs off randomly, so that two claimants do not collide
// again.
func (c *claims) retryLater(now clock.Instant) {
	c.dropClaim()
	if c.promised == c.self {
		c.promisedUntil = now
	}
	c.next = now.Add(askEvery + time.Duration(c.rng.Int64N(int64(2*askEvery))))
}

// expects reports whether a vote of a node answers the claim in flight.
func (c *claims) expects(from gossip.NodeID, m *claimVote) bool {
	return c.current != nil && c.round == m.Round && c.current.waiting[from]
}

// countGrant counts a granted vote, and reports whether the claim has succeeded.
func (c *claims) countGrant(now clock.Instant, from gossip.NodeID) bool {
	delete(c.current.waiting, from)
	return len(c.current.waiting) == 0 && !c.isExpired(now)
}

func (c *claims) promiseTo(now clock.Instant, id gossip.NodeID) {
	c.promised, c.promisedUntil = id, now.Add(promiseFor)
}

// promisedOther reports whether a promise to another node than id is in force.
func (c *claims) promisedOther(now clock.Instant, id gossip.NodeID) bool {
	return now.Before(c.promisedUntil) && c.promised != id
}

// nextClaimAt returns when the claim in flight expires, or the pause after one ends.
func (c *claims) nextClaimAt(now clock.Instant) clock.Instant {
	switch {
	case c.current != nil:
		return c.current.sentAt.Add(claimFor + 1)
	case now.Before(c.next):
		return c.next
	}
	return clock.Never
}
