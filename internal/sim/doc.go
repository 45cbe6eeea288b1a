// Package sim runs whole clusters in one thread on virtual time: the view,
// replication, coordinator, region, route and flow cores of 1 to 7 nodes, over a network,
// clocks, crashes and a discovery that a seed decides. The same seed gives the same run to
// the last event.
//
// # What is real and what is modelled
//
// The cores are those of production, so the order of messages is decided by production's own
// code: internal/core/route plays each route, internal/core/flow the windows and accounts. The
// drivers around the cores (members.go, layers.go, store.go, upper.go, routes.go, hosts.go,
// asks.go, states.go, packages datapath and statemove) do what the shells do with their
// effects, and nothing more. The network keeps the promises of
// internal/transport (net.go), and in some runs carries control messages as datagrams
// that are lost, doubled and late. memberlist is an adversary (contacts.go); crash
// evidence is drawn from the connections of a node, as gossip draws it (evidence.go);
// entities are bounded mailboxes with handlers that take time, and a state that is the history
// of what they handled. Each process has four callers for an entity, of all classes, which wait
// for room as the callers of package sharding do.
//
// A seed draws one or two entity types of one or two roles, each role with its own
// replicator; which hosts carry the second role; which are proxies; asks with deadlines
// beside tells; whether entities have a state that moves with them; a partition policy.
//
// In some runs the hosts begin as two clusters of one name, and meet (apart.go). In some
// the words of S4 are durable, and disks fail (disks.go); frames are damaged on the way, which
// ends their connection, and handlers block (trouble.go); a cut leaves each host its two
// neighbours in a ring (faults.go); clients write a register whose last write wins, by clocks
// that jump (walls.go).
//
// Not modelled: codecs, TLS, the bytes of frames, flows of the transport (a small frame never
// passes a large one), messages that no connection carries, passivation, remembered entities,
// reliable producers, replicated state (package standby has a simulator of its own), chunks of
// large values, nodes with a role that do not run its types.
//
// # A run
//
// A seed draws a configuration (swarm.go, swarmtypes.go): each class of fault is on or
// off. For some virtual seconds faults strike (faults.go), some of them aimed at the
// moments in which a view is proposed or committed, a shard moves, or an office is
// taken (strikes.go). Then one of three endings asks for liveness (ending.go). The
// checkers of package invariant receive every fact as it happens; the first violation
// ends the run. A failure prints the newest events, the states of all processes side by
// side, and the line that replays it.
//
// Marks (marks.go) count rare states; a campaign that has not seen all of them has
// shown little.
package sim
