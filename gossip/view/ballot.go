package view

// Ballot numbers the attempts to lead: rounds first, then the candidate. There is
// one sequence of ballots over all epochs. The zero Ballot is below all others.
type Ballot struct {
	Round uint64
	Node  NodeID
}

// Less reports whether b is lower than o.
func (b Ballot) Less(o Ballot) bool {
	return b.Round < o.Round || b.Round == o.Round && b.Node < o.Node
}

// attempt is what an acceptor has accepted on top of one view: the view that a
// leader proposed as the next. It stays until a later view is known as decided.
type attempt struct {
	ballot    Ballot
	next      *View
	emergency bool
}

// higher returns the attempt with the higher ballot; nil counts as none.
func (a *attempt) higher(o *attempt) *attempt {
	if a == nil || o != nil && a.ballot.Less(o.ballot) {
		return o
	}
	return a
}
