package view

import (
	"time"

	"github.com/peerage-go/peerage/internal/clock"
)

// CrashEvidence says how far proofs of death count. Certain and weak proofs are
// described at ProvenDead.
type CrashEvidence uint8

const (
	// EvidenceFull lets proofs speed removal up; certain proofs also allow total quorums.
	EvidenceFull CrashEvidence = iota
	// EvidenceWithinQuorum lets proofs speed removal up and never lets them replace a
	// quorum. The shell counts as certain only proofs that no network can forge.
	EvidenceWithinQuorum
	// EvidenceOff ignores proofs: silence alone removes.
	EvidenceOff
)

// Config is what a Core needs to know at birth. All durations must be positive.
type Config struct {
	Self Node
	// Ping is P: how often the leader pings.
	Ping time.Duration
	// Lease is L.
	Lease time.Duration
	// RemoveAfter is the silence after which the leader removes a member.
	RemoveAfter time.Duration
	// DriftPPM bounds by how much two clocks' rates may differ, in parts per million.
	DriftPPM int
	Evidence CrashEvidence
	// Foreign says what to do about another cluster of the same name.
	Foreign ForeignPolicy
	// Authenticated says that nodes prove who they are to each other.
	Authenticated bool
	// Least is the generation that a cluster must have opened to let this node in: it
	// lies above all that the node has met in other clusters.
	Least uint32
	// Partition is the policy of DESIGN 4.6, KeepMajority if nil.
	Partition Policy
	// Seed feeds the core's random waits and its new cluster's id; cores have no
	// randomness of their own.
	Seed uint64
}

// Event is what happens to a Core. Its implementations are the structs below.
type Event interface{ event() }

// Tick says that time has passed: the shell sends it at Core.Deadline or later.
type Tick struct{}

// Received is a message from a peer. The core takes ownership of Msg.
type Received struct {
	From NodeID
	Msg  Message
}

// Form tells a node without a view to form a new cluster of one. Generation is
// the wall clock in seconds.
type Form struct {
	Generation uint32
	// Millisecond of the wall clock's second, 0 to 999, tells apart two clusters that are
	// formed in one generation, one after the other: the later one's epochs are higher.
	Millisecond uint16
	// Origin is that of the files of those that form, see View.Origin; 0 makes the cluster
	// an origin.
	Origin uint64
}

// Contacts names nodes that may know a cluster, learnt from contact points and
// discovery. A node without a view asks them to let it in, again and again.
type Contacts struct{ Nodes []Node }

// Leave asks the leader to take this node out of the view, in order.
type Leave struct{}

// AnnounceLeave says that this node will leave: the views that follow show it as
// leaving, which changes nothing but where others place things. It is never taken
// back.
type AnnounceLeave struct{}

// ProvenDead reports proof that a peer's process is gone. A later event with a certain
// proof supersedes a weak one.
type ProvenDead struct {
	Subject NodeID
	Reason  string
	// Certain is set on a proof that a rejecting network cannot give. Only certain proofs
	// allow a total quorum, release an acceptor's promise to the dead leader, and remove a
	// member immediately. A weak proof only shortens the wait: the leader removes the
	// member once the member's lease has certainly ended.
	Certain bool
}

// Alive takes a proof back: the peer was heard of after all. A proof by a new
// incarnation or a signed-off leave is never taken back.
type Alive struct{ Subject NodeID }

// Link says whether a control connection with Subject stands, both ends known
// and nothing overdue. It is told at once on every change: a node that still
// hears a peer denies others' proofs of its death.
type Link struct {
	Subject NodeID
	Up      bool
}

// Unreachable reports the peers that this node can open no working link to. It
// replaces the former report.
type Unreachable struct{ Nodes []NodeID }

// Yield asks the leader to end the lease of Subject or of Reporter, whichever
// has fewer working links: a coordinator cannot reach Subject (4.4).
type Yield struct{ Subject, Reporter NodeID }

// ForeignSeen says that nodes stand in another cluster of this one's name, and that it
// can act.
type ForeignSeen struct {
	Cluster uint64
	Nodes   []Node
}

func (ForeignSeen) event()   {}
func (Tick) event()          {}
func (Received) event()      {}
func (Form) event()          {}
func (Contacts) event()      {}
func (Leave) event()         {}
func (AnnounceLeave) event() {}
func (ProvenDead) event()    {}
func (Alive) event()         {}
func (Link) event()          {}
func (Unreachable) event()   {}
func (Yield) event()         {}

// Effects is what a step asks the shell to do. The shell empties it between
// steps and carries out its parts in the order of the fields: a lease that has
// ended is withdrawn before anything is sent.
type Effects struct {
	// Lease is set when the lease changed.
	Lease *Lease
	// Abandon is set when every instance that runs here must be dropped without
	// running user code: the lease came back in another generation, or Removed.
	Abandon bool
	// View is set when a newer view was committed or learnt here.
	View *View
	// Learn names nodes that the shell may have to reach although they stand in no
	// view yet.
	Learn []Node
	// Removed is set once, last: this incarnation is over. The core ignores every
	// later event.
	Removed *Removed
	Send    []Send
	Trace   []TraceEvent
}

// Reset empties e and keeps its memory.
func (e *Effects) Reset() {
	*e = Effects{Learn: e.Learn[:0], Send: e.Send[:0], Trace: e.Trace[:0]}
}

// Send is a control message to a peer. Delivery is not promised.
type Send struct {
	To  NodeID
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

// Removed says why an incarnation is over.
type Removed struct {
	Epoch  Epoch
	Reason string
	// Generation is the highest that this incarnation has met in views and attempts.
	Generation uint32
	// QuorumLost says that too many members of the last view are proven dead for any
	// quorum, so no cluster goes on without this node.
	QuorumLost bool
	// Outranked says that another cluster, or another lineage of this one, goes on. The
	// next incarnation must bring along that its generation has to lie above those met
	// here: Config.Least.
	Outranked bool
}

// TraceEvent is one line for logs, metrics and simulator output. Cores do not
// log.
type TraceEvent struct {
	// Kind is one of the package's trace kinds: "view committed", "lease lost", ...
	Kind string
	// Subject is the node it is about, zero if none.
	Subject NodeID
	Epoch   Epoch
	Detail  string
}

// Message is a control message of the view protocol. Messages are immutable once
// sent; the simulator hands the same value to several receivers.
type Message interface{ message() }
