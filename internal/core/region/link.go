package region

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// registration is the state of this region at the coordinator that the view elects.
type registration struct {
	// node is zero when the view elects no coordinator.
	node gossip.NodeID
	// term is the one under which we are registered, zero if none.
	term       gossip.Epoch
	registered bool
	// refused is the reported reason why the coordinator did not register us.
	refused protocol.Conflict
	// retry is when to register again, wait the step after that.
	retry clock.Instant
	wait  time.Duration
}

// link finds the coordinator by views and declines, and registers with it.
type link struct {
	*env
	registration
	// election presumes declines as long as they keep the present coordinator elected.
	// Invariant: it presumes none unless the coordinator is another node than candidate.
	election protocol.Election
	// candidate is that of the election: the core asks it until it answers.
	candidate gossip.NodeID
	// pace is the first wait for an answer of another node.
	pace time.Duration
	// noHostReported is set once all candidates of the view have declined as Missing and this
	// was reported.
	noHostReported bool
	// settingsRejected is set while the last coordinator that compared this node's settings
	// refuses them.
	settingsRejected bool
}

// viewChanged begins the search for the coordinator of a view.
func (l *link) viewChanged() {
	l.election.BeginView(l.view)
	l.noHostReported, l.pace = false, l.cfg.Retry
	if l.term.Generation() != l.view.Epoch.Generation() {
		l.registration = registration{}
	}
	l.elect()
	l.wait = l.pace
}

// elect turns to the coordinator, according to the declines received so far.
//
// A candidate that declines mostly does so in one view after another, and the next
// candidate's office continues (coordinator.Core). So this region stays with the
// coordinator that has registered it, as long as the candidates before that one may
// decline again. The core asks them nevertheless, since a coordinator learns by being asked.
// If one of them answers as coordinator instead, it has taken office, and the region turns
// to it.
func (l *link) elect() {
	l.candidate = l.election.Candidate()
	n := l.candidate
	if l.term != 0 && l.election.Expected() == l.node {
		n = l.node
	}
	if n == l.candidate {
		l.election.DropPresumed()
	}
	if n != l.node {
		l.registration = registration{node: n, wait: l.pace}
	}
}

// tookOffice handles an answer as coordinator by a node that was presumed to
// decline again.
func (l *link) tookOffice(n gossip.NodeID) {
	if n != l.candidate || n == l.node {
		return
	}
	l.election.DropPresumed()
	l.elect()
	l.tellStanding()
}

// hasDeclined turns to the next candidate if the candidate asked in our view
// has declined. A node that is not a candidate declines in the same way.
func (l *link) hasDeclined(from gossip.NodeID, m *protocol.Declined) {
	_, declined := l.election.DeclineOf(from)
	if from == l.node && from != l.candidate && m.View == l.epoch() {
		// The coordinator has left office before it is its turn to be asked in this view. It is
		// asked again then.
		l.registered = false
	}
	if l.view == nil || m.View != l.view.Epoch || from != l.candidate || declined {
		return
	}
	if m.Unbound && !l.cfg.Foreign && l.isCandidate() {
		// It answers what this node asked before it ran the type. Taken for a promise, it
		// would put us in office beside the sender, which may run the type a moment later.
		return
	}
	l.election.AddDeclines(protocol.Decliner{Node: from, Missing: m.Missing, Unbound: m.Unbound})
	l.traceEvent(TraceDeclined, from, protocol.Token{Term: l.term}, "")
	l.tellStanding()
	was := l.node
	if l.elect(); l.node != was {
		l.registerAgain()
	} else {
		l.askCandidate()
	}
	if !l.noHostReported && l.election.AllMissing() {
		l.noHostReported = true
		l.notRegistered(l.node, protocol.Conflict{Setting: protocol.SettingType, Here: "registered", There: "not, on any node of its role"})
	}
}

// isCandidate reports whether this node is a candidate in our view.
func (l *link) isCandidate() bool { return protocol.Candidate(l.view, l.cfg.Role, l.cfg.Self) }

// tellStanding sends our own coordinator core the declines and terms that it lacks.
func (l *link) tellStanding() {
	l.do(Standing{Refused: l.settingsRejected, View: l.epoch(), Declined: l.election.Declined(), Term: l.floors.term})
}

// setFit records whether a coordinator accepts our settings.
func (l *link) setFit(fit bool) {
	if l.settingsRejected == !fit {
		return
	}
	l.settingsRejected = !fit
	l.tellStanding()
}

// needsAnswer reports whether Register still needs an answer. A candidate that declined without
// a promise may take office in this very view. Candidates learn of it from a census, all
// other regions only if they keep asking.
func (l *link) needsAnswer() bool {
	return !l.registered || l.candidate != l.node || l.election.Unbound() && !l.isCandidate()
}

// registerAgain sends Register, and schedules its repetition.
func (l *link) registerAgain() {
	if l.node == 0 {
		return
	}
	l.registered = false
	l.sendRegister(l.node, l.term)
	l.askCandidate()
	l.retry = l.now.Add(l.wait)
	l.wait = min(2*l.wait, l.cfg.RetryMax)
}

// askAgain repeats what is unanswered. If all candidates have declined, or some without
// a promise, it starts again with the first: that node may run the type by now,
// and coordinate it. Declines passed to our own coordinator stay valid.
func (l *link) askAgain() {
	if l.registered {
		if l.election.Unbound() {
			l.election.AskAgain()
			l.elect()
		}
		l.askCandidate()
		l.retry = l.now.Add(l.wait)
		l.wait = min(2*l.wait, l.cfg.RetryMax)
		return
	}
	if _, declined := l.election.DeclineOf(l.candidate); declined || l.election.Unbound() {
		l.election.Restart()
		l.pace = min(2*l.pace, l.cfg.RetryMax)
		l.elect()
	}
	l.registerAgain()
}

// askCandidate asks the candidate that is presumed to decline.
func (l *link) askCandidate() {
	if l.candidate != l.node {
		l.sendRegister(l.candidate, 0)
	}
}

// sendRegister sends Register to a coordinator, with the term under which this region has received
// all published homes.
func (l *link) sendRegister(to gossip.NodeID, term gossip.Epoch) {
	h := l.head()
	h.Term = term
	l.do(Send{To: to, Msg: &protocol.Register{Head: h, Hosts: l.cfg.Hosts, Settings: l.settings()}})
}

// settings returns the settings that must be equal on all nodes, and this node's capacity.
func (l *link) settings() protocol.Settings {
	if l.cfg.Foreign {
		return protocol.Settings{Role: l.cfg.Role}
	}
	return protocol.Settings{Shards: uint32(l.cfg.Shards), Role: l.cfg.Role, Capacity: l.cfg.Capacity, ShardOf: l.cfg.ShardOf, Keeps: l.cfg.Keeps, Messages: l.cfg.Messages}
}

// notRegistered traces the refusal once.
func (l *link) notRegistered(from gossip.NodeID, why protocol.Conflict) {
	if why == l.refused {
		return
	}
	l.refused = why
	l.traceEvent(TraceRefused, from, protocol.Token{Term: l.term}, why.String())
}

// noteAnswer notes that the elected coordinator is in office and has registered us. A message
// from an earlier view is no answer in this view: its sender may have left office with that
// view, and the message that reports so may be lost. noteAnswer returns true if the term is new.
func (l *link) noteAnswer(h *protocol.Head) bool {
	term, registered := h.Term, l.registered || h.View == l.epoch()
	fresh := l.term != term
	if registered && (!l.registered || fresh) {
		l.traceEvent(TraceRegistered, l.node, protocol.Token{Term: term}, "")
	}
	l.registered, l.term, l.refused = registered, term, protocol.Conflict{}
	return fresh
}
