package view

import "github.com/peerage-go/peerage/gossip"

// attempt is the view that an acceptor has accepted as the successor of another. It stays
// until the node learns a later decided view.
type attempt struct {
	ballot    gossip.Ballot
	next      *gossip.View
	emergency bool
}

// higher returns the attempt with the higher ballot; nil counts as none.
func (a *attempt) higher(o *attempt) *attempt {
	if a == nil || o != nil && a.ballot.Less(o.ballot) {
		return o
	}
	return a
}
