// Package replication is the pure core of a role's replicator: it holds keys with CRDT
// values, spreads every change to the other members of the role, and answers requests at
// the level that each names. A Core is stepped by events on one thread; it owns no
// goroutine, clock, lock, socket or randomness. docs/architecture/majority-write.md
// follows one request through this package, with a picture.
//
// # How a change spreads
//
// Every request that changes something becomes one entry of the core's own log:
// the deltas of all its keys, under one sequence number. The log is a stream to every
// other member: the members that a level needs get it in the same step, the remaining
// members within Config.BatchEvery. Receivers acknowledge the entries that they applied;
// gaps and losses are retransmitted. No member forwards another's entries, so no delta
// returns to its writer, and own updates never queue behind those of another member.
//
// A delta carries exactly the dots it witnesses, so entries may arrive in any
// order, twice, or with holes between them: each is right on its own. A causal
// gap cannot exist.
//
// Anti-entropy repairs the gaps that streams cannot (an origin that is gone, a log that
// was too short, a newcomer). Each round sends one small message with a root digest and
// the vector of applied entries. Where roots differ, bucket digests follow, then the
// digests of keys, then values. Its cost at rest does not depend on the number of keys.
//
// # Pruning
//
// Tombstones of keys and map entries, and the traces of removed incarnations in values,
// are pruned when every member of the view has confirmed that it holds them. From then
// on, members reject frames that were sent before. See prune.go.
//
// # Why a quorum stays a quorum across views
//
// A majority of one view need not meet a majority of the next. So a majority is counted
// over the current view and over every former view of which one member may still hold the
// only copy of a confirmed write. Until the current members have caught up (the view is
// *settled*), a read must also be answered by, and a write must also reach, a quorum of
// the former voters that remain. See members.go.
package replication
