package view

// Ballot orders the attempts to lead: by round, then by candidate. There is one sequence
// of ballots over all epochs. The zero Ballot is below every other.
type Ballot struct {
	Round uint64
	Node  NodeID
}

// Less reports whether b is lower than o.
func (b Ballot) Less(o Ballot) bool {
	return b.Round < o.Round || b.Round == o.Round && b.Node < o.Node
}

// attempt is the view that an acceptor has accepted as the successor of another. It stays
// until the node learns a later decided view.
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
