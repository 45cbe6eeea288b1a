package core

import "github.com/peerage-go/peerage/gossip/view"

// Stats is a snapshot of a core: gauges first, then counters since its birth.
type Stats struct {
	Keys  int
	Bytes int
	// Tombstones are the keys that have been deleted and not yet forgotten
	// everywhere; Floor counts the rounds of forgetting (prune.go).
	Tombstones int
	Floor      uint64
	// Retained are the deletions under durable keys that are remembered, of keys and of
	// entries: from Limits.Tombstones on they end sooner (retain.go).
	Retained int
	Pending  int
	// Peers is the number of members the core speaks with; Settled reports whether
	// it has caught up with the current view (quorum.go).
	Peers   int
	Settled bool
	// LogEntries and LogBytes are own changes that some peer has not confirmed.
	LogEntries, LogBytes int
	// LagMax is the number of own changes that the slowest peer has not confirmed.
	LagMax uint64

	Updates, Reads uint64
	DeltasSent     uint64 // entries, repetitions included
	DeltasReceived uint64
	DeltasResent   uint64
	Gaps           uint64 // entries that came with a hole before them
	Descents       uint64 // anti-entropy exchanges beyond the root digest
	LanesDismissed uint64 // helpers of such an exchange that were late, gone or of no use
	ValuesSent     uint64 // full values, by anti-entropy and repair
	PartsSent      uint64 // values of which only the parts that differ were sent
	ValuesReceived uint64
	Repairs        uint64 // values sent to stale replicas by reads
	FencedHere     uint64 // requests of others refused by a fence here
	FarTerms       uint64 // fences of others with a term that no view can have had, refused
	Refused        uint64 // remote data refused at twice a limit, or undecodable
	FalseClaims    uint64 // items that claim changes which this node or another member has not made
	Ahead          uint64 // changes that their writers sent with stamps too far ahead of the clocks
	Restamped      uint64 // own entries that were ahead of the first clock that was heard
	Eras           uint64 // begun here, since all stamps of a written entry's era were ahead of the clocks
	Transfers      uint64 // large messages sent in parts
	ForeignFrames  uint64 // messages of nodes outside the view
	Rounds         uint64 // of forgetting that this replica has taken part in
	Pruned         uint64 // tombstones, shares and contexts that were forgotten here
	Unlevel        uint64 // messages refused because of another floor
	FloorGaps      uint64 // commits that were missed, which cannot be
	SetAside       uint64 // durable keys that were taken out because their file was away for too long
	LateHorizons   uint64 // files that came after one that was away for longer: what they deleted may be back
	Expired        uint64 // keys that this replica ended for idleness
	LimitErrors    uint64
	QuorumErrors   uint64
	LeaseErrors    uint64 // of QuorumErrors, those without a lease at the end
}

// TraceEvent is one line for logs, metrics and simulator output.
type TraceEvent struct {
	Kind   TraceKind
	Peer   view.NodeID
	Key    string
	Bytes  int
	Detail string
}

// TraceKind is the kind of a TraceEvent.
type TraceKind string

// The trace kinds of this package.
const (
	TraceFenceRaised  TraceKind = "fence raised"
	TraceFenceRefused TraceKind = "fence refused"
	TraceFenceFar     TraceKind = "fence far beyond the view"
	TraceResent       TraceKind = "deltas resent"
	TraceLogCut       TraceKind = "log cut"
	TraceDescend      TraceKind = "digests differ"
	TraceSynced       TraceKind = "synced"
	TraceSettled      TraceKind = "settled"
	TraceRefused      TraceKind = "refused"
	TraceAhead        TraceKind = "stamp ahead"
	TraceEra          TraceKind = "era"
	TraceRestamped    TraceKind = "restamped"
	TraceRepair       TraceKind = "read repair"
	TraceTransfer     TraceKind = "transfer"
	TracePruned       TraceKind = "pruned"
	TraceExpired      TraceKind = "expired"
	TraceDropped      TraceKind = "dropped"
	TraceSetAside     TraceKind = "set aside"
	TraceLateHorizon  TraceKind = "late horizon"
)
