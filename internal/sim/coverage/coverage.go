// Package coverage has the rare states that a long campaign of the simulator must have seen.
// Without them a campaign without failures proves little.
package coverage

// Mark names a rare state. Marks of parts that a configuration switches off do not count for
// a campaign.
type Mark int

const (
	QuorumLost Mark = iota
	QuorumRegained
	Emergency
	Carried
	HalfQuorum
	LeaseLapsed
	LeaseResumed
	PauseLapsed
	RemovedSilent
	RemovedDead
	Left
	Rejoined
	Reformed
	SoleSurvivor
	Burst
	OtherNode
	QueueFull
	OneWay
	Reject
	WrongEvidence
	Stranger
	DriftBeyond
	Abandoned
	RestartAll
	Operator
	BufferFull
	Misrouted
	Forced
	Drained
	Move
	MoveCancelled
	Claim
	StillServed
	WriteUnknown
	Yield
	StaleTerm
	StaleToken
	Held
	Fenced
	LogCut
	ReadRepair
	Descend
	StateSent
	StateArrived
	StateLost
	ReplyLate
	AskExpired
	Strike
	RaiseAimed
	RemovalAimed
	Proxy
	SecondRole
	Policy
	Declined
	Promised
	LateFenced
	WallJump
	Met
	Yielded
	Absorbed
	DiskFails
	Restored
	WordsKept
	Corrupted
	Blocked
	Ring
	ClockJump
	RegisterRead
	HeldUp
	GateClosed
	SentAgain
	WindowShrunk
	Parked
	Withdrawn
	FrozenLease
	Packed
	WholeAsked
	RateChanged
	PausedInStep
	TenantAnswered
	Rehosted
	Observed
	Misused
	PutAside
	WindowFull
	Confirmed
	Resent
	Repeated
	PutOff
	MemoryLost
	ChunkTooLarge
	Wished
	BeyondHelp
	MixedReleases
	Flushed
	Undelivered
	CopyFound
	CopiesShort
	CopiesLost
	NotKept
	WorkerRan
	WorkerForced
	Scaled
	LineFull
	EntityRan
	EntityCrashed
	Recalled
	Elsewhere
	RememberedRan
	// End is the number of marks.
	End
)

var names = [...]string{
	QuorumLost:     "quorum lost",
	QuorumRegained: "quorum regained",
	Emergency:      "emergency takeover",
	Carried:        "attempt carried",
	HalfQuorum:     "exactly half decided",
	LeaseLapsed:    "lease lapsed",
	LeaseResumed:   "lease resumed",
	PauseLapsed:    "lease ended by pause",
	RemovedSilent:  "removed for silence",
	RemovedDead:    "removed as proven dead",
	Left:           "left in order",
	Rejoined:       "rejoined as new incarnation",
	Reformed:       "formed again",
	SoleSurvivor:   "sole survivor went on",
	Burst:          "aimed burst",
	OtherNode:      "other node at address",
	QueueFull:      "send queue full",
	OneWay:         "one-way partition",
	Reject:         "rejecting partition",
	WrongEvidence:  "proof of a living process",
	Stranger:       "stranger speaks",
	DriftBeyond:    "drift beyond bound",
	Abandoned:      "instances abandoned",
	RestartAll:     "restart of all",
	Operator:       "stranded until restarted",
	BufferFull:     "buffer full",
	Misrouted:      "message refused by a node that is not the home",
	Forced:         "shard stopped by force",
	Drained:        "drained",
	Move:           "move begun",
	MoveCancelled:  "move cancelled",
	Claim:          "claim adopted in census",
	StillServed:    "shard still served after a cancel",
	WriteUnknown:   "write outcome unknown",
	Yield:          "coordinator asks for a lease to end",
	StaleTerm:      "stale term refused",
	StaleToken:     "stale token refused",
	Held:           "order held for a later view",
	Fenced:         "fence refused",
	LogCut:         "delta log cut",
	ReadRepair:     "read repair",
	Descend:        "digests differ",
	StateSent:      "states sent to a new home",
	StateArrived:   "state arrived",
	StateLost:      "state lost with a process",
	ReplyLate:      "reply to an ask that is over",
	AskExpired:     "ask not begun, its asker has given up",
	Strike:         "fault aimed at a move",
	RaiseAimed:     "fault aimed at new voters",
	RemovalAimed:   "fault aimed at a removal",
	Proxy:          "a proxy was served",
	SecondRole:     "two roles served",
	Policy:         "another partition policy",
	Declined:       "office declined",
	Promised:       "type registered in the view of a promise to decline",
	LateFenced:     "connection fenced",
	WallJump:       "wall clock set",
	Met:            "clusters of one name met",
	Yielded:        "cluster yielded to another",
	Absorbed:       "node of another cluster taken in",
	DiskFails:      "disk failed",
	Restored:       "durable keys read from a file",
	Corrupted:      "frame damaged",
	Blocked:        "handler blocked",
	Ring:           "each host reaches its two neighbours in a ring",
	ClockJump:      "clock of stamps set",
	RegisterRead:   "register read",
	HeldUp:         "caller waits for a grant",
	GateClosed:     "senders stopped for an entity",
	SentAgain:      "refused message sent again",
	WindowShrunk:   "idle window shrunk",
	Parked:         "message waits for its mailbox",
	FrozenLease:    "lease outlives a removal, by a clock that stood still",
	Packed:         "view sent as a difference",
	WholeAsked:     "whole view asked for",
	RateChanged:    "clock changed its rate within a lease",
	TenantAnswered: "another cluster's process at the address of a dead one",
	Rehosted:       "next incarnation at the address of another dead process",
	PausedInStep:   "paused before the messages of a step were sent",
	Withdrawn:      "caller gave up waiting for room",
	WordsKept:      "all durable words are there in the end",
	Observed:       "replicator observed",
	Misused:        "request refused, as it must be",
	PutAside:       "file set aside",
	WindowFull:     "window of a reliable producer full",
	Confirmed:      "reliable message confirmed",
	Resent:         "reliable message sent again",
	Repeated:       "copy of a reliable message repeated",
	PutOff:         "reliable message put aside",
	MemoryLost:     "memory of reliable messages lost",
	ChunkTooLarge:  "states in smaller chunks",
	Wished:         "application names homes",
	BeyondHelp:     "incarnation beyond help",
	MixedReleases:  "releases of the application differ",
	Flushed:        "reliable producer flushed",
	Undelivered:    "states that no other process holds",
	CopyFound:      "replicated state found",
	CopiesShort:    "acknowledged states may be missing",
	CopiesLost:     "acknowledged state lost with a majority of its copies",
	NotKept:        "reply without enough copies",
	WorkerRan:      "worker of a daemon runs",
	WorkerForced:   "worker that did not end is abandoned",
	Scaled:         "number of workers changed",
	LineFull:       "no room on the line of a host",
	EntityRan:      "entity runs that needs no message",
	EntityCrashed:  "remembered entity crashed",
	Recalled:       "remembered entity started",
	Elsewhere:      "remembered entity started in its new shard",
	RememberedRan:  "all remembered entities run in the end",
}

// String returns the mark's name.
func (m Mark) String() string { return names[m] }

// SeenWithin returns the number of seeds of which a campaign must have seen the mark. Most marks are
// seen by each two thousand; the rare ones by chance alone, so that a campaign of that many expects
// more than ten of them.
func (m Mark) SeenWithin() int {
	switch m {
	case StillServed: // twice in 60,000
		return 500_000
	case Undelivered: // seven times in 60,000
		return 100_000
	case FrozenLease, PutAside: // 34 and 72 times in 60,000
		return 50_000
	}
	return 2_000
}

// Counter counts the rare states that one run has seen.
type Counter struct{ hits [End]int }

// Hit counts a rare state.
func (c *Counter) Hit(m Mark) { c.hits[m]++ }

// Counts returns the counts of the states that were seen, by name.
func (c *Counter) Counts() map[string]int {
	counts := map[string]int{}
	for m, n := range c.hits {
		if n > 0 {
			counts[Mark(m).String()] = n
		}
	}
	return counts
}
