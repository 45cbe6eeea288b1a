package figures

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// Replicator is a snapshot of one replicator: gauges first, then counters since its start.
type Replicator struct {
	Keys  int
	Bytes int
	// Tombstones are deleted keys that not all replicas have forgotten yet. Floor counts the
	// rounds of garbage collection.
	Tombstones int
	Floor      uint64
	// Retained counts the deletions of durable keys, and of entries under them, that are
	// remembered. Above the limit of tombstones they are forgotten sooner.
	Retained int
	Pending  int
	// Peers is the number of other members with the role. Settled reports whether this
	// replica has caught up with the current view.
	Peers   int
	Settled bool
	// LogEntries and LogBytes are own changes that some peer has not confirmed.
	LogEntries, LogBytes int
	// LagMax is the number of own changes that the slowest peer has not confirmed.
	LagMax      uint64
	Subscribers int
	// Durable is set if the replicator has a file of durable keys, DurableFailing while they
	// cannot be stored.
	Durable, DurableFailing bool

	Updates, Reads uint64
	DeltasSent     uint64 // entries, including retransmitted ones
	DeltasReceived uint64
	DeltasResent   uint64
	Gaps           uint64 // entries received with a gap before them
	Descents       uint64 // anti-entropy exchanges beyond the root digest
	LanesDismissed uint64 // helpers of such an exchange that were late, gone or useless
	ValuesSent     uint64 // full values, by anti-entropy and repair
	PartsSent      uint64 // values of which only the parts that differ were sent
	ValuesReceived uint64
	Repairs        uint64 // values that reads sent to stale replicas
	FencedHere     uint64 // requests of peers that a fence here rejected
	FarTerms       uint64 // fences of peers, rejected because no view can have had their term
	Refused        uint64 // remote data above twice a limit, or malformed
	FalseClaims    uint64 // items that claim changes which this node or another member never made
	Ahead          uint64 // changes whose writers sent them with stamps too far ahead of the clocks
	Restamped      uint64 // own entries that were ahead of the first clock of another member
	Eras           uint64 // begun here: all stamps of a written entry's era were ahead of the clocks
	Transfers      uint64 // large messages sent in parts
	ForeignFrames  uint64 // messages of nodes outside the view
	Rounds         uint64 // of garbage collection in which this replica took part
	Pruned         uint64 // tombstones, shares and contexts that were forgotten here
	Unlevel        uint64 // messages rejected because their sender is at another floor
	FloorGaps      uint64 // missed rounds of garbage collection; must stay 0
	SetAside       uint64 // durable keys set aside because their file was absent for too long
	LateFiles      uint64 // files loaded after one that was absent for longer: their deleted keys may reappear
	Expired        uint64 // keys that this replica deleted because they were idle
	LimitErrors    uint64
	QuorumErrors   uint64
	LeaseErrors    uint64 // of QuorumErrors, those without a lease at the end

	// InboxDropped counts frames that arrived while the inbox was full.
	InboxDropped uint64
	// SendRefused counts frames that the transport rejected.
	SendRefused                   uint64
	FramesSent, BytesSent         uint64
	FramesReceived, BytesReceived uint64
	// FramesBad counts malformed frames.
	FramesBad uint64
	// DurableWrites counts syncs of the file of durable keys, DurableErrors those that
	// failed: nothing was acknowledged then, and the write is retried.
	DurableWrites, DurableErrors uint64
}

// Replica describes another member of the role as a replicator sees it.
type Replica struct {
	ID gossip.NodeID
	// Down: its connection was lost.
	Down bool
	// Lag is the number of own changes that it has not confirmed.
	Lag uint64
	// CaughtUp reports whether it has caught up with the current view.
	CaughtUp bool
}

// ReplicatorObserver receives the events of a replicator; nil functions are not called. All
// are called from the replicator's goroutine and must not block.
type ReplicatorObserver struct {
	// Done is called for every finished request: op is "update" or "get", result
	// is "ok", "unknown", "members", "fenced", "limit", "cancelled" or "error".
	Done func(op string, level string, result string, took time.Duration)
	// Sent is called for every frame that the transport accepted or rejected.
	Sent func(message string, bytes int, err error)
}
