package view

import (
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// PreVote asks whether the receiver would promise a ballot, without changing any state:
// raising a ballot disturbs a leader.
type PreVote struct {
	Ballot Ballot
	// Base is the candidate's view; the receiver may learn it.
	Base *SentView
	// Dead lists the members that are certainly dead to the candidate: the receiver may
	// break its promise to a leader among them. Weak lists those of which the candidate
	// has a weak proof: the receiver only reports whether it has a link with them.
	Dead, Weak []gossip.NodeID
}

// PreVoted answers PreVote.
type PreVoted struct {
	Ballot Ballot
	Base   gossip.Epoch
	Yes    bool
	// Promised is the highest ballot that the receiver has promised.
	Promised Ballot
	// Linked lists the members of Dead and Weak with which the sender has a link.
	Linked []gossip.NodeID
}

// Prepare asks for a promise to accept no lower ballot, and for the attempt accepted on
// top of Base.
type Prepare struct {
	Ballot Ballot
	Base   *SentView
	// Dead and Weak are those of PreVote.
	Dead, Weak []gossip.NodeID
}

// Promised answers Prepare with a promise.
type Promised struct {
	Ballot Ballot
	Base   gossip.Epoch
	// Accepted is the view that the sender accepted on top of Base, nil if none.
	Accepted *SentView
	// AcceptedBallot and Emergency belong to Accepted.
	AcceptedBallot Ballot
	Emergency      bool
	// Generation is the highest that the sender has met in any view or attempt.
	Generation uint32
	// T0 is the sender's clock at sending: a promise counts as an answer to a ping.
	T0     int64
	Linked []gossip.NodeID
}

// Nack rejects a message whose ballot is below a promised one.
type Nack struct {
	Ballot   Ballot
	Promised Ballot
}

// Ping renews the promises to a leader and its members' leases.
type Ping struct {
	Ballot  Ballot
	Cluster uint64
	Epoch   gossip.Epoch
	// Round numbers the leader's rounds of pings; the leader records when it sent each.
	Round uint64
	// Echo is the T0 of the receiver's newest answer, 0 if there was none. The
	// receiver's lease runs until Echo + Remaining on its own clock.
	Echo int64
	// Remaining is the rest of the leader's lease, 0 to grant nothing.
	Remaining time.Duration
	// Life is set while the sender holds the leader lease or became leader less than two
	// leases ago: only then does the ping count as a sign of a leader's life.
	Life bool
	// View is set when the receiver may not hold it.
	View *SentView
	// Secret is the cluster's. It is set when the receiver is joining.
	Secret [2]uint64
}

// Pong answers Ping and Accept.
type Pong struct {
	Ballot Ballot
	Epoch  gossip.Epoch
	Round  uint64
	// T0 is the sender's own clock at sending. Only the sender can interpret it.
	T0 int64
	// Accepted is the epoch of the attempt that was accepted, 0 after a plain ping.
	Accepted gossip.Epoch
	// Unreachable lists the peers to which the sender can open no link.
	Unreachable []gossip.NodeID
}

// Accept proposes Next as the view after Base. It is a ping as well.
type Accept struct {
	Ping      Ping
	Base      *SentView
	Next      *SentView
	Emergency bool
}

// Decided carries a committed view: to members that it leaves out, and to senders of
// messages from an older one.
type Decided struct{ View *SentView }

// JoinRequest asks for admission. A member that does not lead forwards it.
type JoinRequest struct {
	Node gossip.Node
	// Hops counts how often it was forwarded.
	Hops uint8
	// Least is Config.Least of Node.
	Least uint32
}

// JoinRefused rejects a join request for good: this NodeID will never be admitted.
type JoinRefused struct{ Reason string }

// JoinPassed names the leader to which a join request was forwarded: the joiner may
// accept that leader's answer.
type JoinPassed struct{ Leader gossip.NodeID }

// LeaveRequest asks to be left out of the next view. The sender has dropped its lease
// for good.
type LeaveRequest struct{}

// NeedView requests a whole view: the sender cannot unpack one that it received as a
// difference.
type NeedView struct{ Epoch gossip.Epoch }

// LeaveNotice announces that the sender will leave: the next view must show it as
// leaving.
type LeaveNotice struct{}

// YieldRequest forwards a Yield event to the leader.
type YieldRequest struct{ Subject gossip.NodeID }

// Doubt asks whether the receiver has links with nodes that are proven dead to the
// leader.
type Doubt struct {
	Ballot Ballot
	Dead   []gossip.NodeID
}

// Doubted answers Doubt with the nodes with which the sender has a link.
type Doubted struct {
	Ballot Ballot
	Asked  []gossip.NodeID
	Linked []gossip.NodeID
}

// Contest asks whether the receiver's lineage is alive: a view of it wins over the
// sender's, but that view may have arrived in a late message of a dead node.
type Contest struct {
	View  *SentView
	Nonce uint64
}

// Contested answers Contest.
type Contested struct {
	View  *SentView
	Nonce uint64
	// Proof is the sender's proof of membership, 0 without a secret (lineage.go).
	Proof uint64
}

// Asked lists the members of Dead and Weak.
func (m *PreVote) Asked() []gossip.NodeID { return slices.Concat(m.Dead, m.Weak) }

// Asked lists the members of Dead and Weak.
func (m *Prepare) Asked() []gossip.NodeID { return slices.Concat(m.Dead, m.Weak) }

// Encounter is a leader's message to the leader of another cluster of the same name
// (foreign.go). A member that does not lead forwards it.
type Encounter struct {
	From gossip.Node
	// Hops counts how often it was forwarded.
	Hops uint8
	// Cluster is the sender's, To the receiver's.
	Cluster, To uint64
	Standing    gossip.Standing
	// Verdict is the sender's verdict on the receiver's cluster, 0 without a contest.
	Verdict gossip.Verdict
	// Judged is the receiver's standing on which a VerdictStands was given.
	Judged gossip.Standing
	// Generation is the highest that the sender's cluster has met, or can reach by takeovers of
	// members that do not learn how the contest ends.
	Generation uint32
	// Nodes are the sender's most senior voters.
	Nodes []gossip.Node
	// Nonce is the sender's, Echo the newest one received from the receiver.
	Nonce, Echo uint64
}

// Sighted reports another cluster of the same name to the leader.
type Sighted struct {
	Cluster uint64
	Nodes   []gossip.Node
}

// Vouch asks a voter to reach nodes of another cluster (vouch.go).
type Vouch struct {
	Cluster  uint64
	Standing gossip.Standing
	Nodes    []gossip.Node
}

// Vouched answers Vouch with those that have confirmed the cluster and its standing.
type Vouched struct {
	Cluster   uint64
	Confirmed []gossip.NodeID
}

// Confront asks a node of another cluster for its cluster and standing.
type Confront struct{ Nonce uint64 }

// Confronted answers Confront.
type Confronted struct {
	Cluster  uint64
	Standing gossip.Standing
	Nonce    uint64
}

// speaksForItself reports whether a message under a ballot comes from the ballot's owner.
// A join request must come from the joiner, or from a forwarding member.
func speaksForItself(from gossip.NodeID, msg Message) bool {
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
		return m.Node.ID == from || m.Hops > 0 // forwarded
	case *Encounter:
		return m.From.ID == from || m.Hops > 0
	}
	return true
}

func (*Contest) messageTag() byte      { return tagContest }
func (*Contested) messageTag() byte    { return tagContested }
func (*PreVote) messageTag() byte      { return tagPreVote }
func (*PreVoted) messageTag() byte     { return tagPreVoted }
func (*Prepare) messageTag() byte      { return tagPrepare }
func (*Promised) messageTag() byte     { return tagPromised }
func (*Nack) messageTag() byte         { return tagNack }
func (*Ping) messageTag() byte         { return tagPing }
func (*Pong) messageTag() byte         { return tagPong }
func (*Accept) messageTag() byte       { return tagAccept }
func (*Decided) messageTag() byte      { return tagDecided }
func (*JoinRequest) messageTag() byte  { return tagJoinRequest }
func (*JoinRefused) messageTag() byte  { return tagJoinRefused }
func (*JoinPassed) messageTag() byte   { return tagJoinPassed }
func (*LeaveRequest) messageTag() byte { return tagLeaveRequest }
func (*NeedView) messageTag() byte     { return tagNeedView }
func (*LeaveNotice) messageTag() byte  { return tagLeaveNotice }
func (*YieldRequest) messageTag() byte { return tagYieldRequest }
func (*Doubt) messageTag() byte        { return tagDoubt }
func (*Doubted) messageTag() byte      { return tagDoubted }
func (*Encounter) messageTag() byte    { return tagEncounter }
func (*Sighted) messageTag() byte      { return tagSighted }
func (*Vouch) messageTag() byte        { return tagVouch }
func (*Vouched) messageTag() byte      { return tagVouched }
func (*Confront) messageTag() byte     { return tagConfront }
func (*Confronted) messageTag() byte   { return tagConfronted }

// Ballot orders the attempts to lead: by round, then by candidate. There is one sequence
// of ballots over all epochs. The zero Ballot is below every other.
type Ballot struct {
	Round uint64
	Node  gossip.NodeID
}

// Less reports whether b is lower than o.
func (b Ballot) Less(o Ballot) bool {
	return b.Round < o.Round || b.Round == o.Round && b.Node < o.Node
}
