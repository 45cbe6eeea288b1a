package gossip

import (
	"encoding/json"
	"math"
	"time"
)

// Event is a change of this node's state. Events are delivered in order, from one
// goroutine; see peerage.Node.Subscribe. The structs of this package implement it.
type Event interface{ isEvent() }

// ViewChanged reports that this node has adopted a newer view. Views may be skipped when
// a subscriber is slow; the newest is always delivered.
type ViewChanged struct{ View *View }

// LeaseChanged reports that the lease became valid (this node resumes) or invalid (it
// pauses), or changed its generation or kind; plain renewals are not reported.
// The event follows the change: code that must not run without a lease has to check
// LeaseValid of peerage.Node.
type LeaseChanged struct {
	Valid bool
	// Leader is set if it is the leader's own lease.
	Leader     bool
	Generation uint32
}

// LeaseStatus describes the lease at the time of the call. Its JSON has Left in seconds, as
// left_seconds.
type LeaseStatus struct {
	Valid, Leader bool
	Generation    uint32
	// Left is how long it still runs. It is negative for a lease that has ended: how long ago.
	Left time.Duration
}

// leaseJSON is the form of a LeaseStatus in JSON.
type leaseJSON struct {
	Valid       bool    `json:"valid"`
	Leader      bool    `json:"leader"`
	Generation  uint32  `json:"generation"`
	LeftSeconds float64 `json:"left_seconds"`
}

// MarshalJSON writes Left in seconds, rounded to milliseconds.
func (s LeaseStatus) MarshalJSON() ([]byte, error) {
	return json.Marshal(leaseJSON{s.Valid, s.Leader, s.Generation, s.Left.Round(time.Millisecond).Seconds()})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *LeaseStatus) UnmarshalJSON(text []byte) error {
	var j leaseJSON
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	*s = LeaseStatus{j.Valid, j.Leader, j.Generation, time.Duration(math.Round(j.LeftSeconds*1e3)) * time.Millisecond}
	return nil
}

// String describes the lease in words, such as "valid, the leader's, for 1.83s".
func (s LeaseStatus) String() string {
	left := s.Left.Round(time.Millisecond)
	switch {
	case s.Valid && s.Leader:
		return "valid, the leader's, for " + left.String()
	case s.Valid:
		return "valid for " + left.String()
	case s.Left < 0:
		return "ended " + (-left).String() + " ago"
	case s.Left > 0:
		return "granted, and not in use until the entities of an earlier membership have stopped"
	}
	return "none"
}

// MemberJoined reports that a node has become a voting member: it may hold a lease from
// now on. The events about members follow their ViewChanged and compare it with the last
// ViewChanged that was delivered: a member that joined and left between the two is not
// reported. The first ViewChanged that a subscriber receives is followed by one
// MemberJoined for each member.
type MemberJoined struct {
	Member Member
	Epoch  Epoch
}

// MemberLeft reports that a voting member has left at its own request.
type MemberLeft struct {
	// Member is its last entry.
	Member Member
	// Epoch is that of the view without it.
	Epoch Epoch
}

// MemberRemoved reports that a voting member was removed. All nodes report the same Cause
// and Evidence, those for which the leader removed it. A node that skipped the view
// without the member reports its own evidence: CauseDead, or the zero Cause.
type MemberRemoved struct {
	// Member is its last entry.
	Member Member
	// Epoch is that of the view without it.
	Epoch Epoch
	Cause Cause
	// Evidence is the kind of the proof of its death: "goodbye", "other node", "oracle",
	// "sealed refusal" or "refused". It is "" for other causes.
	Evidence string
}

// LeaderChanged reports the leader that this node follows; Leader is 0 while there is
// none. A silent leader stays until there is another.
type LeaderChanged struct {
	Leader NodeID
	Epoch  Epoch
}

// QuorumLost reports that this node has no lease (after LeaseChanged), and will not soon
// have one: the members that it reaches are no quorum of its view by its partition
// policy, or no quorum has had a leader for RemoveAfter. It is reported once, until
// QuorumRegained or Removed.
type QuorumLost struct {
	Epoch Epoch
	// For is how long there has been no lease.
	For time.Duration
	// Reachable are this node and the members with links both ways, by seniority.
	Reachable []NodeID
}

// QuorumRegained ends QuorumLost: this node holds a lease again.
type QuorumRegained struct{ Epoch Epoch }

// Removed reports that this incarnation has ended, and why. It is the last event of the
// incarnation.
type Removed struct {
	Epoch  Epoch
	Reason string
	// Generation is the highest that this incarnation has met in views and attempts.
	Generation uint32
	// QuorumLost is set if too many members of the last view are proven dead for any
	// quorum, so no cluster continues without this node.
	QuorumLost bool
	// Outranked is set if another cluster, or another lineage of this one, continues. The
	// next incarnation must require a generation above those met here.
	Outranked bool
}

// Missed reports to a subscriber that it was too slow: Events were dropped, and
// the current state follows, as for a new subscriber. A member that is not reported again
// has gone.
type Missed struct{ Events int }

// ForeignCluster reports that a contest with another cluster of the same name has begun
// or advanced. While one is open (Verdict is not 0) the node should accept no requests
// from outside. It follows the ViewChanged of its view, or a later one.
//
// After VerdictYields this cluster ends, and its nodes join the other one: stop all
// entities. States are not merged.
type ForeignCluster struct {
	// Cluster is the other one's id, Nodes are some of its members.
	Cluster uint64
	Nodes   []Node
	// Verdict is this cluster's, 0 when the contest is over: the other cluster has
	// yielded, or nothing was decided, and the contest begins again later.
	Verdict Verdict
	Epoch   Epoch
}

func (ForeignCluster) isEvent() {}
func (ViewChanged) isEvent()    {}
func (MemberJoined) isEvent()   {}
func (MemberLeft) isEvent()     {}
func (MemberRemoved) isEvent()  {}
func (LeaderChanged) isEvent()  {}
func (QuorumLost) isEvent()     {}
func (QuorumRegained) isEvent() {}
func (LeaseChanged) isEvent()   {}
func (Removed) isEvent()        {}
func (Missed) isEvent()         {}
