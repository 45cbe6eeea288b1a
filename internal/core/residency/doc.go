// Package residency is the core of entities that must run without messages. It decides for
// one type on one node which entities start and stop, and when. It is pure; package
// internal/residency performs its actions.
//
// An entity must run at the home of its shard. Three sources name such entities:
//
//	always on    one id of a shard, fixed: singletons
//	the plan     worker i in shard i, while the plan of a daemon runs it (Config.Daemon)
//	the set      ids that a replicated set remembers for a shard (Config.ShardOf)
//
// A singleton and a worker are started as soon as their shard is here, and checked in every
// round, so one that has ended by itself starts again. A remembered entity that ends by itself
// leaves the set, and a shard may have tens of thousands of them, so they are not checked:
//
//	an instance begins    -> the id joins the set; the store is written asynchronously
//	it passivates itself  -> the id leaves the set; written, if the shard is still here
//	a shard starts here   -> its ids are read, then started one by one
//	an instance crashes   -> it is started again
//
// The core is pulled: its shell asks for the Next action, performs it, and reports the outcome
// to Done. All decisions rest on two rules of time:
//
//   - What has failed or ended is tried again in the next round. A round comes every Every, and
//     earlier if a shard has started or a plan has changed; only what is new is tried then.
//   - A remembered entity starts at a turn of the node's Pace, while fewer than StartsMax have been
//     started and have not begun. A start that finds the entity running returns its turn. The shards of a type take turns, and crashed entities do so
//     like a further shard: neither waits for all of the other.
//
// The store may be slow or down. No entity waits for it: updates wait in the set, at most
// UpdatesMax, where a later update of an id replaces an earlier one. Beyond that, ids of entities
// that live here wait to be queued, and so do some of shards that have left. A shard has at most one
// read and one write in flight. A read that overlaps an update would bring back an id that was
// removed, so a removed id stays in the set, unwanted, until its removal is acknowledged and
// no read is in flight. A shard is read once more RereadAfter after the first read, since
// writes of its former home may have been in flight, and when a node has joined, whose disk
// may hold ids that the first nodes did not have. Ids that the store has lost are written again.
package residency
