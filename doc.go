// Package peerage runs a node of a cluster that shards stateful entities, without a
// database. A service embeds it: each process becomes a node. Entities are addressed by id
// and spread over the nodes; each id has at most one live instance in the cluster.
//
// A Node is one process in the cluster. New checks its settings. Start joins or forms the
// cluster. Package sharding registers the types of entities in the node's Registry:
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
// The zero Config is a cluster of one. In a larger cluster, give all nodes the same list of
// contact points, at the first start and at every restart:
//
//	peerage.Config{
//		Listen: "10.0.0.1:7101",
//		Join:   []string{"10.0.0.1:7101", "10.0.0.2:7101", "10.0.0.3:7101"},
//	}
//
// Once more than half of the list answers, one node of the list forms the cluster and the
// rest join it. A restarted node finds the cluster that survived it. With DNS names, and
// with a list of one address, Config.BootstrapExpect sets how many nodes must
// answer.
//
// A node may be removed from its cluster: it was silent for too long, or cut off. It then
// drops its entities and joins again by itself, as a new incarnation. The Registry, the
// Regions and the Node stay the same. Node.Subscribe reports this, and every change of the
// members.
//
// # Distributed data
//
// Node.Data returns the replicated data of a role, for the application's own use (package
// ddata). The data lives in memory, as long as one replica lives. Config.Data names durable
// keys, which each node also keeps in a file: they are back after all nodes have stopped or
// lost power. It also names keys that expire when no write has changed them for a while:
//
//	peerage.Config{
//		Name:    "a",                 // the files belong to this name
//		DataDir: "/var/lib/service",  // must exist; one per node
//		Data: map[string]peerage.DataConfig{"": {
//			Durable: []string{"accounts/"},
//			Expire:  []replicator.Expiry{{Prefix: "sessions/", After: time.Hour}},
//		}},
//	}
//
// Node.Drain takes a node out of its cluster in order and keeps the process. Node.Shutdown
// drains, then closes. Node.Close stops immediately. Node.Ready is for readiness probes;
// its comment explains why it cannot deadlock a rolling update.
//
// # Errors
//
//	error                      meaning                                   retryable  what to do
//	*ConfigError               lists all settings that cannot work       no         correct them
//	ErrStarted                 Start was called before                   no         call it once
//	ErrNotReady                the node is in no cluster, yet or         yes        wait: WaitReady
//	                           between incarnations
//	ErrNoKeys                  RotateKeys without Config.SecretKeys      no         restart all nodes with SecretKeys
//	ErrClosed                  Drain, Shutdown or Close was called       no         make a new Node
//	gossip.ErrRemoved          from Drain: the cluster removed the node  no         none: what was not handed
//	                           before it had handed everything over                 over is lost
//	*sharding.UnfinishedError  from Shutdown, Close: handlers still run  no         end the process; look at their stacks
//	replicator.ErrDurable      from Start: a file of durable keys is     no         restore it from a copy, or move it
//	                           damaged, in use, or another node's                   aside: other nodes have the rest
//
// Package sharding lists the errors of messages, package ddata those of replicated data.
package peerage
