package view

// mutant plants one bug in a core, so that tests can prove that the checks catch it. Only
// tests set it.
type mutant uint8

const (
	noMutant mutant = iota
	// mutantQuorumOfLiving counts quorums over the members not proven dead.
	mutantQuorumOfLiving
	// mutantLeaseFromAck counts the leader lease from the receipt of answers.
	mutantLeaseFromAck
	// mutantEarlyRemoval removes silent members after a ping, not after RemoveAfter.
	mutantEarlyRemoval
	// mutantDropAttempt drops a half-finished attempt that a prepare uncovers.
	mutantDropAttempt
	// mutantJoinerVotes makes joiners voters immediately.
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
	// mutantIgnorePromise lets acceptors ignore their promise to a living leader.
	mutantIgnorePromise
	// mutantNoPreVote raises ballots without asking first.
	mutantNoPreVote
	// mutantOldRounds counts rounds from before a commit for the new view alone.
	mutantOldRounds
	// mutantPromiseSelf lets a candidate promise itself a ballot that its promise to a
	// leader excludes.
	mutantPromiseSelf
	// mutantStallRemoves lets a leader that slept remove members whose answers it missed.
	mutantStallRemoves
	// mutantSinceBegan counts a leader's term from the sending of its prepare.
	mutantSinceBegan
	// mutantCarryTires steps down while a carried removal waits.
	mutantCarryTires
	// mutantAskOnce sends a leader's prepare only once.
	mutantAskOnce
	// mutantDeadSpeak yields to a late message of a lineage that has died.
	mutantDeadSpeak
	// mutantPatientJoiner lets a joiner wait forever for a leader that has died.
	mutantPatientJoiner
	// mutantLeaverTakesOver lets a leaving node count proofs for a quorum.
	mutantLeaverTakesOver
	// mutantNoFarewell ends a leader immediately after it has committed its leave.
	mutantNoFarewell
	// mutantCarryHopeless carries an attempt that needs dead members.
	mutantCarryHopeless
	// mutantOutbid lets a node stand immediately against the candidate that it has
	// promised.
	mutantOutbid
	// mutantStrangersSpeak accepts protocol messages of nodes outside the view.
	mutantStrangersSpeak
	// mutantWeakIsCertain treats every proof as certain.
	mutantWeakIsCertain
	// mutantWeakRemovesSoon removes on a weak proof while the lease may run.
	mutantWeakRemovesSoon
	// mutantWideWindow lets proofs replace a quorum until RemoveAfter, not L.
	mutantWideWindow
	// mutantCredulous yields without the confirmation of a quorum of voters.
	mutantCredulous
	// mutantYieldsUnjudged yields to a verdict on a standing other than its own.
	mutantYieldsUnjudged
	// mutantKeepsGeneration absorbs a cluster without a new generation.
	mutantKeepsGeneration
	// mutantPatientContest keeps a contest open until it is decided.
	mutantPatientContest
	mutants
)
