package gossip

// CrashEvidence is the extent to which proofs of death are used. A certain proof is one that
// a rejecting network cannot give.
type CrashEvidence uint8

const (
	// EvidenceFull: proofs speed up removal, and certain proofs also allow total quorums.
	EvidenceFull CrashEvidence = iota
	// EvidenceWithinQuorum: proofs speed up removal but never replace a quorum. Only proofs
	// that no network can forge count as certain.
	EvidenceWithinQuorum
	// EvidenceOff: proofs are ignored, and only silence removes a member.
	EvidenceOff
)
