package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/gossip"
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
	// met holds the clusters that this leader exchanges messages with, at most foreignMax.
	met     map[uint64]*encounter
	ignored []ignoredSource
	// asked is the confrontation that this member runs for its leader.
	asked *confrontation
	// least is the generation that this leader's view must reach before anything else.
	least uint32
}

// encounter is the leader's state about another cluster.
type encounter struct {
	cluster uint64
	// nonce is this leader's, theirs the newest of the other leader.
	nonce, theirs uint64
	// to is the other leader, the zero Node until it is learned; nodes are its members.
	to    gossip.Node
	nodes []gossip.Node
	// newest is the newest message that echoed nonce, heardAt when it arrived.
	newest  *Encounter
	heardAt clock.Instant
	metAt   clock.Instant
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

// contestFor is how long a contest may stay open.
func (c *Core) contestFor() time.Duration { return max(contestMin, 8*c.cfg.Ping) }

// onForeign handles a sighting of another cluster of the same name.
func (c *Core) onForeign(cluster uint64, nodes []gossip.Node) {
	if c.cfg.Foreign == gossip.ForeignWarn || c.view == nil || cluster == c.view.Cluster || cluster == 0 || len(nodes) == 0 {
		return
	}
	nodes = bareNodes(nodes)
	if c.leadership == nil {
		if c.follower.leader != 0 && c.votes() {
			c.sendTo(c.follower.leader, &Sighted{Cluster: cluster, Nodes: nodes})
		}
		return
	}
	if e := c.encounter(cluster, nodes); e != nil {
		c.sendEncounter(e)
	}
}

// encounter returns the state about a cluster, nil if it is ignored.
func (c *Core) encounter(cluster uint64, nodes []gossip.Node) *encounter {
	f := &c.foreign
	if y := c.view.Yields(); y != nil && y.Cluster != cluster {
		return nil
	}
	for _, n := range nodes {
		if f.ignores(hostOf(n.Addr), c.now) && c.view.Contest(cluster) == nil {
			return nil
		}
	}
	e := f.met[cluster]
	if e == nil {
		if len(f.met) >= foreignMax || len(nodes) == 0 {
			return nil
		}
		e = &encounter{cluster: cluster, nonce: c.random() | 1, metAt: c.now, vouched: map[gossip.NodeID]bool{}, confirmed: map[gossip.NodeID]bool{}}
		if f.met == nil {
			f.met = map[uint64]*encounter{}
		}
		f.met[cluster] = e
	}
	if len(nodes) > 0 {
		e.nodes = nodes
	}
	return e
}

// mayRule reports whether this leader may act for its cluster.
func (c *Core) mayRule() bool {
	o := c.leadership
	return o != nil && o.free && o.leaseUntil.After(c.now)
}

// sendEncounter sends this cluster's standing to another cluster's leader. While that
// leader is unknown, it sends to some of the members, which forward the message.
func (c *Core) sendEncounter(e *encounter) {
	if !c.mayRule() {
		return
	}
	m := &Encounter{
		From: bareNode(c.cfg.Self), Cluster: c.view.Cluster, To: e.cluster, Standing: c.view.Standing,
		Generation: c.generation, Nodes: c.seniorVoters(), Nonce: e.nonce, Echo: e.theirs,
	}
	if f := c.view.Contest(e.cluster); f != nil {
		m.Verdict = f.Verdict
		if f.Verdict == gossip.VerdictStands && e.newest != nil {
			m.Judged = e.newest.Standing
			if !c.view.Standing.Above(c.view.Cluster, m.Judged, e.cluster) {
				m.Verdict = gossip.VerdictContested
			}
		}
	}
	targets := []gossip.Node{e.to}
	if e.to.ID == 0 || c.now.Sub(max(e.heardAt, e.metAt)) > 4*c.cfg.Ping {
		targets = append(targets[:0:0], e.nodes[:min(len(e.nodes), contactsAtOnce)]...)
		e.nodes = append(slices.Clone(e.nodes[len(targets):]), targets...)
	}
	for _, n := range targets {
		c.out.Learn = append(c.out.Learn, n)
		c.sendTo(n.ID, m)
	}
}

// seniorVoters lists this cluster's most senior voters, for the other cluster to contact.
func (c *Core) seniorVoters() []gossip.Node {
	var out []gossip.Node
	for i := range c.view.Members {
		if m := &c.view.Members[i]; m.Status.Votes() && len(out) < foreignNodesMax {
			out = append(out, bareNode(m.Node))
		}
	}
	return out
}

// onEncounter handles another leader's message, or forwards it to this cluster's leader.
func (c *Core) onEncounter(from gossip.NodeID, m *Encounter) {
	if c.cfg.Foreign == gossip.ForeignWarn || c.view == nil || m.From.ID == 0 || m.Cluster == 0 ||
		m.Cluster == c.view.Cluster || m.To != c.view.Cluster || c.view.Member(m.From.ID) != nil {
		return
	}
	if c.leadership == nil {
		if m.Hops < hopsMax && c.follower.leader != 0 && c.follower.leader != from {
			passed := *m
			passed.Hops++
			c.sendTo(c.follower.leader, &passed)
		}
		return
	}
	if m.Verdict == gossip.VerdictYields && c.view.Contest(m.Cluster) == nil {
		return // a duplicate
	}
	e := c.encounter(m.Cluster, m.Nodes)
	if e == nil || c.foreign.ignores(hostOf(m.From.Addr), c.now) && c.view.Contest(m.Cluster) == nil {
		return
	}
	news := m.Echo != e.nonce || m.Nonce != e.theirs
	e.to, e.theirs = m.From, m.Nonce
	c.out.Learn = append(c.out.Learn, m.From)
	if m.Echo == e.nonce {
		e.newest, e.heardAt = m, c.now
		c.requestReview()
	}
	if news {
		c.sendEncounter(e)
	}
}

// heardRecently reports whether a message of the other leader arrived recently.
func (e *encounter) heardRecently(c *Core) bool {
	return e != nil && e.newest != nil && c.now.Sub(e.heardAt) <= 4*c.cfg.Ping
}

// driveForeign sends a leader's round to the other clusters, and drops those that do not
// answer.
func (c *Core) driveForeign() {
	if len(c.foreign.met) == 0 {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(c.foreign.met)) {
		e := c.foreign.met[id]
		open := c.view.Contest(id)
		if open == nil {
			if c.now.Sub(max(e.metAt, e.heardAt)) > c.contestFor() {
				delete(c.foreign.met, id)
			}
			continue
		}
		c.sendEncounter(e)
		if open.Verdict == gossip.VerdictContested && e.newest != nil && e.newest.Standing.Above(id, c.view.Standing, c.view.Cluster) {
			c.askVoters(e)
		}
	}
}

// followForeign makes the leader's encounters match the contests of its view.
func (c *Core) followForeign(before *gossip.View) {
	if before != nil && before.Cluster == c.view.Cluster {
		for _, f := range before.Foreign {
			if e := c.foreign.met[f.Cluster]; e != nil && c.view.Contest(f.Cluster) == nil {
				c.leaveContest(e)
			}
		}
	}
	for _, f := range c.view.Foreign {
		if e := c.encounter(f.Cluster, f.Nodes); e != nil && e.since == 0 {
			e.since = c.now
		}
	}
}

// leaveContest drops a cluster whose contest has ended; its source is ignored for a while
// if nothing was decided.
func (c *Core) leaveContest(e *encounter) {
	delete(c.foreign.met, e.cluster)
	if e.ending == "" {
		return
	}
	addr := e.to.Addr
	if addr == "" && len(e.nodes) > 0 {
		addr = e.nodes[0].Addr
	}
	wait := c.foreign.ignoreSource(hostOf(addr), c.now)
	c.traceEvent("contest ended", e.to.ID, fmt.Sprintf("with cluster %016x at %s: %s; ignored for %v", e.cluster, addr, e.ending, wait))
}

// foreignNext returns the contests of the next view, whether they differ from those of
// the present one, and whether the next view needs a generation above all that were met.
func (c *Core) foreignNext() (list []gossip.Foreign, changed, above bool) {
	quiet := len(c.foreign.met) == 0 && len(c.view.Foreign) == 0 && c.foreign.least <= c.view.Epoch.Generation()
	if quiet || !c.mayRule() {
		return c.view.Foreign, false, false
	}
	if c.foreign.least > c.view.Epoch.Generation() {
		changed, above = true, true
	}
	yields := c.view.Yields() != nil
	for _, f := range c.view.Foreign {
		if !yields {
			was := f.Verdict
			if f.Verdict = c.nextVerdict(&f); f.Verdict != was {
				changed = true
			}
			if f.Verdict == 0 {
				above = above || was == gossip.VerdictStands
				continue
			}
		}
		list = append(list, f)
	}
	for _, id := range slices.Sorted(maps.Keys(c.foreign.met)) {
		e := c.foreign.met[id]
		if yields || c.view.Contest(id) != nil || !e.heardRecently(c) || e.ending != "" || len(list) >= foreignMax {
			continue
		}
		list, changed = append(list, gossip.Foreign{Cluster: id, Verdict: gossip.VerdictContested, Nodes: contactsOf(e)}), true
	}
	slices.SortFunc(list, func(a, b gossip.Foreign) int { return cmp.Compare(a.Cluster, b.Cluster) })
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
func (c *Core) nextVerdict(f *gossip.Foreign) gossip.Verdict {
	e := c.foreign.met[f.Cluster]
	if e == nil {
		return f.Verdict
	}
	if e.heardRecently(c) && e.newest.Verdict != 0 {
		mine := c.view.Standing.Above(c.view.Cluster, e.newest.Standing, f.Cluster)
		switch {
		case f.Verdict == gossip.VerdictStands && e.newest.Verdict == gossip.VerdictYields:
			return 0
		case mine:
			if !c.overdue(e) {
				return gossip.VerdictStands
			}
		case f.Verdict == gossip.VerdictStands:
			return gossip.VerdictContested
		case e.newest.Verdict == gossip.VerdictStands && c.confirmedForeign(e) && (e.newest.Judged == c.view.Standing || c.mutant == mutantYieldsUnjudged):
			return gossip.VerdictYields
		}
	}
	if c.overdue(e) {
		e.ending = c.unfinished(e)
		return 0
	}
	return f.Verdict
}

// overdue reports whether a contest has been open for too long.
func (c *Core) overdue(e *encounter) bool {
	return c.mutant != mutantPatientContest && e.since != 0 && c.now.Sub(e.since) > c.contestFor()
}

// unfinished returns why a contest was not decided in time.
func (c *Core) unfinished(e *encounter) string {
	switch {
	case !e.heardRecently(c):
		return "its leader no longer answers"
	case e.newest.Verdict == 0:
		return "it did not enter the contest"
	case c.view.Standing.Above(c.view.Cluster, e.newest.Standing, e.cluster):
		return "it should yield, but has not"
	case e.newest.Verdict != gossip.VerdictStands || e.newest.Judged != c.view.Standing:
		return "this cluster should yield, but the other has not sent its verdict"
	}
	return fmt.Sprintf("this cluster should yield, but %d of its voters have reached %d of the other's members: too few to confirm it",
		len(e.vouched), len(e.confirmed))
}

// stepForeign updates the contests and the standing of the next view.
func (c *Core) stepForeign(next *gossip.View) bool {
	list, changed, above := c.foreignNext()
	next.Foreign = list
	if above && c.mutant != mutantKeepsGeneration {
		for _, f := range c.view.Foreign {
			if e := c.foreign.met[f.Cluster]; e != nil && e.newest != nil {
				c.noteGeneration(e.newest.Generation)
			}
		}
		next.Epoch = gossip.FirstEpoch(max(c.generation+1, c.foreign.least))
		next.TokensFrom = next.Epoch.Generation()
	}
	return changed
}

// rankCluster updates the standing of the next view. It is frozen during a contest.
func (c *Core) rankCluster(next *gossip.View) {
	if len(c.view.Foreign) > 0 {
		return
	}
	answered := 0
	for i := range next.Members {
		m := &next.Members[i]
		if p := c.leadership.peers[m.ID]; m.Status.Votes() && (m.ID == c.self() || p != nil && p.t0 != 0 && p.round+1 >= c.leadership.round) {
			answered++
		}
	}
	next.Standing.Peak = max(next.Standing.Peak, answered)
	if len(next.Foreign) > 0 && !c.cfg.Authenticated {
		next.Standing.Size = max(next.Standing.Size, answered)
	}
}

// ignores reports whether contests from a host are ignored.
func (f *encounters) ignores(host string, now clock.Instant) bool {
	blocked := 0
	for _, s := range f.ignored {
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
func (f *encounters) ignoreSource(host string, now clock.Instant) time.Duration {
	i := slices.IndexFunc(f.ignored, func(s ignoredSource) bool { return s.host == host })
	if i < 0 {
		if len(f.ignored) >= ignoredMax {
			f.ignored = slices.DeleteFunc(f.ignored, func(s ignoredSource) bool { return !now.Before(s.until) })
		}
		f.ignored = append(f.ignored, ignoredSource{host: host, wait: ignoreFirst / 2})
		i = len(f.ignored) - 1
	}
	s := &f.ignored[i]
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
