// Package sim runs whole clusters in one thread on virtual time: the view,
// replication, coordinator, region, route and flow cores of 1 to 7 nodes, or as many as the
// caller asks for, over a network, clocks, crashes and a discovery that a seed decides. The
// same seed gives the same run to the last event.
//
// # What is real and what is modelled
//
// The cores are those of production, so the order of messages is decided by production's own
// code: internal/core/route plays each route, internal/core/flow the windows and accounts. The
// drivers around the cores do what the shells do with their effects, and nothing more. Each
// package below may import those after it:
//
//	sim         hosts, nodes, contacts, faults and the endings of a run
//	sharding    entity types: regions, coordinators, instances, calls, draining; their checkers
//	replica     replicators with their clients, disks and clocks; the checkers of S4
//	membership  the view core with links, proofs and leases; the checkers of views
//	process     identity, thread, clock and endpoint of one process
//	network     paths, connections and datagrams, with their faults
//	run         what all parts share: time, random numbers, configuration, trace, failure
//	seed        the configuration that a seed draws
//	coverage    rare states that a campaign must have seen
//	trace       the hash and the lines of all events
//	record      what a run did, in a form that can be drawn
//	datapath    routes, callers, windows and mailboxes of one entity type
//	statemove   shell of the core that moves states to the next homes of shards
//	statecopy   shell of the core that replicates the states of entities
//	virtual     the schedule, clocks, threads, timers and random numbers
//
// Messages of cores and states that move are encoded and decoded on the way (network/recode.go),
// by production's codecs; a message that its receiver cannot decode fails the run. Frames of the
// data path and of calls are passed on as they are.
//
// The network keeps the promises of internal/transport, and in some runs carries control
// messages as datagrams that are lost, doubled and late. memberlist is an adversary
// (contacts.go); crash evidence is drawn from the connections of a node, as
// internal/membership draws it; entities are bounded mailboxes with handlers that take time, and
// a state that is the history of what they handled. Each process has four callers for an entity,
// of all classes, which wait for room as the callers of internal/delivery do.
//
// A seed draws one or two entity types of one or two roles, each role with its own
// replicator; which hosts carry the second role; which are proxies; asks with deadlines
// beside tells; whether entities have a state that moves with them; a partition policy.
//
// In some runs the hosts begin as two clusters of one name, and meet (apart.go). In some
// the words of S4 are durable, and disks fail; frames are damaged on the way, which
// ends their connection, and handlers block; a cut leaves each host its two
// neighbours in a ring (cuts.go); clients write a register whose last write wins, by clocks
// that jump; wall clocks are set at each start of a process (walls.go); the rates of clocks change; a pause strikes between
// a step and the sending of its messages (network/held.go); the addresses of dead processes
// are reused; a node that is no member
// sends messages of the view protocol (strangers.go). In some, messages of replicators are cut into
// parts, and clients create, change and delete keys beside the words (replica/scratch.go). In some,
// clients make all kinds of requests, also those that must be refused, values are compared in
// parts, and deletions of durable keys are soon forgotten (replica/requests.go). In some, each
// process has reliable producers (sharding/producer.go), whose messages run once and in order
// unless the memory of a shard is lost with its home (sharding/copies.go). In some, the states of
// entities are replicated: an answer waits until a majority of the copies has what it shows, and
// every later instance must begin with it, unless so many copies are gone that it may be lost
// (sharding/standbys.go). In some, one more type is a daemon: the number of its workers changes, and
// workers of different numbers never run at the same time (sharding/workers.go).
//
// Not modelled: TLS, flows of the transport (a small frame never passes a large one), messages that
// no connection carries, passivation, remembered entities, nodes with a role that do not run its types.
//
// # A run
//
// A seed draws a configuration: each class of fault is on or off. For some virtual seconds
// faults strike (faults.go, cuts.go), some of them aimed at the moments in which a view is
// proposed or committed, a shard moves, or a coordinator is elected (aimed.go). Then one of
// three endings asks for liveness (ending.go). The checkers of package invariant receive every
// fact as it happens; the first violation ends the run. A failure prints the newest events, the
// states of all processes side by side, and the line that replays it. Package spacetime draws a
// recorded run.
//
// Package coverage counts rare states; a campaign that has not seen all of them has shown
// little.
package sim
