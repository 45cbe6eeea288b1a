// Package sim runs whole clusters in one thread on virtual time: the view,
// replicator, coordinator and region cores of 1 to 7 nodes, over a network, clocks,
// crashes and a discovery that a seed decides. The same seed gives the same run to
// the last event.
//
// # What is real and what is modelled
//
// The four cores are the real ones. The drivers around them (members.go, store.go,
// upper.go, routes.go, hosts.go) do what the shells do with their effects, and
// nothing more. The network keeps the promises of gossip/transport (net.go), and
// in some runs carries control messages as datagrams that are lost, doubled and
// late. memberlist is an adversary (contacts.go); crash evidence follows DESIGN 4.5
// (evidence.go); entities are queues with handlers that take time.
//
// Not modelled: codecs, TLS, the bytes of frames, asks, passivation, remembered
// entities, transfer of entity state, durable keys, chunks of large values, roles
// and proxies, more than one entity type.
//
// # A run
//
// A seed draws a configuration (swarm.go): each class of fault is on or off. For
// some virtual seconds faults strike (faults.go), some of them aimed at the moments
// in which a view is proposed. Then one of three endings asks for liveness
// (ending.go). The checkers of package invariant are told every fact as it happens;
// the first violation ends the run. A failure prints the newest events, the states
// of all processes side by side, and the line that replays it.
//
// Marks (marks.go) count rare states; a campaign that has not seen all of them has
// shown little.
package sim
