package view

import "github.com/peerage-go/peerage/internal/clock"

// When two lineages meet, the members of one end. A single message must not cause that:
// the survivor of a takeover may still receive a message that a leader sent before it
// died, with a view that the takeover does not include and that would win by the order of
// lineages (lineage.go). A dead leader cannot answer, though. So a member that is about
// to yield first sends a Contest to the sender, and ends only when the answer carries a
// view that still wins over its own.
//
// A joining member holds nothing and represents no voter: it yields to every other
// lineage, whichever would win. The view that admitted it may have died with its voters.

// lineageConflict is the Contest in flight.
type lineageConflict struct {
	with  NodeID
	nonce uint64
	until clock.Instant
	// view is the view that the other lineage sent.
	view *View
}

// confirmPeer asks the sender of a view that wins over ours whether it is alive.
func (c *Core) confirmPeer(from NodeID, v *View) {
	if !c.status.Votes() || c.mutant == mutantDeadSpeak {
		c.stepAside(v)
		return
	}
	if c.lineageConflict.with == from && c.now.Before(c.lineageConflict.until) {
		return
	}
	c.lineageConflict = lineageConflict{with: from, nonce: c.random(), until: c.now.Add(c.cfg.Ping), view: v}
	c.sendTo(from, &Contest{View: c.ref(), Nonce: c.lineageConflict.nonce})
}

func (c *Core) onContest(from NodeID, m *Contest) {
	if m.View == nil || c.view == nil {
		return
	}
	if compareViews(c.view, m.View) != wins {
		c.learnView(from, m.View)
		return
	}
	if !c.status.Votes() {
		c.stepAside(m.View)
		return
	}
	c.sendTo(from, &Contested{View: c.ref(), Nonce: m.Nonce})
}

func (c *Core) onContested(from NodeID, m *Contested) {
	if m.View == nil || c.view == nil || c.lineageConflict.with != from || c.lineageConflict.nonce != m.Nonce {
		return
	}
	shown := c.lineageConflict.view
	c.lineageConflict = lineageConflict{}
	if compareViews(c.view, m.View) == loses {
		c.showOthers(shown)
		c.stepAside(m.View)
	}
}

// showOthers sends the winning lineage's view to the members of this one, which may not
// have met its nodes.
func (c *Core) showOthers(v *View) {
	if !v.packed() {
		c.toElectorate(&Decided{View: v})
	}
}

func (c *Core) stepAside(v *View) {
	c.endIncarnation(v.Epoch, "another lineage of the cluster wins")
	c.out.Removed.Outranked = true
}
