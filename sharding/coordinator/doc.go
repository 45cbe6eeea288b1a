// Package coordinator is the pure core that decides which region hosts which
// shard of one entity type. One Core per type runs on every node
// with the type's role, for the life of the node's incarnation; the one on the
// node that protocol.Elect names is in office, the others wait.
//
// docs/architecture/handoff.md follows a move through this package and package region,
// with a picture. Where to read on: office.go says who is in office and when; census.go how it
// learns what runs where; allocate.go in which order a shard gets its home;
// moves.go how it leaves one, routers.go whose routes are closed before that;
// rebalance.go when. resend.go and outbox.go carry the messages, writes.go the
// records.
//
// What the core relies on, and what others must give it:
//
//   - A node outside the newest committed view holds no lease, and runs no entity.
//   - Events come in the order in which they happened on this node: the view before
//     the lease that rests on it.
//   - A Write that says OK is at its level, and was not fenced there.
//   - What Standing names has declined in that view (protocol.Elect).
//   - Messages may be lost, doubled, delayed and reordered at will.
//
// The package's tests run it, with the region core, through a small world of
// faults: go test -run TestCampaign -seeds 10000, -replay seed for one with its
// log. Planted bugs are caught by TestMutantsAreCaught.
package coordinator
