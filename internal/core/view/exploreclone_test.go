package view

import (
	"github.com/peerage-go/peerage/gossip"
	"maps"
	"reflect"
	"slices"
	"testing"
)

// cloneCore copies a core between two steps. Data that is never modified in place (views,
// attempts, messages) is shared.
func cloneCore(c *Core) *Core {
	d := *c
	d.gone, d.evidence.links, d.departure.leavers = maps.Clone(c.gone), maps.Clone(c.evidence.links), maps.Clone(c.departure.leavers)
	d.goneOrder = slices.Clone(c.goneOrder)
	d.acceptor.attempts = maps.Clone(c.acceptor.attempts)
	d.evidence.proofs, d.evidence.early = cloneEach(c.evidence.proofs), cloneEach(c.evidence.early)
	d.joining.contacts, d.joining.passed = slices.Clone(c.joining.contacts), slices.Clone(c.joining.passed)
	d.lineage.nodes = maps.Clone(c.lineage.nodes)
	if c.campaign.candidacy != nil {
		cand := *c.campaign.candidacy
		cand.yes, cand.found = maps.Clone(c.campaign.candidacy.yes), c.campaign.candidacy.found.clone()
		d.campaign.candidacy = &cand
	}
	if c.farewell != nil {
		f := *c.farewell
		f.knows = maps.Clone(f.knows)
		d.farewell = &f
	}
	// No exploration has a second cluster of the name: of c.foreign, least alone is ever set.
	if c.silence != nil {
		s := *c.silence
		s.lastSign = maps.Clone(s.lastSign)
		d.silence = &s
	}
	d.leadership = cloneOffice(c.leadership)
	d.wireMachines()
	return &d
}

// cloneEach copies a map of values that are modified in place.
func cloneEach[K comparable, V any](m map[K]*V) map[K]*V {
	out := make(map[K]*V, len(m))
	for k, v := range m { // order-free: each is copied by itself
		dup := *v
		out[k] = &dup
	}
	return out
}

func (f findings) clone() findings { return findings{f.attempt, maps.Clone(f.t0)} }

func cloneOffice(o *leadership) *leadership {
	if o == nil {
		return nil
	}
	d := *o
	d.peers, d.doubts.asked = cloneEach(o.peers), cloneEach(o.doubts.asked)
	for _, q := range d.doubts.asked { // order-free: each is copied by itself
		q.answered = maps.Clone(q.answered)
	}
	d.leaves, d.notices = maps.Clone(o.leaves), maps.Clone(o.notices)
	d.joins = slices.Clone(o.joins)
	if o.prep != nil {
		d.prep = &preparation{o.prep.base, maps.Clone(o.prep.yes), o.prep.found.clone()}
	}
	if o.proposal != nil {
		p := *o.proposal
		p.accepted = maps.Clone(p.accepted)
		d.proposal = &p
	}
	d.current, d.proposed = o.current.clone(d.peers), o.proposed.clone(d.peers)
	return &d
}

func (t *tally) clone(peers map[gossip.NodeID]*peer) *tally {
	if t == nil {
		return nil
	}
	d := *t
	d.peers = peers
	return &d
}

// clone copies the truth of one branch.
func (x *truth) clone() *truth {
	d := &truth{
		w: x.w, decided: maps.Clone(x.decided), newest: maps.Clone(x.newest),
		accepted: make(map[step]*acceptance, len(x.accepted)), byNext: make(map[epochOf][]*acceptance, len(x.byNext)),
		leaderEnd: maps.Clone(x.leaderEnd), dead: maps.Clone(x.dead), wrongEvidence: x.wrongEvidence,
	}
	now := make(map[*acceptance]*acceptance, len(x.accepted))
	for k, a := range x.accepted { // order-free: each is copied by itself
		dup := *a
		dup.by = maps.Clone(a.by)
		d.accepted[k], now[a] = &dup, &dup
	}
	for k, list := range x.byNext { // order-free: each list is copied by itself
		for _, a := range list {
			d.byNext[k] = append(d.byNext[k], now[a])
		}
	}
	return d
}

// TestExploreKnowsEveryField: for a new field of a core, define how it is copied
// (cloneCore) and how it distinguishes states (encodeCore), and then raise the count
// here.
func TestExploreKnowsEveryField(t *testing.T) {
	for _, known := range []struct {
		of     reflect.Type
		fields int
	}{
		{reflect.TypeFor[Core](), 16}, {reflect.TypeFor[env](), 5}, {reflect.TypeFor[history](), 11},
		{reflect.TypeFor[leaseHolder](), 4}, {reflect.TypeFor[evidence](), 5}, {reflect.TypeFor[quorums](), 4}, {reflect.TypeFor[acceptor](), 6},
		{reflect.TypeFor[departure](), 7}, {reflect.TypeFor[follower](), 7}, {reflect.TypeFor[campaign](), 11}, {reflect.TypeFor[lineage](), 8},
		{reflect.TypeFor[leadership](), 22}, {reflect.TypeFor[rounds](), 10}, {reflect.TypeFor[requests](), 6}, {reflect.TypeFor[doubts](), 4}, {reflect.TypeFor[peer](), 10},
		{reflect.TypeFor[proposal](), 7}, {reflect.TypeFor[candidacy](), 8}, {reflect.TypeFor[findings](), 2},
		{reflect.TypeFor[preparation](), 3}, {reflect.TypeFor[proof](), 5}, {reflect.TypeFor[doubt](), 3},
		{reflect.TypeFor[farewell](), 8}, {reflect.TypeFor[silence](), 6}, {reflect.TypeFor[joining](), 6},
		{reflect.TypeFor[lineageConflict](), 4}, {reflect.TypeFor[membership](), 2}, {reflect.TypeFor[guard](), 2}, {reflect.TypeFor[attempt](), 3},
		{reflect.TypeFor[tally](), 11}, {reflect.TypeFor[gossip.View](), 10}, {reflect.TypeFor[gossip.Member](), 3},
		{reflect.TypeFor[truth](), 8}, {reflect.TypeFor[acceptance](), 5},
	} {
		if got := known.of.NumField(); got != known.fields {
			t.Errorf("%v has %d fields, cloneCore and encodeCore handle %d", known.of, got, known.fields)
		}
	}
}
