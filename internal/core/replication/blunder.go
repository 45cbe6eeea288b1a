package replication

// blunder plants one known bug, so that tests can prove that the checks catch it.
// Only tests set it.
type blunder uint8

const (
	blunderNone blunder = iota
	// blunderHasty commits when half of the others have answered.
	blunderHasty
	// blunderNoFloor takes state from before a commit.
	blunderNoFloor
	// blunderOldLog sends what was logged before a tombstone as it was.
	blunderOldLog
	// blunderNoRebase leaves a key that was created again in its generation.
	blunderNoRebase
	// blunderForgetKept forgets what old files may bring back.
	blunderForgetKept
	blunders

	// blunderOwnIdleness counts own changes only when it ends idle keys.
	blunderOwnIdleness
	// blunderNoTerms commits without the fences.
	blunderNoTerms
	// blunderGatherUnchanged leaves shares apart where one of them has gone since all
	// agreed to put them together.
	blunderGatherUnchanged
	// blunderNoWriteBack answers a read without making sure that what it returns
	// stands at the level.
	blunderNoWriteBack
	// blunderOldAnswers lets a read count answers from before the view was settled.
	blunderOldAnswers
	// blunderNoJoint counts majorities over the current view alone.
	blunderNoJoint
	// blunderNoLease ends requests without a lease.
	blunderNoLease
	// blunderLocalAck confirms a write that stands here.
	blunderLocalAck
	// blunderLiving counts majorities over those that can be reached.
	blunderLiving
	// blunderNoFence lets every term pass.
	blunderNoFence
	// blunderLaterView counts answers that were given in a later view.
	blunderLaterView
	// blunderSeenIsAck takes how far a stream has come for a confirmation.
	blunderSeenIsAck
	// blunderNoEcho confirms parts of a write that had no effect here.
	blunderNoEcho
	// blunderFewVoters lets a newcomer catch up with a majority of the voters.
	blunderFewVoters
	// blunderSkipMajority needs no more than a majority after a view that was missed.
	blunderSkipMajority
	// blunderSettledIsCaughtUp takes the others' having caught up for the own.
	blunderSettledIsCaughtUp
	// blunderTrustHelpers takes whatever a helper sends for what the source holds.
	blunderTrustHelpers
	// blunderNoHorizon takes in any file, however long it was away.
	blunderNoHorizon
	// blunderNewAges counts the age of deletions anew at every start.
	blunderNewAges
	// blunderWallAge lets deletions age while everybody is down.
	blunderWallAge
	// blunderUnconfirmed takes deletions of which others may not have heard for old ones.
	blunderUnconfirmed
	// blunderNotFresh lets who has just read its file take part at once.
	blunderNotFresh
	// blunderNoBase begins new durable keys in generation 0.
	blunderNoBase
	// blunderAnyEven takes all for even, whatever they say of their deletions.
	blunderAnyEven
	// blunderNoCeiling forgets with each stop which ends of entries were forgotten.
	blunderNoCeiling
	// blunderClaimRefused ends a session as if nothing had been refused.
	blunderClaimRefused
	// blunderOwnStamps stamps above what this replica has, and not above the answers.
	blunderOwnStamps
	// blunderAdmitAll takes stamps however far they are ahead.
	blunderAdmitAll
	// blunderOwnClock stamps by the own clock alone.
	blunderOwnClock
	// blunderUnjudged sends what was stamped before another clock was heard.
	blunderUnjudged
	// blunderNoEra leaves what is ahead of the clocks in its era.
	blunderNoEra
	// blunderEraReplaces takes a state of a higher era in place of one of a lower era.
	blunderEraReplaces
	blundersAll
)
