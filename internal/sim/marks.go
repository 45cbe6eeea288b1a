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
	markDriftBeyond
	markAbandoned
	markRestartAll
	markOperator
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
	markDriftBeyond:    "drift beyond bound",
	markAbandoned:      "instances abandoned",
	markRestartAll:     "restart of all",
	markOperator:       "stranded until restarted",
}

// String returns the mark's name.
func (m mark) String() string { return markNames[m] }

// Marks counts hits by name.
type Marks map[string]int

func (w *world) hit(m mark) { w.marks[m]++ }
