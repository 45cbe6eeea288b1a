// Package reliable is the protocol of at-least-once delivery with deduplication:
// what a producer keeps and retransmits, and what a shard remembers
// in order to run no message twice. It is pure: package sharding gives it time, transmits
// its messages, and guards it with a mutex.
//
// # Numbers
//
// A producer numbers its messages per shard, without holes. A number is never used
// twice for a shard, so a stream may be dropped when all of it is confirmed, and
// begin again above. Each copy that leaves carries a Stamp:
//
//	Seq    its number
//	Prev   the number of the message before it for the same entity that is not
//	       confirmed yet, 0 if there is none
//	Floor  the lowest number of the shard that is not confirmed: all below are confirmed
//
// The shard keeps, per producer, the highest Floor it has seen, and per entity the
// number of the last message that ran. A copy runs if its number is not below the floor
// and above that last number, and its Prev is below the floor or not above that last
// number. So no message runs twice,
// none runs ahead of an earlier message to the same entity, and entities of
// one shard do not wait for each other.
//
// # Why it is bounded
//
// A producer has at most Window numbers of a shard between its floor and its newest
// message. A record below the floor is no longer needed, so a shard never holds more
// than twice Window records of a producer. The records of all producers together are
// bounded by evicting the producer that was silent longest; each eviction is counted.
//
// # What a move and a crash do
//
// The memory is written after the shard's last message and moves with it, like
// the states of entities. When a home crashes its memory is lost: messages that had run
// there but were not yet confirmed run again, in order. A shard without a record of a
// producer begins with the first copy that arrives: confirmed messages are never sent
// again, and Prev keeps the rest in order.
//
// One number per entity was the other design: it needs no Prev, but memory that
// grows with all entities ever written to, or a rule about when to forget them. One
// window per producer over all shards was a third: a single shard without a home
// would stop the producer.
package reliable
