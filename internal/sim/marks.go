package sim

// mark names a rare state that a long campaign must have seen: without it a
// green run proves little. The list is the registry; marks of parts that a
// configuration switches off do not count for that campaign.
type mark int

const (
	markQuorumLost mark = iota
	markQuorumRegained
	markEmergency
	markCarried
	markHalfQuorum
	markLeaseLapsed
	markLeaseResumed
	markPauseLapsed
	markRemovedSilent
	markRemovedDead
	markLeft
	markRejoined
	markReformed
	markSoleSurvivor
	markBurst
	markOtherNode
	markQueueFull
	markOneWay
	markReject
	markWrongEvidence
	markStranger
	markDriftBeyond
	markAbandoned
	markRestartAll
	markOperator
	markBufferFull
	markMisrouted
	markForced
	markDrained
	markMove
	markMoveCancelled
	markClaim
	markClaimStale
	markStillServed
	markWriteUnknown
	markYield
	markStaleTerm
	markStaleToken
	markHeld
	markFenced
	markLogCut
	markReadRepair
	markDescend
	markCircles
	markStateSent
	markStateArrived
	markStateLost
	markReplyLate
	markAskExpired
	markStrike
	markRaiseAimed
	markRemovalAimed
	markProxy
	markSecondRole
	markPolicy
	markDeclined
	markPromised
	markLateFenced
	markWallJump
	markMet
	markYielded
	markAbsorbed
	markDiskFails
	markRestored
	markWordsKept
	markCorrupted
	markBlocked
	markRing
	markClockJump
	markRegisterRead
	markHeldUp
	markGateClosed
	markSentAgain
	markWindowShrunk
	markParked
	markWithdrawn
	marksEnd
)

var markNames = [...]string{
	markQuorumLost:     "quorum lost",
	markQuorumRegained: "quorum regained",
	markEmergency:      "emergency takeover",
	markCarried:        "attempt carried",
	markHalfQuorum:     "exactly half decided",
	markLeaseLapsed:    "lease lapsed",
	markLeaseResumed:   "lease resumed",
	markPauseLapsed:    "lease ended by pause",
	markRemovedSilent:  "removed for silence",
	markRemovedDead:    "removed as proven dead",
	markLeft:           "left in order",
	markRejoined:       "rejoined as new incarnation",
	markReformed:       "formed again",
	markSoleSurvivor:   "sole survivor went on",
	markBurst:          "aimed burst",
	markOtherNode:      "other node at address",
	markQueueFull:      "send queue full",
	markOneWay:         "one-way partition",
	markReject:         "rejecting partition",
	markWrongEvidence:  "proof of a living process",
	markStranger:       "stranger speaks",
	markDriftBeyond:    "drift beyond bound",
	markAbandoned:      "instances abandoned",
	markRestartAll:     "restart of all",
	markCircles:        "view core drove in circles",
	markOperator:       "stranded until restarted",
	markBufferFull:     "buffer full",
	markMisrouted:      "message refused by a node that is not the home",
	markForced:         "shard stopped by force",
	markDrained:        "drained",
	markMove:           "move begun",
	markMoveCancelled:  "move cancelled",
	markClaim:          "claim adopted in census",
	markClaimStale:     "stale claim ignored",
	markStillServed:    "shard still served after a cancel",
	markWriteUnknown:   "write outcome unknown",
	markYield:          "coordinator asks for a lease to end",
	markStaleTerm:      "stale term refused",
	markStaleToken:     "stale token refused",
	markHeld:           "order held for a later view",
	markFenced:         "fence refused",
	markLogCut:         "delta log cut",
	markReadRepair:     "read repair",
	markDescend:        "digests differ",
	markStateSent:      "states sent to a new home",
	markStateArrived:   "state arrived",
	markStateLost:      "state lost with a process",
	markReplyLate:      "reply to an ask that is over",
	markAskExpired:     "ask not begun, its asker has given up",
	markStrike:         "fault aimed at a move",
	markRaiseAimed:     "fault aimed at new voters",
	markRemovalAimed:   "fault aimed at a removal",
	markProxy:          "a proxy was served",
	markSecondRole:     "two roles served",
	markPolicy:         "another partition policy",
	markDeclined:       "office declined",
	markPromised:       "type registered in the view of a promise to decline",
	markLateFenced:     "connection fenced",
	markWallJump:       "wall clock set",
	markMet:            "clusters of one name met",
	markYielded:        "cluster yielded to another",
	markAbsorbed:       "node of another cluster taken in",
	markDiskFails:      "disk failed",
	markRestored:       "durable keys read from a file",
	markCorrupted:      "frame damaged",
	markBlocked:        "handler blocked",
	markRing:           "each host reaches its two neighbours in a ring",
	markClockJump:      "clock of stamps set",
	markRegisterRead:   "register read",
	markHeldUp:         "caller waits for a grant",
	markGateClosed:     "senders stopped for an entity",
	markSentAgain:      "refused message sent again",
	markWindowShrunk:   "idle window shrunk",
	markParked:         "message waits for its mailbox",
	markWithdrawn:      "caller gave up waiting for room",
	markWordsKept:      "all durable words are there in the end",
}

// String returns the mark's name.
func (m mark) String() string { return markNames[m] }

// Marks counts hits by name.
type Marks map[string]int

func (w *world) hit(m mark) { w.marks[m]++ }

// rareMarks are asked only of campaigns of tens of thousands of seeds: two thousand
// see them a few times at best.
var rareMarks = []mark{markClaimStale, markStillServed, markStaleTerm, markCircles, markFenced, markLogCut, markForced}
