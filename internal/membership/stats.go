package membership

import "sync/atomic"

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
	// LeaseValid, Leader: this node holds a lease; it is the leader's.
	LeaseValid, Leader bool
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

// Traffic counts messages and their bytes.
type Traffic struct{ Messages, Bytes uint64 }

// traffic is a live Traffic.
type traffic struct{ messages, bytes atomic.Uint64 }

func (t *traffic) countMessage(n int) {
	t.messages.Add(1)
	t.bytes.Add(uint64(max(n, 0)))
}

func (t *traffic) loadTraffic() Traffic {
	return Traffic{Messages: t.messages.Load(), Bytes: t.bytes.Load()}
}

// counters are the live ones, shared by the parts of a node.
type counters struct {
	views, abandons, leaseLost, quorumLost   atomic.Uint64
	evidence                                 [EvidenceRefused + 1]atomic.Uint64
	evidenceBack                             atomic.Uint64
	suspicions, refutations, undecryptable   atomic.Uint64
	discovered, faded                        atomic.Uint64
	packetIn, packetOut, streamIn, streamOut traffic
	packetsDropped, packetsNotOurs           atomic.Uint64
	packetsForbidden, packetsFlood           atomic.Uint64
	namesRefused, streamsRefused             atomic.Uint64
	hintsDropped                             atomic.Uint64
	viewIn, viewOut                          traffic
	malformed, overflow, sendFailed          atomic.Uint64
	stale, impostures, strangers, nonMembers atomic.Uint64
	probes, probesFailed, refused            atomic.Uint64
	steps, contests                          atomic.Uint64
	foreign, keysDiffer                      atomic.Int64
}

// Stats returns the present counters. It costs some microseconds and blocks no other
// call.
func (n *Node) Stats() Stats {
	c := &n.counters
	s := Stats{
		Views: c.views.Load(), Abandons: c.abandons.Load(), LeaseLost: c.leaseLost.Load(), QuorumLost: c.quorumLost.Load(),
		Evidence: map[EvidenceKind]uint64{}, EvidenceBack: c.evidenceBack.Load(),
		Suspicions: c.suspicions.Load(), Refutations: c.refutations.Load(),
		Undecryptable: c.undecryptable.Load(),
		Discovered:    c.discovered.Load(), Faded: c.faded.Load(),
		PacketIn: c.packetIn.loadTraffic(), PacketOut: c.packetOut.loadTraffic(),
		StreamIn: c.streamIn.loadTraffic(), StreamOut: c.streamOut.loadTraffic(),
		PacketsDropped: c.packetsDropped.Load(), PacketsNotOurs: c.packetsNotOurs.Load(),
		PacketsForbidden: c.packetsForbidden.Load(), PacketsFlood: c.packetsFlood.Load(),
		NamesRefused: c.namesRefused.Load(), StreamsRefused: c.streamsRefused.Load(), HintsDropped: c.hintsDropped.Load(),
		ViewIn: c.viewIn.loadTraffic(), ViewOut: c.viewOut.loadTraffic(),
		FramesMalformed: c.malformed.Load(), FramesOverflow: c.overflow.Load(), SendFailed: c.sendFailed.Load(),
		BallotsStale: c.stale.Load(), Impostures: c.impostures.Load(), Strangers: c.strangers.Load(), NonMembers: c.nonMembers.Load(),
		Probes: c.probes.Load(), ProbesFailed: c.probesFailed.Load(), Refusals: c.refused.Load(),
		Steps: c.steps.Load(), ForeignClusters: int(c.foreign.Load()), KeysDiffer: int(c.keysDiffer.Load()), Contests: c.contests.Load(),
	}
	for k := EvidenceGoodbye; k <= EvidenceRefused; k++ {
		s.Evidence[k] = c.evidence[k].Load()
	}
	if v := n.View(); v != nil {
		s.Epoch = uint64(v.Epoch)
		for i := range v.Members {
			s.Members[0]++
			if st := int(v.Members[i].Status); st < len(s.Members) {
				s.Members[st]++
			}
		}
	}
	s.LeaseValid = n.LeaseValid()
	s.Leader = s.LeaseValid && n.Lease().Leader
	s.EventsDelivered, s.EventsCoalesced, s.EventsWaiting = n.events.queueCounts()
	s.InboxWaiting, s.InboxMax = n.inbox.queueCounts()
	if n.discovery != nil {
		s.HealthScore = n.discovery.health()
	}
	return s
}
