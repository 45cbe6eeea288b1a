// Package standby is the core of replicated entity state: it keeps a
// copy of every entity's newest state on R nodes, the home of its shard included,
// and gives the next home all acknowledged changes.
//
// A Core serves one entity type on one node. It has two parts: a holder
// keeps copies for owners, and an owner serves the shards that run here.
// One node may be both for one shard: then it sends to itself.
//
// # The protocol
//
// It is Paxos in its vertical form: the tokens that the coordinator gives out are
// the ballots, and there is one owner to a token.
//
//	collect   the new owner asks every member of the role for its copies. A member that
//	          answers has raised its fence: it refuses every lower token from then on.
//	          The owner waits until all members of the view have answered, or enough
//	          of each set of holders on which an acknowledgement may rest: so many that
//	          every quorum of the set has one among them.
//	fill      the newest copy of each entity goes to the new holders, until a quorum
//	          of them has all of them.
//	announce  the owner sends the new layout, that is the list of holders, to every
//	          member of the role. It waits for a quorum of the new layout, and for all
//	          members that might otherwise vouch for the former one. Then the new
//	          layout is active, and the shard may start.
//	write     a change is kept when a quorum of the layout has it. Writes travel to each
//	          holder in the numbered chunks of package chunks, a stream per holder.
//	change    when the view changes, the owner chooses holders anew: fill, announce,
//	          activate; meanwhile a change must be kept by a quorum of both layouts.
//
// A layout that is not active yet is announced together with the sets that counted
// before it (Layout.Before), so that a later owner that meets it asks both for
// enough answers. An active layout has reached every living member of the
// former one, so an owner that collects from the former one learns of it.
//
// A shard that never had state has no layout, and costs its owner the collection
// and nothing else; the first change makes one.
//
// # Guarantees
//
// Invariant: every later owner collects each change that was kept in Quorum mode, as
// long as fewer of its layout's holders than a quorum are lost together, that is before
// the layout is renewed. With R = 3, one may be lost. An owner that cannot rule out that
// more were lost reports it (Ready.Short).
//
// A collection does not use these chunks. The owner asks for pages behind the last id, one at a
// time: so a holder keeps nothing about those that ask, and any later owner may begin anew. The
// copies do not change meanwhile, since the fence is raised.
//
// Rejected: to keep state in the replicator. It has no owner and no fence per
// shard, every node of a role keeps all of it, and its deltas are spread by gossip.
// Rejected: to keep no copy at the home. The same guarantee would need one node more.
package standby
