package gossip

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
