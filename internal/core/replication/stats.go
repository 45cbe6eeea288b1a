package replication

import (
	"github.com/peerage-go/peerage/gossip/view"
)

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
