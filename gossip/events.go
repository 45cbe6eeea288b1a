package gossip

import (
	"time"

	"github.com/peerage-go/peerage/gossip/transport"
	"github.com/peerage-go/peerage/gossip/view"
)

// Event is something that happened to this node. Events are delivered in order,
// from one goroutine; see Node.Subscribe. Its implementations are the structs
// below.
type Event interface{ event() }

// ViewChanged says that a newer view holds here. Views may be skipped when a
// subscriber is slow; the newest always comes.
type ViewChanged struct{ View *view.View }

// LeaseChanged says that the lease became valid (this node resumes) or invalid (it
// pauses), or changed its generation or kind; plain renewals are not told. LeaseValid,
// asked at every dispatch, is what counts: this event follows it.
type LeaseChanged struct {
	Lease view.Lease
	Valid bool
}

// MemberJoined says that a node has become a member with a vote: it may hold a lease
// from now on. The events about members follow the ViewChanged in which they show, and
// compare it with the last ViewChanged that was delivered: who came and went between two
// of those is not told. The first ViewChanged that a subscriber gets is followed by one
// for each member.
type MemberJoined struct {
	Member view.Member
	Epoch  view.Epoch
}

// MemberLeft says that a member with a vote has left at its own wish.
type MemberLeft struct {
	// Member is its last entry.
	Member view.Member
	// Epoch is that of the view without it.
	Epoch view.Epoch
}

// MemberRemoved says that a member with a vote was removed. All nodes are told the same
// Cause and Evidence, those for which the leader removed it. A node that did not hold
// the view in which that happened, but goes on with a later one, tells what it knows
// itself: view.CauseDead, or the zero Cause.
type MemberRemoved struct {
	// Member is its last entry.
	Member view.Member
	// Epoch is that of the view without it.
	Epoch view.Epoch
	Cause view.Cause
	// Evidence is what proved its death, an EvidenceKind's String; "" for other causes.
	Evidence string
}

// LeaderChanged says whom this node follows as leader: Leader is 0 while it knows of
// none. A leader that has fallen silent stays until there is another.
type LeaderChanged struct {
	Leader view.NodeID
	Epoch  view.Epoch
}

// QuorumLost says that this node has no lease (LeaseChanged came first), and that it
// will not soon have one: the members that it reaches are no quorum of its view by its
// partition policy, or nobody has led a quorum for RemoveAfter. It is told once, until
// QuorumRegained or Removed.
type QuorumLost struct {
	Epoch view.Epoch
	// For is for how long there has been no lease.
	For time.Duration
	// Reachable are this node and the members with links both ways, by seniority.
	Reachable []view.NodeID
}

// QuorumRegained takes QuorumLost back: this node holds a lease again.
type QuorumRegained struct{ Epoch view.Epoch }

// Abandoned says that every instance that runs here must be dropped without
// running user code. A lease of another generation becomes valid only after all
// subscribers have returned from it.
type Abandoned struct{}

// Removed says that this incarnation is over. It is the last event apart from
// those about peers.
type Removed struct{ view.Removed }

// Missed says to a subscriber of a Feed that it was too slow: so many events were left
// out, and the state as it is now follows, told as to a new subscriber. A member that is
// not told again has gone. Node.Subscribe leaves nothing out.
type Missed struct{ Events int }

// PeerUp says that an outgoing connection to a peer stands.
type PeerUp struct {
	ID    view.NodeID
	Class transport.Class
}

// PeerLost says that a connection with a peer broke. What was queued or in
// flight may or may not have arrived. For class Message it is also said of each
// failed attempt to connect: what was queued for it is lost.
type PeerLost struct {
	ID    view.NodeID
	Class transport.Class
	// Incoming is set when it was the peer's connection to us, on which answers
	// come.
	Incoming bool
	Err      error
}

// PeerDead says that a peer's process is known to be gone (DESIGN 4.5). A proof
// may be taken back when the peer is heard again: PeerAlive.
type PeerDead struct {
	ID   view.NodeID
	Kind EvidenceKind
}

// PeerAlive takes PeerDead back.
type PeerAlive struct{ ID view.NodeID }

func (ViewChanged) event()    {}
func (MemberJoined) event()   {}
func (MemberLeft) event()     {}
func (MemberRemoved) event()  {}
func (LeaderChanged) event()  {}
func (QuorumLost) event()     {}
func (QuorumRegained) event() {}
func (LeaseChanged) event()   {}
func (Abandoned) event()      {}
func (Removed) event()        {}
func (Missed) event()         {}
func (PeerUp) event()         {}
func (PeerLost) event()       {}
func (PeerDead) event()       {}
func (PeerAlive) event()      {}

// EvidenceKind says what proves that a process is gone, best first.
type EvidenceKind uint8

const (
	// EvidenceGoodbye: the peer signed off.
	EvidenceGoodbye EvidenceKind = iota + 1
	// EvidenceOtherNode: another incarnation answers at its address.
	EvidenceOtherNode
	// EvidenceOracle: the application's oracle says so.
	EvidenceOracle
	// EvidenceSealed: its connection broke, its address refuses connections, and its own
	// host says that the UDP port of its process is closed.
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
