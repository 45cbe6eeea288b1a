// Package coordinator is the pure core that decides which region hosts which
// shard of one entity type. One Core per type runs on every node
// with the type's role, until the node's incarnation ends. The Core on the
// node that protocol.Elect returns is in office; all the rest wait.
//
// docs/architecture/handoff.md follows a move through this package and package region,
// with a picture. docs/architecture/election.md shows which node takes office, and why;
// election.go and office.go decide it. census.go collects what runs where. allocate.go has the
// order in which a shard gets its home. moves.go moves a shard off its home, routers.go lists
// the routes to close before that, and rebalance.go decides when. resend.go and outbox.go
// carry the messages, writes.go the records.
//
// The core relies on the following, which its caller must provide:
//
//   - A node outside the newest committed view holds no lease, and runs no entity.
//   - Events come in the order in which they happened on this node: the view before
//     the lease that rests on it.
//   - A Write that ends with OK is at its level, and was not fenced there.
//   - The candidates that Standing names have declined in that view (protocol.Elect).
//   - Messages may be lost, duplicated, delayed and reordered arbitrarily.
//
// The package's tests run it, with the region core, through a small world of
// faults: go test -run TestCampaign -seeds 10000, -replay seed for one with its
// log.
package coordinator
