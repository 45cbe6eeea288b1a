// Package peerage is cluster sharding without a database. A service embeds it,
// every process becomes a peer, and stateful entities addressed by id are spread
// over the peers: each id has at most one live instance in the cluster.
//
// A Node is one process taking part. New checks its settings, Start joins or
// forms the cluster, and package sharding registers the types of entities in the
// node's Registry:
//
//	node, err := peerage.Start(ctx, peerage.Config{})
//	...
//	counters, err := sharding.Register(node.Registry(), sharding.Type[Add, Total]{
//		Name: "counter",
//		New:  func(id string) sharding.Entity[Add, Total] { return &counter{} },
//	})
//	...
//	total, err := counters.Ask(ctx, "alice", Add{N: 1})
//
// The zero Config is a cluster of one. The nodes of a larger cluster are all given the
// same list of contact points, at their first start and at every other:
//
//	peerage.Config{Gossip: gossip.Config{
//		Listen:        "10.0.0.1:7101",
//		ContactPoints: []string{"10.0.0.1:7101", "10.0.0.2:7101", "10.0.0.3:7101"},
//	}}
//
// Once more than half of the list answers, one of them forms the cluster and all others
// join it. A node that is restarted finds the cluster that survived it. With DNS names, and
// with a list of one address, gossip.Config.BootstrapExpect says how many must answer.
//
// A node that was removed from its cluster (it was silent for too long, or cut
// off) drops its entities and joins again by itself, as a new incarnation. The
// Registry, the Regions and the Node stay the same meanwhile. Node.Subscribe tells of
// this, and of all that happens to the members.
//
// # Distributed data
//
// Node.Data gives the replicated data of a role, for the application's own use (package
// ddata). It lives in memory, as long as one replica does. Config.Data names keys that a
// file on each node keeps as well, so that they are there again after all nodes have
// stopped or lost power, and keys that end when nobody has changed them for a while:
//
//	peerage.Config{
//		Gossip:  gossip.Config{Name: "a", ...},   // the files belong to this name
//		DataDir: "/var/lib/service",              // must exist; one per node
//		Data: map[string]peerage.DataConfig{"": {
//			Durable: []string{"accounts/"},
//			Expire:  []replicator.Expiry{{Prefix: "sessions/", After: time.Hour}},
//		}},
//	}
//
// Node.Drain takes a node out of its cluster in order and keeps the process,
// Node.Shutdown drains and closes, Node.Close goes at once. Node.Ready says what a
// probe for readiness needs to know, and why it cannot dead-lock a rolling update.
//
// # Errors
//
//	error         meaning                                   retryable  what to do
//	*gossip.ConfigError  settings that cannot work, all of them  no  mend them
//	ErrStarted    Start was called before                   no         call it once
//	ErrNotReady   the node is in no cluster (yet, again)    yes        wait: WaitReady
//	replicator.ErrDurable  a file of durable keys is damaged,    no  restore it from a copy, or move it aside:
//	              of another node, or in use                           the other nodes have the rest
//	*sharding.UnfinishedError  to Shutdown, Close: handlers still run  no  end the process; look at their stacks
//	ErrClosed     Drain, Shutdown or Close was called       no         make a new Node
//
// Those of messages stand in package sharding, those of replicated data in
// package ddata.
package peerage
