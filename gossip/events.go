package gossip

import (
	"time"

	"github.com/peerage-go/peerage/gossip/transport"
	"github.com/peerage-go/peerage/gossip/view"
)

// Event is a change of this node's state. Events are delivered in order, from one
// goroutine; see Node.Subscribe. The structs below implement it.
type Event interface{ isEvent() }

// ViewChanged reports that this node has adopted a newer view. Views may be skipped when
// a subscriber is slow; the newest is always delivered.
type ViewChanged struct{ View *view.View }

// LeaseChanged reports that the lease became valid (this node resumes) or invalid (it
// pauses), or changed its generation or kind; plain renewals are not reported.
// LeaseValid, called at every dispatch, is authoritative: this event follows it.
type LeaseChanged struct {
	Lease view.Lease
	Valid bool
}

// MemberJoined reports that a node has become a voting member: it may hold a lease from
// now on. The events about members follow their ViewChanged and compare it with the last
// ViewChanged that was delivered: a member that joined and left between the two is not
// reported. The first ViewChanged that a subscriber receives is followed by one
// MemberJoined for each member.
type MemberJoined struct {
	Member view.Member
	Epoch  view.Epoch
}

// MemberLeft reports that a voting member has left at its own request.
type MemberLeft struct {
	// Member is its last entry.
	Member view.Member
	// Epoch is that of the view without it.
	Epoch view.Epoch
}

// MemberRemoved reports that a voting member was removed. All nodes report the same Cause
// and Evidence, those for which the leader removed it. A node that skipped the view
// without the member reports its own evidence: view.CauseDead, or the zero Cause.
type MemberRemoved struct {
	// Member is its last entry.
	Member view.Member
	// Epoch is that of the view without it.
	Epoch view.Epoch
	Cause view.Cause
	// Evidence is what proved its death, an EvidenceKind's String; "" for other causes.
	Evidence string
}

// LeaderChanged reports the leader that this node follows; Leader is 0 while there is
// none. A silent leader stays until there is another.
type LeaderChanged struct {
	Leader view.NodeID
	Epoch  view.Epoch
}

// QuorumLost reports that this node has no lease (after LeaseChanged), and will not soon
// have one: the members that it reaches are no quorum of its view by its partition
// policy, or no quorum has had a leader for RemoveAfter. It is reported once, until
// QuorumRegained or Removed.
type QuorumLost struct {
	Epoch view.Epoch
	// For is how long there has been no lease.
	For time.Duration
	// Reachable are this node and the members with links both ways, by seniority.
	Reachable []view.NodeID
}

// QuorumRegained ends QuorumLost: this node holds a lease again.
type QuorumRegained struct{ Epoch view.Epoch }

// Abandoned requires that every instance on this node be dropped without running user
// code. A lease of another generation becomes valid only after all subscribers have
// returned from it.
type Abandoned struct{}

// Removed reports that this incarnation has ended. It is the last event apart from those
// about peers.
type Removed struct{ view.Removed }

// Missed reports to a subscriber of a Feed that it was too slow: Events were dropped, and
// the current state follows, as for a new subscriber. A member that is not reported again
// has gone. Node.Subscribe drops nothing.
type Missed struct{ Events int }

// PeerUp reports that an outgoing connection to a peer was established.
type PeerUp struct {
	ID    view.NodeID
	Class transport.Class
}

// PeerLost reports that a connection with a peer broke. Frames that were queued or in
// flight may or may not have arrived. For class Message each failed attempt to connect is
// also reported: the frames queued for it are lost.
type PeerLost struct {
	ID    view.NodeID
	Class transport.Class
	// Incoming is set if it was the peer's connection to this node, which carries
	// answers.
	Incoming bool
	Err      error
}

// PeerDead reports a proof that a peer's process has ended. A later sign of life may
// withdraw the proof: PeerAlive.
type PeerDead struct {
	ID   view.NodeID
	Kind EvidenceKind
}

// PeerAlive withdraws PeerDead.
type PeerAlive struct{ ID view.NodeID }

func (ViewChanged) isEvent()    {}
func (MemberJoined) isEvent()   {}
func (MemberLeft) isEvent()     {}
func (MemberRemoved) isEvent()  {}
func (LeaderChanged) isEvent()  {}
func (QuorumLost) isEvent()     {}
func (QuorumRegained) isEvent() {}
func (LeaseChanged) isEvent()   {}
func (Abandoned) isEvent()      {}
func (Removed) isEvent()        {}
func (Missed) isEvent()         {}
func (PeerUp) isEvent()         {}
func (PeerLost) isEvent()       {}
func (PeerDead) isEvent()       {}
func (PeerAlive) isEvent()      {}

// EvidenceKind is the kind of a proof that a process has ended, best first.
type EvidenceKind uint8

const (
	// EvidenceGoodbye: the peer signed off.
	EvidenceGoodbye EvidenceKind = iota + 1
	// EvidenceOtherNode: another incarnation answers at its address.
	EvidenceOtherNode
	// EvidenceOracle: the application's oracle confirmed it.
	EvidenceOracle
	// EvidenceSealed: its connection broke, its address refuses connections, and its own
	// host reports the UDP port of its process as closed.
	EvidenceSealed
	// EvidenceRefused: its connection broke without a goodbye, and its address
	// refuses connections.
	EvidenceRefused
	evidenceKinds
)

// String returns the kind in lower case.
func (k EvidenceKind) String() string {
	switch k {
	case EvidenceGoodbye:
		return "goodbye"
	case EvidenceOtherNode:
		return "other node"
	case EvidenceOracle:
		return "oracle"
	case EvidenceSealed:
		return "sealed refusal"
	case EvidenceRefused:
		return "refused"
	}
	return "evidence(?)"
}
