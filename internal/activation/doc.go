// Package activation runs the entities of one type on one node. It holds the shards that
// this node hosts, makes an instance at the first message for an id, passes it one
// message at a time, and ends it.
//
// An entity at rest is a small struct in its shard's map. It owns no goroutine,
// no channel and no timer of its own; a goroutine runs while its mailbox is not empty.
// Timers, a stash, pauses after panics and a place in the order of passivation cost
// only the entities that have them.
//
// The package does not depend on the cluster. The owner of a Host orders which shards
// start and stop. The Host calls Config.Alive before each message; without a lease it
// runs nothing, and messages stay in their mailboxes until Resume or Abandon.
package activation
