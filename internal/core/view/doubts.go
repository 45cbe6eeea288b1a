package view

import (
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// doubt asks the members for a working link with a member that is proven dead to the
// leader. A proof concerns one node's connections; another node may have one that works.
// The question costs a round trip, and at most doubtWait when a member is slow.
type doubt struct {
	asked    clock.Instant
	waiting  []gossip.NodeID
	answered map[gossip.NodeID]bool
}

// doubts holds a leader's questions about proven deaths, by the member that they concern.
type doubts struct {
	*history
	evidence *evidence
	ballot   Ballot
	asked    map[gossip.NodeID]*doubt
}

// answerWait is how long the leader waits for the answers.
func (d *doubts) answerWait() time.Duration { return d.cfg.Ping / 4 }

// undoubted reports whether no member that answers in time denies a proven death. The
// first call asks the members.
func (d *doubts) undoubted(id gossip.NodeID) bool {
	q := d.asked[id]
	if q == nil {
		q = &doubt{asked: d.now, waiting: d.evidence.witnesses(id), answered: map[gossip.NodeID]bool{}}
		for _, w := range q.waiting {
			d.sendTo(w, &Doubt{Ballot: d.ballot, Dead: []gossip.NodeID{id}})
		}
		d.asked[id] = q
	}
	missing := slices.ContainsFunc(q.waiting, func(w gossip.NodeID) bool { return !q.answered[w] && d.evidence.proofs[w] == nil })
	return !missing || !d.now.Before(q.asked.Add(d.answerWait()))
}

// undoubtedSince is undoubted, with a question that was asked at the given time or later.
func (d *doubts) undoubtedSince(id gossip.NodeID, at clock.Instant) bool {
	if d.asked[id].asked.Before(at) {
		delete(d.asked, id)
		return d.undoubted(id)
	}
	return true
}

// recordAnswer records a member's answer.
func (d *doubts) recordAnswer(from gossip.NodeID, m *Doubted) {
	for _, id := range m.Asked {
		if q := d.asked[id]; q != nil {
			q.answered[from] = true
		}
	}
	d.dropDenied(m.Linked)
}

// dropDenied drops the questions about nodes whose deaths a member denies.
func (d *doubts) dropDenied(ids []gossip.NodeID) {
	d.evidence.deny(ids)
	for _, id := range ids {
		delete(d.asked, id)
	}
}

// answersDue returns when the wait for the next answers ends.
func (d *doubts) answersDue() clock.Instant {
	due := clock.Never
	for _, q := range d.asked { // order-free: a minimum
		if at := q.asked.Add(d.answerWait()); at.After(d.now) {
			due = clock.Min(due, at)
		}
	}
	return due
}
