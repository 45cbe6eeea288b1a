package view

import (
	"fmt"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/wire"
)

// Config configures a Core. All durations must be positive.
type Config struct {
	Self gossip.Node
	// Ping is the interval between the leader's rounds of pings.
	Ping time.Duration
	// Lease is the duration of leases and of promises to a leader; L in comments.
	Lease time.Duration
	// RemoveAfter is how long a member may be silent before the leader removes it.
	RemoveAfter time.Duration
	// DriftPPM bounds by how much two clocks' rates may differ, in parts per million.
	DriftPPM int
	Evidence gossip.CrashEvidence
	// Foreign is the policy for another cluster of the same name.
	Foreign gossip.ForeignPolicy
	// Authenticated reports whether nodes prove their identity to each other.
	Authenticated bool
	// Least is the lowest generation of a cluster that may admit this node. It is above
	// all generations that the node has met in other clusters.
	Least uint32
	// Partition decides which part of a view goes on in a partition; KeepMajority if nil.
	Partition gossip.Policy
	// PackFrom is the number of members from which views are sent as differences, 0 for 8.
	// The simulator lowers it, since most of its clusters are small.
	PackFrom int
	// Seed feeds the core's random waits and its new cluster's id; cores have no
	// randomness of their own.
	Seed uint64
}

// Event is an input of a Core. The structs below implement it.
type Event interface{ isEvent() }

// Tick lets the core act on the time: the shell sends it at Core.Deadline or later.
type Tick struct{}

// Received is a message from a peer. The core takes ownership of Msg.
type Received struct {
	From gossip.NodeID
	Msg  Message
}

// Form makes a node without a view form a new cluster of one. Generation is the wall
// clock in seconds.
type Form struct {
	Generation uint32
	// Millisecond of the wall clock's second, 0 to 999, orders two clusters formed one
	// after the other in one generation: the later one's epochs are higher.
	Millisecond uint16
	// Origin is that of the founders' files, see View.Origin; 0 makes the cluster an
	// origin.
	Origin uint64
	// Secret is the new cluster's, drawn from a cryptographic source. Without one, lineages
	// that have no member in common do not end each other.
	Secret [2]uint64
}

// Contacts names nodes that may be in a cluster, learnt from contact points and
// discovery. A node without a view asks them for admission until one admits it.
type Contacts struct{ Nodes []gossip.Node }

// Leave asks the leader to take this node out of the view, in order.
type Leave struct{}

// AnnounceLeave announces that this node will leave. The following views show it as
// leaving, so that no member places anything new on it; nothing else changes. It cannot
// be withdrawn.
type AnnounceLeave struct{}

// ProvenDead reports proof that a peer's process is gone. A later event with a certain
// proof supersedes a weak one.
type ProvenDead struct {
	Subject gossip.NodeID
	Reason  string
	// Certain is set on a proof that a rejecting network cannot give. Only certain proofs
	// allow a total quorum, release an acceptor's promise to the dead leader, and remove a
	// member immediately. A weak proof only shortens the wait: the leader removes the
	// member once the member's lease has certainly ended.
	Certain bool
}

// Alive withdraws a proof: a sign of life of the peer has arrived. A proof by a new
// incarnation or a signed-off leave is never withdrawn.
type Alive struct{ Subject gossip.NodeID }

// Link reports whether a control connection with Subject is up, both ends identified and
// nothing overdue. The shell sends it immediately on every change: a node with a link to
// a peer denies proofs of the peer's death.
type Link struct {
	Subject gossip.NodeID
	Up      bool
}

// Unreachable reports the peers to which this node can open no working link. It replaces
// the former report.
type Unreachable struct{ Nodes []gossip.NodeID }

// Yield asks the leader to end the lease of Subject or Reporter, the one with fewer
// working links: a coordinator on Reporter cannot reach Subject (partialpartition.go).
type Yield struct{ Subject, Reporter gossip.NodeID }

// ForeignSeen reports nodes of another cluster of the same name that can act.
type ForeignSeen struct {
	Cluster uint64
	Nodes   []gossip.Node
}

func (ForeignSeen) isEvent()   {}
func (Tick) isEvent()          {}
func (Received) isEvent()      {}
func (Form) isEvent()          {}
func (Contacts) isEvent()      {}
func (Leave) isEvent()         {}
func (AnnounceLeave) isEvent() {}
func (ProvenDead) isEvent()    {}
func (Alive) isEvent()         {}
func (Link) isEvent()          {}
func (Unreachable) isEvent()   {}
func (Yield) isEvent()         {}

// Effects holds the actions that a step requests of the shell. The shell empties it
// between steps and performs the parts in the order of the fields: a lease that has ended
// is withdrawn before anything is sent.
type Effects struct {
	// Lease is set when the lease changed.
	Lease *Lease
	// Abandon is set when every instance that runs here must be dropped without
	// running user code: the lease came back in another generation, or Removed.
	Abandon bool
	// View is set when this node committed or learned a newer view.
	View *gossip.View
	// Learn names nodes that the shell may have to reach although they are in no view
	// yet.
	Learn []gossip.Node
	// Removed is set once, in the last step: this incarnation has ended. The core ignores
	// every later event.
	Removed *gossip.Removed
	Send    []Send
	Trace   []TraceEvent
}

// Reset empties e and keeps its memory.
func (e *Effects) Reset() {
	*e = Effects{Learn: e.Learn[:0], Send: e.Send[:0], Trace: e.Trace[:0]}
}

// Send is a control message to a peer. Delivery is not guaranteed.
type Send struct {
	To  gossip.NodeID
	Msg Message
}

// Lease is a node's right to run entities. The zero Lease is no lease.
type Lease struct {
	// Until is the instant on this node's clock at which it ends.
	Until clock.Instant
	// Generation is that of the view it was granted in.
	Generation uint32
	// Leader reports whether it is the leader's own lease.
	Leader bool
}

// Valid reports whether the lease holds at now.
func (l Lease) Valid(now clock.Instant) bool { return now.Before(l.Until) }

// TraceEvent is one line for logs, metrics and simulator output. Cores do not
// log.
type TraceEvent struct {
	// Kind is one of the package's trace kinds: "view committed", "lease lost", ...
	Kind string
	// Subject is the node that the event concerns, zero if none.
	Subject gossip.NodeID
	Epoch   gossip.Epoch
	Detail  string
}

// Message is a control message of the view protocol. Messages are immutable once
// sent; the simulator hands the same value to several receivers.
type Message interface {
	messageTag() byte
	codeFields(c *wire.Coder)
}

// View returns the newest decided view that this node has learned, nil before it is
// admitted.
func (c *Core) View() *gossip.View { return c.view }

// Lease returns the lease as last granted.
func (c *Core) Lease() Lease { return c.holder.lease }

// Leader returns the leader that this node follows, and whether there is one.
func (c *Core) Leader() (gossip.NodeID, bool) { return c.follower.leader, c.follower.leader != 0 }

// LeaderLease returns the end of the leader lease, 0 when this node does not lead
// or holds none.
func (c *Core) LeaderLease() clock.Instant {
	if c.leadership == nil {
		return 0
	}
	return c.leadership.leaseUntil
}

// Generation returns the highest generation met in any view or attempt.
func (c *Core) Generation() uint32 { return c.generation }

// Over reports whether the incarnation has ended.
func (c *Core) Over() bool { return c.ended }

// State describes a node's part in the protocol, for operators.
type State struct {
	// Part is "joiner", "member", "candidate", or "leader".
	Part     string
	Epoch    gossip.Epoch
	Leader   gossip.NodeID
	Promised Ballot
	// Attempt is the epoch of a proposed view that this node has accepted but not yet
	// learned as decided, 0 if none.
	Attempt gossip.Epoch
	// Dead lists the members that are proven dead to this node.
	Dead []gossip.NodeID
	// Waiting counts the join and leave requests that wait at this leader.
	Waiting int
	Leaving bool
}

// State returns the core's present state for operators.
func (c *Core) State() State {
	s := State{Part: "joiner", Promised: c.acceptor.promised, Leader: c.follower.leader, Leaving: c.departure.leaving}
	if c.view == nil {
		return s
	}
	s.Epoch, s.Part, s.Dead = c.view.Epoch, "member", slices.Concat(c.evidence.deadMembers())
	if a := c.acceptor.attempts[c.view.Epoch]; a != nil {
		s.Attempt = a.next.Epoch
	}
	switch {
	case c.leadership != nil:
		s.Part, s.Waiting = "leader", len(c.leadership.joins)+len(c.leadership.leaves)
	case c.campaign.candidacy != nil:
		s.Part = "candidate"
	}
	return s
}

// Check returns an error if an invariant does not hold. Tests and simulators call
// it after every step.
func (c *Core) Check() error {
	switch {
	case c.ended:
		if c.holder.lease.Until != 0 {
			return fmt.Errorf("%v holds a lease after its end", c.self())
		}
		return nil
	case c.view == nil:
		if c.holder.lease.Until != 0 || c.leadership != nil || c.campaign.candidacy != nil {
			return fmt.Errorf("%v acts without a view", c.self())
		}
		return nil
	}
	switch {
	case c.leadership != nil && c.leadership.ballot.Node != c.self():
		return fmt.Errorf("%v leads with the ballot of %v", c.self(), c.leadership.ballot.Node)
	case c.leadership != nil && c.leadership.ballot.Less(c.acceptor.promised):
		return fmt.Errorf("%v leads with a ballot below its promise", c.self())
	case c.leadership != nil && c.campaign.candidacy != nil:
		return fmt.Errorf("%v leads and is a candidate", c.self())
	case c.farewell == nil && (c.leadership != nil) != c.follower.isLeader():
		return fmt.Errorf("%v leads %v, and follows %v", c.self(), c.leadership != nil, c.follower.leader)
	}
	if err := c.checkHistory(); err != nil {
		return err
	}
	return c.acceptor.checkAttempts()
}
