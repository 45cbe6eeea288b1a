// Package replication is the pure core of a role's replicator: it holds keys with CRDT
// values, spreads every change to the other members of the role, and answers
// requests at the level they ask for. A Core is stepped by events on one thread; it
// owns no goroutine, clock, lock, socket or randomness. docs/architecture/majority-write.md
// follows one request through this package, with a picture.
//
// # How a change spreads
//
// Every request that changes something becomes one entry of the core's own log:
// the deltas of all its keys, under one sequence number. The log is a stream to
// every other member: the members that a level needs get it in the same step,
// the others within Config.BatchEvery. Receivers acknowledge what they applied;
// gaps and losses are sent again. No member forwards another's entries, so no delta
// ever returns to where it came from, and own updates never queue behind others'.
//
// A delta carries exactly the dots it witnesses, so entries may arrive in any
// order, twice, or with holes between them: each is right on its own. A causal
// gap cannot exist.
//
// What streams cannot mend (an origin that is gone, a log that was too short, a
// newcomer) anti-entropy does: a root digest and the vector of what was seen, one
// small message per round; then bucket digests; then the digests of keys; then
// values. Its cost at rest does not depend on the number of keys.
//
// # What is forgotten
//
// Tombstones of keys and map entries, and what removed incarnations leave in
// values, end when every member of the view has said that it has them, and no
// frame from before that is taken any more. See prune.go.
//
// # Why a quorum stays a quorum across views
//
// A majority of one view need not meet a majority of the next. So a majority is
// counted over the current view and over every former view from which some
// member may still hold what the others have not: until the current members have
// caught up ("settled"), a read must also hear, and a write must also reach, a
// quorum of the former voters that are still there. See members.go.
package replication
