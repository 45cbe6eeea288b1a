// Package activation runs the entities of one type on one node: it keeps the shards
// that this node hosts, makes an instance at the first message for an id, hands
// it one message at a time, and ends it.
//
// An entity at rest is a small struct in its shard's map. It owns no goroutine,
// no channel and no timer of its own; a goroutine runs while its mailbox is not empty.
// Timers, a stash, pauses after panics and a place in the order of passivation cost
// only the entities that have them.
//
// The runtime knows nothing of the cluster. Whoever owns the Host tells it which
// shards to start and stop, and whether the node's lease holds; before every
// single dispatch the Host asks. Without a lease nothing is run: messages stay
// in their mailboxes until Resume or Abandon.
package activation
