package view

// mutant plants one known bug in a core, so that tests can prove that the checks
// catch it. Only tests set it.
type mutant uint8

const (
	honest mutant = iota
	// mutantQuorumOfLiving counts quorums over the members not proven dead.
	mutantQuorumOfLiving
	// mutantLeaseFromAck counts the leader lease from the receipt of answers.
	mutantLeaseFromAck
	// mutantEarlyRemoval removes silent members after a ping, not after RemoveAfter.
	mutantEarlyRemoval
	// mutantDropAttempt drops a half-finished attempt that a prepare uncovers.
	mutantDropAttempt
	// mutantJoinerVotes makes joiners voters at once.
	mutantJoinerVotes
	// mutantLateEvidence lets evidence count that came after its window.
	mutantLateEvidence
	// mutantViewGeneration takes the new generation from the view alone.
	mutantViewGeneration
	// mutantDeadOutFirst takes the dead out of the view before counting.
	mutantDeadOutFirst
	// mutantLeaseWhileCarrying grants leases while an attempt is carried.
	mutantLeaseWhileCarrying
	// mutantLeaseToRemoved grants leases to members under removal.
	mutantLeaseToRemoved
	// mutantLeaseInOneView counts the lease in the old view alone.
	mutantLeaseInOneView
	// mutantEmergencyNextEpoch gives an emergency view the next epoch.
	mutantEmergencyNextEpoch
	// mutantIgnorePromise lets acceptors forget their promise to a living leader.
	mutantIgnorePromise
	// mutantNoPreVote raises ballots without asking first.
	mutantNoPreVote
	mutants
)
