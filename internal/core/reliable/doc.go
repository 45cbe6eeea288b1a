// Package reliable is the protocol of at-least-once delivery with de-duplication:
// what a producer keeps and sends again, and what a shard remembers
// in order to run nothing twice. It is pure: package sharding gives it time, sends
// what it says, and guards it with a mutex.
//
// # Numbers
//
// A producer numbers its messages per shard, without holes; a number is never used
// twice for a shard, so a stream may be forgotten when all of it is confirmed, and
// begin again above. Each copy that leaves carries a Stamp:
//
//	Seq    its number
//	Prev   the number of the message before it for the same entity that is not
//	       confirmed yet, 0 if there is none
//	Floor  the lowest number of the shard that is not confirmed: all below are over
//
// The shard keeps, per producer, the highest Floor it has seen, and per entity the
// number of the last message that ran. A copy runs if its number is neither below
// the floor nor at or below the last one, and its Prev is. So nothing runs twice,
// nothing runs ahead of what was sent before it to the same entity, and entities of
// one shard do not wait for each other.
//
// # Why it is bounded
//
// A producer has at most Window numbers of a shard between its floor and its newest
// message. A record below the floor is of no more use, so a shard never holds more
// than twice Window records of a producer. What it holds of all producers is
// bounded by forgetting the one that was silent longest, which is counted.
//
// # What a move and a crash do
//
// The memory is taken down with the shard's last message and travels with it, like
// the states of entities. When a home crashes its memory is gone: what had run there
// and was not confirmed yet runs again, in order. A shard that knows nothing of a
// producer begins with what comes: what was confirmed before is never sent again,
// and Prev keeps the rest in order.
//
// One number per entity was the other design: it needs no Prev, but memory that
// grows with all entities ever written to, or a rule about when to forget them. One
// window per producer over all shards was a third: a single shard without a home
// would stop the producer.
package reliable
