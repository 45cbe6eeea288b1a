package membership

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/discovery"
	"github.com/peerage-go/peerage/internal/transport"
)

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

// Stats is a snapshot of a node's counters, for metrics. Counters only grow.
type Stats struct {
	// Members is the number of members of the view by status, 1-based as
	// Status; index 0 counts all.
	Members [4]int
	// Epoch is that of the view, 0 without one.
	Epoch uint64
	// LeaseValid, Leader: this node holds a lease; it is the leader's. LeaseLeft is how long the
	// lease is still valid, 0 without one.
	LeaseValid, Leader bool
	LeaseLeft          time.Duration
	// Joined, Left and Removed count members that came, left by their own wish, and were removed
	// while this node was in the cluster.
	Joined, Left, Removed uint64
	// Views counts adopted views; Abandons counts how often running instances had to be
	// dropped.
	Views, Abandons uint64
	// LeaseLost counts leases that ended while the node was in a view.
	LeaseLost uint64
	// QuorumLost counts how often the quorum was lost (event QuorumLost).
	QuorumLost uint64
	// ForeignClusters is the number of other clusters of the same name that sent messages
	// recently; Contests counts how often a contest with one began.
	ForeignClusters int
	Contests        uint64
	// Evidence counts proofs of death by kind; EvidenceBack those withdrawn.
	Evidence     map[EvidenceKind]uint64
	EvidenceBack uint64
	// Suspicions counts memberlist's suspicions of other nodes, Refutations those of this
	// node that it refuted.
	Suspicions, Refutations uint64
	// Undecryptable counts datagrams and streams that no key of the ring decrypts: a node
	// gossips with another key (peerage.Node.RotateKeys), or without one.
	Undecryptable uint64
	// KeysDiffer is the number of members with which this node shares no SecretKey.
	KeysDiffer int
	// PacketsNotOurs counts datagrams and streams that memberlist cannot decode: of
	// another cluster, truncated, or garbage.
	PacketsNotOurs uint64
	// PacketsForbidden counts datagrams refused before memberlist unpacks them: oversize,
	// nested, compressed, malformed, or about an unverified node. PacketsFlood counts
	// those above the rates per source and in total.
	PacketsForbidden, PacketsFlood uint64
	// NamesRefused counts nodes kept out of memberlist by the bounds on new names;
	// StreamsRefused counts its streams that were cut off.
	NamesRefused, StreamsRefused uint64
	// HintsDropped counts nodes found by memberlist that were not dialled because too
	// many wait.
	HintsDropped uint64
	// HealthScore is memberlist's Lifeguard score, 0 when healthy.
	HealthScore int
	// Discovered and Faded count memberlist's joins and leaves.
	Discovered, Faded uint64
	// PacketIn, PacketOut, StreamIn and StreamOut are memberlist's traffic by channel.
	PacketIn, PacketOut, StreamIn, StreamOut Traffic
	// PacketsDropped counts datagrams dropped because memberlist was too slow.
	PacketsDropped uint64
	// ViewIn and ViewOut are the view protocol's traffic.
	ViewIn, ViewOut Traffic
	// FramesDropped counts frames of this package's kinds by reason.
	FramesMalformed, FramesOverflow, SendFailed uint64
	// BallotsStale counts pings, prepares and accepts under a ballot below a promised
	// one: of a former leader, or a replay. Impostures counts messages in another node's
	// name, and impossible lease grants; Strangers those of another cluster.
	BallotsStale, Impostures, Strangers uint64
	// NonMembers counts messages of the view protocol by non-members.
	NonMembers uint64
	// Probes counts dials to contact points, ProbesFailed those that failed; Refusals
	// counts refused dials to nodes met before.
	Probes, ProbesFailed, Refusals uint64
	// EventsDelivered, EventsCoalesced and EventsWaiting describe the queue of events;
	// InboxWaiting that of the core, with its maximum.
	EventsDelivered, EventsCoalesced uint64
	EventsWaiting                    int
	InboxWaiting, InboxMax           int
	// Steps counts the core's steps.
	Steps uint64
}

// Traffic is a number of messages and of their bytes.
type Traffic = discovery.Traffic

// counters are the live ones, shared by the parts of a node.
type counters struct {
	discovery.Counters
	views, abandons, leaseLost, quorumLost   atomic.Uint64
	joined, left, removed                    atomic.Uint64
	evidence                                 [EvidenceRefused + 1]atomic.Uint64
	evidenceBack                             atomic.Uint64
	viewIn, viewOut                          discovery.TrafficCounter
	malformed, overflow, sendFailed          atomic.Uint64
	stale, impostures, strangers, nonMembers atomic.Uint64
	probes, probesFailed, refused            atomic.Uint64
	steps, contests                          atomic.Uint64
	foreign, keysDiffer                      atomic.Int64
}

// The view core rejects impossible and stale messages of peers. The functions below count
// and log them.

// warnedOfMax bounds how many peers are logged, each once.
const warnedOfMax = 64

// noticeRefusal counts rejected messages under a ballot below a promised one. Some occur
// at every change of the leader; many indicate a former leader that does not learn of the
// change, or a replay.
func (l *loop) noticeRefusal(s view.Send) {
	m, is := s.Msg.(*view.Nack)
	if !is {
		return
	}
	l.n.counters.stale.Add(1)
	l.n.recordEvent("ballot refused", s.To, 0, "below one promised to "+m.Promised.Node.String(), slog.LevelDebug)
}

// countAnomaly counts impossible messages, and reports whether to warn the operator: once for each
// peer.
func (l *loop) countAnomaly(t view.TraceEvent) (warn bool) {
	switch t.Kind {
	case "other cluster":
		l.n.counters.strangers.Add(1)
		return false // forming warns of other clusters
	case "view from a non-member", "view from a node that was not asked":
		l.n.counters.nonMembers.Add(1)
		return false // a removed node may meet it: it asks its members
	case "membership message from a non-member, ignored":
		l.n.counters.nonMembers.Add(1)
	case "message in another node's name, ignored", "impossible lease grant, ignored", "join request with a member's id, ignored":
		l.n.counters.impostures.Add(1)
	case "contest ended":
		l.n.cfg.Logger.Error("no decision between two clusters of one name, both continue: stop the nodes of one of them, or remove the cause in detail",
			"node", l.n.self.Name, "subject", t.Subject, "detail", t.Detail)
		return false
	default:
		return false
	}
	return l.warnOnce(t.Subject)
}

// warnOfRoundTrip warns of a node that is too far away for Ping: elections and first leases need
// an answer within Ping.
func (l *loop) warnOfRoundTrip(ev transport.PeerEvent) {
	if ev.RoundTrip < l.n.cfg.Ping {
		return
	}
	l.farNodes.Log(l.n.cfg.Logger, slog.LevelWarn, ev.Peer.Name, "a round trip to this node takes Ping or longer, so elections and first leases may fail; raise Ping, Lease and RemoveAfter on all nodes",
		"node", l.n.self.Name, "subject", ev.Peer.Name, "round_trip", ev.RoundTrip, "ping", l.n.cfg.Ping)
}

// warnOnce reports whether to warn of a peer: true once for each.
func (l *loop) warnOnce(id gossip.NodeID) (warn bool) {
	if l.warnedOf[id] || len(l.warnedOf) >= warnedOfMax {
		return false
	}
	if l.warnedOf == nil {
		l.warnedOf = map[gossip.NodeID]bool{}
	}
	l.warnedOf[id] = true
	return true
}
