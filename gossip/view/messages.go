package view

import (
	"slices"
	"time"
)

// PreVote asks whether the receiver would promise a ballot, without changing
// anything: to raise a ballot costs others something.
type PreVote struct {
	Ballot Ballot
	// Base is the view that the candidate stands in; the receiver may learn it.
	Base *View
	// Dead lists the members that are certainly dead to the candidate: the receiver may
	// break its promise to a leader among them. Weak lists those of which the candidate has
	// a weak proof: the receiver only says whether it has a link with them.
	Dead, Weak []NodeID
}

// PreVoted answers PreVote.
type PreVoted struct {
	Ballot Ballot
	Base   Epoch
	Yes    bool
	// Promised is the highest ballot that the receiver has promised.
	Promised Ballot
	// Hears lists those of the asked-about dead that the receiver has a link with.
	Hears []NodeID
}

// Prepare asks for a promise to accept no lower ballot, and for what was accepted
// on top of Base.
type Prepare struct {
	Ballot Ballot
	Base   *View
	// Dead and Weak are those of PreVote.
	Dead, Weak []NodeID
}

// Promised answers Prepare with a promise.
type Promised struct {
	Ballot Ballot
	Base   Epoch
	// Accepted is what the receiver accepted on top of Base, nil if nothing.
	Accepted *View
	// AcceptedBallot and Emergency belong to Accepted.
	AcceptedBallot Ballot
	Emergency      bool
	// Generation is the highest that the receiver has met in any view or attempt.
	Generation uint32
	// T0 is the receiver's clock at sending: a promise counts as an answer to a ping.
	T0    int64
	Hears []NodeID
}

// Nack refuses a message whose ballot is below one promised.
type Nack struct {
	Ballot   Ballot
	Promised Ballot
}

// Ping keeps a leader in office and its members' leases alive.
type Ping struct {
	Ballot  Ballot
	Cluster uint64
	Epoch   Epoch
	// Round numbers the leader's rounds of pings; the leader knows when it sent each.
	Round uint64
	// Echo is the T0 of the receiver's newest answer, 0 if there was none. The
	// receiver's lease runs until Echo + Remaining on its own clock.
	Echo int64
	// Remaining is what remains of the leader's lease, 0 to grant nothing.
	Remaining time.Duration
	// Life is set while the sender holds the leader lease or took office less than
	// two leases ago: only then does the ping count as a sign of a leader's life.
	Life bool
	// View is set when the receiver is not known to hold it.
	View *View
}

// Pong answers Ping and Accept.
type Pong struct {
	Ballot Ballot
	Epoch  Epoch
	Round  uint64
	// T0 is the sender's own clock at sending. It means nothing to anyone else.
	T0 int64
	// Accepted is the epoch of the attempt that was accepted, 0 after a plain ping.
	Accepted Epoch
	// Unreachable lists the peers that the sender can open no link to.
	Unreachable []NodeID
}

// Accept proposes Next as the view after Base. It is a ping as well.
type Accept struct {
	Ping      Ping
	Base      *View
	Next      *View
	Emergency bool
}

// Decided tells a view that has been committed: to members left out by it, and to
// whoever speaks from an older one.
type Decided struct{ View *View }

// JoinRequest asks to be let in. A member that does not lead passes it on.
type JoinRequest struct {
	Node Node
	// Hops counts how often it was passed on.
	Hops uint8
	// Least is Config.Least of the node that wants in.
	Least uint32
}

// JoinRefused says that a node will never be let in under this NodeID.
type JoinRefused struct{ Reason string }

// JoinPassed tells a node that asks to be let in to which leader its request was passed
// on: the leader's answer is one that it may believe.
type JoinPassed struct{ Leader NodeID }

// LeaveRequest says that the sender has given its lease up for good and wants to
// be left out of the next view.
type LeaveRequest struct{}

// NeedView asks for a whole view: the sender cannot make use of one that was told as a
// difference.
type NeedView struct{ Epoch Epoch }

// LeaveNotice says that the sender will leave, and is to be shown as leaving.
type LeaveNotice struct{}

// YieldRequest passes a Yield event on to the leader.
type YieldRequest struct{ Subject NodeID }

// Doubt asks who still hears nodes that are proven dead to the leader.
type Doubt struct {
	Ballot Ballot
	Dead   []NodeID
}

// Doubted answers Doubt with those of them that the sender has a link with.
type Doubted struct {
	Ballot Ballot
	Asked  []NodeID
	Hears  []NodeID
}

// Contest says that the sender's view should yield to that of the receiver, and
// asks whether the receiver's lineage is alive: what made the sender think so may
// have been the late word of the dead.
type Contest struct {
	View  *View
	Nonce uint64
}

// Contested answers Contest.
type Contested struct {
	View  *View
	Nonce uint64
}

// Asked lists the members about which the receiver is asked.
func (m *PreVote) Asked() []NodeID { return slices.Concat(m.Dead, m.Weak) }

// Asked lists the members about which the receiver is asked.
func (m *Prepare) Asked() []NodeID { return slices.Concat(m.Dead, m.Weak) }

// Encounter is one leader's word to the leader of another cluster of the same name
// (foreign.go). A member that does not lead passes it on.
type Encounter struct {
	From Node
	// Hops counts how often it was passed on.
	Hops uint8
	// Cluster is the sender's, To the receiver's.
	Cluster, To uint64
	Standing    Standing
	// Verdict is the sender's on the receiver's cluster, 0 if it is in no contest with it.
	Verdict Verdict
	// Judged is the receiver's standing that a VerdictStands was passed on.
	Judged Standing
	// Generation is the highest that the sender has met.
	Generation uint32
	// Nodes are the sender's most senior voters.
	Nodes []Node
	// Nonce is the sender's, Echo the newest that it had from the receiver.
	Nonce, Echo uint64
}

// Sighted tells the leader of another cluster of the same name.
type Sighted struct {
	Cluster uint64
	Nodes   []Node
}

// Vouch asks a voter to reach nodes of another cluster (vouch.go).
type Vouch struct {
	Cluster  uint64
	Standing Standing
	Nodes    []Node
}

// Vouched answers Vouch with those that have confirmed the cluster and its standing.
type Vouched struct {
	Cluster   uint64
	Confirmed []NodeID
}

// Confront asks a node of another cluster which one it stands in.
type Confront struct{ Nonce uint64 }

// Confronted answers Confront.
type Confronted struct {
	Cluster  uint64
	Standing Standing
	Nonce    uint64
}

// speaksForItself reports whether a message under a ballot comes from the ballot's
// owner, and a request to be let in from the node that it would let in, or from one that
// passes it on.
func speaksForItself(from NodeID, msg Message) bool {
	switch m := msg.(type) {
	case *Ping:
		return m.Ballot.Node == from
	case *Accept:
		return m.Ping.Ballot.Node == from && m.Base != nil && m.Next != nil &&
			m.Base.Cluster == m.Next.Cluster && m.Base.Epoch == m.Ping.Epoch && m.Base.Epoch < m.Next.Epoch
	case *PreVote:
		return m.Ballot.Node == from
	case *Prepare:
		return m.Ballot.Node == from
	case *JoinRequest:
		return m.Node.ID == from || m.Hops > 0 // passed on
	case *Encounter:
		return m.From.ID == from || m.Hops > 0
	}
	return true
}

func (*Contest) message()      {}
func (*Contested) message()    {}
func (*PreVote) message()      {}
func (*PreVoted) message()     {}
func (*Prepare) message()      {}
func (*Promised) message()     {}
func (*Nack) message()         {}
func (*Ping) message()         {}
func (*Pong) message()         {}
func (*Accept) message()       {}
func (*Decided) message()      {}
func (*JoinRequest) message()  {}
func (*JoinRefused) message()  {}
func (*JoinPassed) message()   {}
func (*LeaveRequest) message() {}
func (*NeedView) message()     {}
func (*LeaveNotice) message()  {}
func (*YieldRequest) message() {}
func (*Doubt) message()        {}
func (*Doubted) message()      {}
func (*Encounter) message()    {}
func (*Sighted) message()      {}
func (*Vouch) message()        {}
func (*Vouched) message()      {}
func (*Confront) message()     {}
func (*Confronted) message()   {}
