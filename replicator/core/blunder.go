package core

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
)
