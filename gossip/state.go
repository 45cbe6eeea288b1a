package gossip

import (
	"time"
)

// Recent is one of the last events of a node.
type Recent struct {
	Time    time.Time
	Kind    string
	Subject NodeID `json:",omitzero"`
	Epoch   Epoch  `json:",omitzero"`
	Detail  string `json:",omitempty"`
	// Repeated is how often the same event recurred with few different ones in between;
	// Time is that of the first.
	Repeated int `json:",omitempty"`
}

// MembershipStatus describes a node's part in the cluster for operators, as JSON.
type MembershipStatus struct {
	Self    Node
	Cluster string
	// State is "looking for a cluster", "joining", "up", "paused", "leaving" or
	// "over".
	State string
	// Over is the reason for which this incarnation has ended.
	Over  string `json:",omitempty"`
	View  *View  `json:",omitempty"`
	Lease LeaseStatus
	// Protocol is the node's part in the agreement on views.
	Protocol State
	Links    []LinkStatus
	Contact  []ContactStatus
	// Foreign lists the other clusters of the same name that sent messages recently, by
	// id, each with the state of its contest.
	Foreign []string `json:",omitempty"`
	Recent  []Recent
}

// LeaseStatus describes the lease at the time of the call.
type LeaseStatus struct {
	Valid, Leader bool
	Generation    uint32
	// Left is how long it still runs.
	Left time.Duration
}

// LinkStatus describes the connections with one peer.
type LinkStatus struct {
	Node   NodeID
	Name   string
	Addr   string
	Member bool
	// Out and In name the classes that are connected.
	Out, In []string
	// Dead is the kind of the proof that its process has ended, "" without one.
	Dead string `json:",omitempty"`
	// DownFor is how long there has been no control connection to it.
	DownFor time.Duration `json:",omitempty"`
}

// ContactStatus describes one contact point.
type ContactStatus struct {
	Addr string
	// Node is the node that answers there, 0 if none does.
	Node NodeID `json:",omitzero"`
	// Cluster is the one that the node belongs to, in hexadecimal, "" if none.
	Cluster string `json:",omitempty"`
	// Cause is the reason why it does not answer.
	Cause string `json:",omitempty"`
}

// State describes a node's part in the protocol, for operators.
type State struct {
	// Part is "joiner", "member", "candidate", or "leader".
	Part     string
	Epoch    Epoch
	Leader   NodeID
	Promised Ballot
	// Attempt is the epoch of a proposed view that this node has accepted but not yet
	// learned as decided, 0 if none.
	Attempt Epoch
	// Dead lists the members that are proven dead to this node.
	Dead []NodeID
	// Waiting counts the join and leave requests that wait at this leader.
	Waiting int
	Leaving bool
}

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
