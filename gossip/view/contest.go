package view

import "github.com/peerage-go/peerage/internal/clock"

// When two lineages meet, the members of one end. That must not rest on a single
// message: the survivor of a takeover may still find in its inbox what a leader sent
// before it died, with a view that the takeover knows nothing of, and by the order of
// lineages (lineage.go) that view would stand. The dead cannot answer, though. So
// whoever is about to yield first asks back, and ends only when the other answers
// with a view that still stands over its own.
//
// A joining member has nothing to lose and nobody to speak for: it yields to every
// lineage but its own, whichever would stand. The view that let it in may have died
// with its voters.

// contest is the question under way.
type contest struct {
	with  NodeID
	nonce uint64
	until clock.Instant
	// view is what the other has shown.
	view *View
}

// challenge asks the sender of a view that stands over ours whether it is alive.
func (c *Core) challenge(from NodeID, v *View) {
	if !c.status.Votes() || c.mutant == mutantDeadSpeak {
		c.yield(v)
		return
	}
	if c.contest.with == from && c.now.Before(c.contest.until) {
		return
	}
	c.contest = contest{with: from, nonce: c.random(), until: c.now.Add(c.cfg.Ping), view: v}
	c.send(from, &Contest{View: c.ref(), Nonce: c.contest.nonce})
}

func (c *Core) onContest(from NodeID, m *Contest) {
	if m.View == nil || c.view == nil {
		return
	}
	if compare(c.view, m.View) != stands {
		c.meet(from, m.View)
		return
	}
	if !c.status.Votes() {
		c.yield(m.View)
		return
	}
	c.send(from, &Contested{View: c.ref(), Nonce: m.Nonce})
}

func (c *Core) onContested(from NodeID, m *Contested) {
	if m.View == nil || c.view == nil || c.contest.with != from || c.contest.nonce != m.Nonce {
		return
	}
	shown := c.contest.view
	c.contest = contest{}
	if compare(c.view, m.View) == yields {
		c.showOthers(shown)
		c.yield(m.View)
	}
}

// showOthers introduces the lineage that stands to the members of this one: its nodes
// may be strangers to them.
func (c *Core) showOthers(v *View) {
	if !v.packed() {
		c.toElectorate(&Decided{View: v})
	}
}

func (c *Core) yield(v *View) {
	c.end(v.Epoch, "another lineage of the cluster stands")
	c.out.Removed.Outranked = true
}
