package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/assert"
	"github.com/peerage-go/peerage/internal/clock"
)

// Two clusters of one name that meet are merged: one stands, the other yields, and the
// nodes of the other join the first. The leaders decide this by committed steps:
//
//	X's leader                                    W's leader
//	Encounter(nonce) ───────────────────────────▶
//	                 ◀─────────────────────────── Encounter(nonce, echo)
//	commits "contested with W"                    commits "contested with X"
//	                 both standings are frozen now
//	                                              W's is higher: commits "stands over X"
//	                 ◀─────────────────────────── Encounter(stands, judged)
//	a quorum of X has met W's members (vouch.go):
//	commits "yields to W"
//	Encounter(yields, generation) ──────────────▶
//	X's nodes stop and end                        commits a generation above both
//
// Why both never yield, with any delays of messages and any leaders:
//
//   - A standing never falls, and does not change while a contest is open.
//   - X yields only to a verdict on exactly the standing that X has, given by a leader
//     under a lease, in a cluster that had not yielded and whose standing is higher. So
//     standings rise along "yields to", and there is no cycle.
//   - A cluster that stands over another does not yield to it.
//
// A yield binds the members that have learned of it. If all of these have ended, as they
// should, an emergency takeover by a member that has not replaces the view that yields. That
// member is in no contest then, until it meets the other cluster itself.
//
// A node in a contest is not ready, so an attacker must not be able to keep one open: a
// contest begins only after a nonce was returned, and ends unfinished after contestFor.
// Its source is then ignored for a time that doubles.

const (
	// contestMin is the lower bound of contestFor.
	contestMin = 2 * time.Second
	// ignoreFirst is how long the source of an unfinished contest is ignored the first
	// time, ignoreMost at most.
	ignoreFirst = time.Minute
	ignoreMost  = time.Hour
	// ignoredMax bounds the sources that are ignored; while all places are taken, no
	// contest begins.
	ignoredMax = 16
)

// encounters holds a node's state about other clusters of the same name. The zero value
// is empty.
type encounters struct {
	*history
	quorums  *quorums
	follower *follower
	// mayRule reports whether this node leads and may act for its cluster.
	mayRule func() bool
	// allHeard reports whether every voter of this leader's view holds that view.
	allHeard func() bool

	// met holds the clusters that this leader exchanges messages with, at most foreignMax.
	met     map[uint64]*encounter
	ignored []ignoredSource
	// asked is the confrontation that this member runs for its leader.
	asked *confrontation
	// least is the generation that this leader's cluster must reach before it admits a node:
	// the highest that a joining node's file demands.
	least uint32
	// changed is set when the present message may change the contests of the next view.
	changed bool
}

// encounter is the leader's state about another cluster.
type encounter struct {
	cluster uint64
	// nonce is this leader's, theirs the newest of the other leader.
	nonce, theirs uint64
	// to is the other leader, the zero Node until it is learned; nodes are its members.
	// Invariant: there is at least one of them.
	to    gossip.Node
	nodes []gossip.Node
	// newest is the newest message that echoed nonce, newestAt when it arrived.
	newest   *Encounter
	newestAt clock.Instant
	metAt    clock.Instant
	// since is when this leader first had a view with the contest.
	since clock.Instant
	// vouched holds this cluster's voters that reached a member of the other cluster,
	// confirmed the members that they reached.
	vouched, confirmed map[gossip.NodeID]bool
	// ending is the reason for an end without a decision.
	ending string
}

// ignoredSource is an ignored source of contests that ended without a decision.
type ignoredSource struct {
	host  string
	until clock.Instant
	wait  time.Duration
}

// receiveForeign handles messages between clusters of one name, and those about another
// cluster. It reports whether the contests of the next view may change.
func (es *encounters) receiveForeign(from gossip.NodeID, msg Message) bool {
	es.changed = false
	switch m := msg.(type) {
	case *Encounter:
		es.onEncounter(from, m)
	case *Sighted:
		if es.follower.isLeader() && es.view.Member(from) != nil {
			es.onForeign(m.Cluster, m.Nodes)
		}
	case *Vouch:
		es.onVouch(from, m)
	case *Vouched:
		es.onVouched(from, m)
	case *Confront:
		es.onConfront(from, m)
	case *Confronted:
		es.onConfronted(from, m)
	}
	return es.changed
}

// contestFor is how long a contest may stay open.
func (es *encounters) contestFor() time.Duration { return max(contestMin, 8*es.cfg.Ping) }

// onForeign handles a sighting of another cluster of the same name.
func (es *encounters) onForeign(cluster uint64, nodes []gossip.Node) {
	if es.cfg.Foreign == gossip.ForeignWarn || es.view == nil || cluster == es.view.Cluster || cluster == 0 || len(nodes) == 0 {
		return
	}
	nodes = bareNodes(nodes)
	if !es.follower.isLeader() {
		if es.follower.leader != 0 && es.votes() {
			es.sendTo(es.follower.leader, &Sighted{Cluster: cluster, Nodes: nodes})
		}
		return
	}
	if e := es.encounter(cluster, nodes); e != nil {
		es.sendEncounter(e)
	}
}

// encounter returns the state about a cluster, nil if it is ignored.
func (es *encounters) encounter(cluster uint64, nodes []gossip.Node) *encounter {
	if y := es.view.Yields(); y != nil && y.Cluster != cluster {
		return nil
	}
	for _, n := range nodes {
		if es.ignores(hostOf(n.Addr), es.now) && es.view.Contest(cluster) == nil {
			return nil
		}
	}
	e := es.met[cluster]
	if e == nil {
		if len(es.met) >= foreignMax || len(nodes) == 0 {
			return nil
		}
		e = &encounter{cluster: cluster, nonce: es.random() | 1, metAt: es.now, vouched: map[gossip.NodeID]bool{}, confirmed: map[gossip.NodeID]bool{}}
		if es.met == nil {
			es.met = map[uint64]*encounter{}
		}
		es.met[cluster] = e
	}
	if len(nodes) > 0 {
		e.nodes = nodes
	}
	return e
}

// sendEncounter sends this cluster's standing to another cluster's leader. While that
// leader is unknown, it sends to some of the members, which forward the message.
func (es *encounters) sendEncounter(e *encounter) {
	if !es.mayRule() {
		return
	}
	m := &Encounter{
		From: bareNode(es.cfg.Self), Cluster: es.view.Cluster, To: e.cluster, Standing: es.view.Standing,
		Generation: es.lastGeneration(), Nodes: es.seniorVoters(), Nonce: e.nonce, Echo: e.theirs,
	}
	if f := es.view.Contest(e.cluster); f != nil {
		m.Verdict = f.Verdict
		if f.Verdict == gossip.VerdictStands && e.newest != nil {
			m.Judged = e.newest.Standing
			if !es.view.Standing.Above(es.view.Cluster, m.Judged, e.cluster) {
				m.Verdict = gossip.VerdictContested
			}
		}
	}
	targets := []gossip.Node{e.to}
	if e.to.ID == 0 || es.now.Sub(max(e.newestAt, e.metAt)) > 4*es.cfg.Ping {
		targets = append(targets[:0:0], e.nodes[:min(len(e.nodes), contactsAtOnce)]...)
		e.nodes = append(slices.Clone(e.nodes[len(targets):]), targets...)
	}
	for _, n := range targets {
		es.out.Learn = append(es.out.Learn, n)
		es.sendTo(n.ID, m)
	}
}

// lastGeneration returns the highest generation that this cluster can reach after it has yielded.
// Members that have not learned of the yield may find all those that have learned of it dead,
// and take over. Each takeover leaves out at least one member, and raises the generation by one.
// The cluster that stands rises above this generation, and so its tokens are above all of the
// takeovers', unless these members admit others and take over again.
func (es *encounters) lastGeneration() uint32 {
	return es.generation + uint32(len(es.view.Members)-1)
}

// seniorVoters lists this cluster's most senior voters, for the other cluster to contact.
func (es *encounters) seniorVoters() []gossip.Node {
	var out []gossip.Node
	for i := range es.view.Members {
		if m := &es.view.Members[i]; m.Status.Votes() && len(out) < foreignNodesMax {
			out = append(out, bareNode(m.Node))
		}
	}
	return out
}

// onEncounter handles another leader's message, or forwards it to this cluster's leader.
func (es *encounters) onEncounter(from gossip.NodeID, m *Encounter) {
	if es.cfg.Foreign == gossip.ForeignWarn || es.view == nil || m.From.ID == 0 || m.Cluster == 0 ||
		m.Cluster == es.view.Cluster || m.To != es.view.Cluster || es.view.Member(m.From.ID) != nil {
		return
	}
	if !es.follower.isLeader() {
		if m.Hops < hopsMax && es.follower.leader != 0 && es.follower.leader != from {
			passed := *m
			passed.Hops++
			es.sendTo(es.follower.leader, &passed)
		}
		return
	}
	if m.Verdict == gossip.VerdictYields && es.view.Contest(m.Cluster) == nil {
		return // a duplicate
	}
	if es.ignores(hostOf(m.From.Addr), es.now) && es.view.Contest(m.Cluster) == nil {
		return
	}
	e := es.encounter(m.Cluster, m.Nodes)
	if e == nil {
		return
	}
	news := m.Echo != e.nonce || m.Nonce != e.theirs
	e.to, e.theirs = m.From, m.Nonce
	es.out.Learn = append(es.out.Learn, m.From)
	if m.Echo == e.nonce {
		e.newest, e.newestAt = m, es.now
		es.changed = true
	}
	if news {
		es.sendEncounter(e)
	}
}

// heardRecently reports whether a message of the other leader arrived recently.
func (e *encounter) heardRecently(in *env) bool {
	return e.newest != nil && in.now.Sub(e.newestAt) <= 4*in.cfg.Ping
}

// driveForeign sends a leader's round to the other clusters, and drops those that do not
// answer.
func (es *encounters) driveForeign() {
	if len(es.met) == 0 {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(es.met)) {
		e := es.met[id]
		open := es.view.Contest(id)
		if open == nil {
			if es.now.Sub(max(e.metAt, e.newestAt)) > es.contestFor() {
				delete(es.met, id)
			}
			continue
		}
		es.sendEncounter(e)
		if open.Verdict == gossip.VerdictContested && e.newest != nil && e.newest.Standing.Above(id, es.view.Standing, es.view.Cluster) {
			es.askVoters(e)
		}
	}
}

// followForeign makes the leader's encounters match the contests of its view.
func (es *encounters) followForeign(before *gossip.View) {
	if before != nil {
		for _, f := range before.Foreign {
			if e := es.met[f.Cluster]; e != nil && es.view.Contest(f.Cluster) == nil {
				es.leaveContest(e)
			}
		}
	}
	for _, f := range es.view.Foreign {
		if e := es.encounter(f.Cluster, f.Nodes); e != nil && e.since == 0 {
			e.since = es.now
		}
	}
}

// leaveContest drops a cluster whose contest has ended; its source is ignored for a while
// if nothing was decided.
func (es *encounters) leaveContest(e *encounter) {
	delete(es.met, e.cluster)
	if e.ending == "" {
		return
	}
	addr := e.to.Addr
	if addr == "" {
		addr = e.nodes[0].Addr
	}
	wait := es.ignoreSource(hostOf(addr), es.now)
	es.traceEvent("contest ended", e.to.ID, fmt.Sprintf("with cluster %016x at %s: %s; ignored for %v", e.cluster, addr, e.ending, wait))
}

// foreignNext returns the contests of the next view, whether they differ from those of
// the present one, and whether the next view needs a generation above all that were met.
func (es *encounters) foreignNext() (list []gossip.Contest, changed, above bool) {
	least := es.leastOf(es.view.Epoch)
	quiet := len(es.met) == 0 && len(es.view.Foreign) == 0 && least == 0
	if quiet || !es.mayRule() {
		return es.view.Foreign, false, false
	}
	if least != 0 {
		above = es.view.Least == least && es.allHeard()
		changed = above || es.view.Least != least
	}
	yields := es.view.Yields() != nil
	for _, f := range es.view.Foreign {
		if !yields {
			was := f.Verdict
			if f.Verdict = es.nextVerdict(&f); f.Verdict != was {
				changed = true
				if f.Verdict == gossip.VerdictStands {
					f.Generation = es.met[f.Cluster].newest.Generation
				}
			}
			if f.Verdict == 0 {
				above = above || was == gossip.VerdictStands
				continue
			}
		}
		list = append(list, f)
	}
	for _, id := range slices.Sorted(maps.Keys(es.met)) {
		e := es.met[id]
		if yields || es.view.Contest(id) != nil || !e.heardRecently(es.env) || e.ending != "" || len(list) >= foreignMax {
			continue
		}
		list, changed = append(list, gossip.Contest{Cluster: id, Verdict: gossip.VerdictContested, Nodes: contactsOf(e)}), true
	}
	slices.SortFunc(list, func(a, b gossip.Contest) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return list, changed, above
}

// contactsOf lists the nodes of another cluster to contact, its leader first.
func contactsOf(e *encounter) []gossip.Node {
	out := []gossip.Node{e.to}
	for _, n := range e.newest.Nodes {
		if n.ID != e.to.ID && len(out) < foreignNodesMax {
			out = append(out, n)
		}
	}
	return out
}

// nextVerdict returns the next verdict of an open contest, or 0 to end it.
func (es *encounters) nextVerdict(f *gossip.Contest) gossip.Verdict {
	e := es.met[f.Cluster]
	if e == nil {
		return f.Verdict
	}
	if e.heardRecently(es.env) && e.newest.Verdict != 0 {
		mine := es.view.Standing.Above(es.view.Cluster, e.newest.Standing, f.Cluster)
		switch {
		case f.Verdict == gossip.VerdictStands && e.newest.Verdict == gossip.VerdictYields:
			return es.endStanding(f)
		case mine:
			if !es.overdue(e) {
				return gossip.VerdictStands
			}
		case f.Verdict == gossip.VerdictStands:
			return gossip.VerdictContested
		case e.newest.Verdict == gossip.VerdictStands && es.confirmedForeign(e) && e.newest.Judged == es.view.Standing:
			return gossip.VerdictYields
		}
	}
	switch {
	case !es.overdue(e):
		return f.Verdict
	case f.Verdict == gossip.VerdictStands && es.endStanding(f) != 0:
		return f.Verdict
	}
	e.ending = es.unfinished(e)
	return 0
}

// endStanding returns 0, which ends a contest in which this cluster stands, once every voter
// that may live holds the view with the verdict. The end opens a generation above that of the
// other cluster, and this leader may die before another member learns of it: a voter that takes
// over then opens a higher one, because the verdict in its view says how high the other's is.
func (es *encounters) endStanding(f *gossip.Contest) gossip.Verdict {
	if es.allHeard() {
		return 0
	}
	return f.Verdict
}

// overdue reports whether a contest has been open for too long.
func (es *encounters) overdue(e *encounter) bool {
	return e.since != 0 && es.now.Sub(e.since) > es.contestFor()
}

// unfinished returns why a contest was not decided in time.
func (es *encounters) unfinished(e *encounter) string {
	switch {
	case !e.heardRecently(es.env):
		return "its leader no longer answers"
	case e.newest.Verdict == 0:
		return "it did not enter the contest"
	case es.view.Standing.Above(es.view.Cluster, e.newest.Standing, e.cluster):
		return "it should yield, but has not"
	case e.newest.Verdict != gossip.VerdictStands || e.newest.Judged != es.view.Standing:
		return "this cluster should yield, but the other has not sent its verdict"
	}
	return fmt.Sprintf("this cluster should yield, but %d of its voters have reached %d of the other's members: too few to confirm it",
		len(e.vouched), len(e.confirmed))
}

// leastOf returns the generation that this cluster must reach from a view of epoch e, 0 if none.
func (es *encounters) leastOf(e gossip.Epoch) uint32 {
	if least := max(es.least, es.view.Least); least > e.Generation() {
		return least
	}
	return 0
}

// stepForeign updates the contests, the least generation and the epoch of the next view.
func (es *encounters) stepForeign(next *gossip.View) bool {
	list, changed, above := es.foreignNext()
	next.Foreign = list
	if above {
		for _, f := range es.view.Foreign {
			if e := es.met[f.Cluster]; e != nil && e.newest != nil {
				es.noteGeneration(e.newest.Generation)
			}
		}
		next.Epoch = gossip.FirstEpoch(max(es.generation+1, es.leastOf(es.view.Epoch)))
		next.TokensFrom = next.Epoch.Generation()
	}
	next.Least = es.leastOf(next.Epoch)
	if assert.Enabled {
		es.assertAbove(next)
	}
	return changed
}

// ignores reports whether contests from a host are ignored.
func (es *encounters) ignores(host string, now clock.Instant) bool {
	blocked := 0
	for _, s := range es.ignored {
		if now.Before(s.until) {
			if s.host == host {
				return true
			}
			blocked++
		}
	}
	return blocked >= ignoredMax
}

// ignoreSource ignores a host for a while, and returns for how long.
func (es *encounters) ignoreSource(host string, now clock.Instant) time.Duration {
	i := slices.IndexFunc(es.ignored, func(s ignoredSource) bool { return s.host == host })
	if i < 0 {
		if len(es.ignored) >= ignoredMax {
			es.ignored = slices.DeleteFunc(es.ignored, func(s ignoredSource) bool { return !now.Before(s.until) })
		}
		es.ignored = append(es.ignored, ignoredSource{host: host, wait: ignoreFirst / 2})
		i = len(es.ignored) - 1
	}
	s := &es.ignored[i]
	s.wait = min(2*s.wait, ignoreMost)
	s.until = now.Add(s.wait)
	return s.wait
}

// hostOf returns the host of an address.
func hostOf(addr string) string {
	if i := strings.LastIndexByte(addr, ':'); i >= 0 {
		return addr[:i]
	}
	return addr
}

// bareNode returns the fields of a node that another cluster needs to reach it.
func bareNode(n gossip.Node) gossip.Node { return gossip.Node{ID: n.ID, Name: n.Name, Addr: n.Addr} }

func bareNodes(ns []gossip.Node) []gossip.Node {
	ns = ns[:min(len(ns), foreignNodesMax)]
	out := make([]gossip.Node, len(ns))
	for i, n := range ns {
		out[i] = bareNode(n)
	}
	return out
}
