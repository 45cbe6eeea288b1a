// Package sharding spreads stateful entities over the nodes of a cluster. Each id has at
// most one live instance. Any node can send to it by its id.
//
// A program registers each entity type once, in a Registry. Register returns a Region, the
// handle for sending messages, which is valid as long as the program runs. Below it, one
// service per incarnation of the node does the work. When a node is removed and joins
// again, the Region stays and the service is replaced.
//
//	region, err := sharding.Register(registry, sharding.Type[Add, Total]{
//		Name: "counter",
//		New:  func(id string) sharding.Entity[Add, Total] { return &counter{} },
//	})
//	...
//	total, err := region.Ref("alice").Ask(ctx, Add{1})
//
// Kinds is the codec for a type that handles several kinds of messages.
//
// Register rejects messages that Msgpack or JSON would not carry completely, and names the
// field: an unexported field, an interface (also an embedded one), a channel or a function,
// two fields with one name, and encoding methods that belong to an embedded field. A field
// with the tag "-" is left out on purpose, and locks are ignored. Types with their own
// methods for both directions pass. Custom codecs and Lossy are not checked.
//
// # Delivery
//
// Tell and Ask deliver at most once. A sender is a goroutine that waits for each call to
// return. The messages of one sender to one entity are handled in the order in which they
// were sent, even while shards move. There may be gaps, never inversions. While the home of
// a shard is unknown, its messages wait in a bounded buffer. A message that cannot be
// delivered is never dropped silently: an ask fails with an error, a tell is counted with
// its reason in Stats.
//
// A Reliable delivers at least once, and exactly once as long as no home crashes. It
// retransmits unconfirmed messages, and shards remember which messages have run (package
// reliable).
//
// Between entities of one process, once the home is known, no codec is used, nothing is
// copied, and Limits.PayloadBytes is not checked. So don't change a request after sending
// it, and don't return a response that shares memory with the entity if a later message
// changes that memory: return a copy of a map or a slice. Config.Strict sends local
// messages through the codec too: set it in tests. Under the race detector it is always on.
//
// # Where shards live
//
// One node per type places the shards: the coordinator, the most senior node of the type's
// role that hosts the type. It follows Type.Strategy. strategy.LeastShards, the default,
// evens numbers out. Weighted gives each node its part by Config.Capacity.
// ConsistentHashing keeps shards in place while nodes come and go. External follows the
// application (Registry.Place). Any other implementation of Strategy works as well. A
// strategy runs on the coordinator alone. No strategy can break single instance, which does
// not depend on its result.
//
// The coordinator rejects a node whose type has another number of shards, or another role.
// Both nodes log the setting and the two values, TypeStatus.Refused shows it, and messages
// from that node fail with ErrSettings. A node that does not register a type of its role
// logs this, and shows it as TypeStatus.Unregistered. Neither node coordinates the type,
// however senior it is: the next node does.
//
// There are two exceptions. If all remaining nodes were rejected by a coordinator that has
// left, the most senior of them coordinates. And a node that joins while the coordinator
// dies may coordinate before another node could reject it. It then rejects the nodes with
// the other settings. Their instances continue, and no instance starts anywhere before
// those have ended, so an entity never has two.
//
// Versions of a program may have different messages. Nodes compare fingerprints of the
// shapes of messages: the names of fields and the kinds of values as Msgpack, JSON and
// Kinds write them. If they differ, the coordinator's node logs a warning once per term,
// counts the node in Stats.MessageShapes, and keeps an event for Explain. A field that only
// one node has arrives empty at the other one. So add fields in one version, and use them
// in the next.
//
// Registry.Cluster, Where and Explain query all nodes: what runs where, where an entity is
// and whether it lives, and why. If a node does not respond, the result lists it as failed.
// Disconnected nodes are skipped after a moment.
//
// # Errors
//
//	error               meaning                                      retryable  what to do
//	ErrUnknownType      type not registered at the home, or here     no         deploy it everywhere, or give it a role
//	ErrBadID            id empty or above Limits.IDBytes             no         fix the caller
//	ErrTooLarge         request or response above Limits.PayloadBytes  no       split it, or raise the limit everywhere
//	ErrCodec            request or response did not encode/decode    no         fix the codec; compare versions
//	ErrSettings         the nodes map ids to shards differently      no         give all nodes the same number of shards
//	ErrMailboxFull      no room in the entity's mailbox before ctx ended  yes   slow down
//	ErrBufferFull       no room to buffer before ctx ended           yes        slow down; find out why the shard has no home
//	ErrNotReady         the node is in no cluster (yet, or between incarnations)  yes  wait; look at the node's view
//	ErrNoHome           ctx ended before the shard had a home        yes        look at Explain and at the quorum
//	ErrPaused           ctx ended while the home had no lease        maybe run  look at the quorum
//	ErrNodeStopping     this node is shutting down, or closed        elsewhere  send from another node
//	ErrMoved            the shard left before the message was handled  yes      ask again
//	ErrNodeLost         the connection to the home broke             maybe run  ask again if the request may run twice
//	ErrAbandoned        the instance was dropped with its lease      maybe run  ask again if the request may run twice
//	ErrRestore          Restore rejected the state of a moved shard  no         fix Restore; the state is kept
//	ErrState            the new state cannot be replicated; the change was undone  no  fix Snapshot, or raise Type.State's limits
//	ErrNotKept          too few nodes acknowledged the new state in time  maybe run  look at the quorum; as ErrNodeLost
//	ErrTimer            to a handler: time not positive, or too many timers  no  fix the handler
//	ErrSelfAsk          the asked entity waits for this ask          no         use Tell, or reply first
//	ErrNoDeadline       Ask with Retry and a ctx without a deadline  no         give ctx a deadline
//	ErrContextEnded     a handler's Context was used after the handler returned  no  fix the handler: use another context there
//	ErrStash            to a handler: no message that can be stashed  no        fix the handler
//	ErrStashFull        to a handler: Limits.Mailbox messages are stashed  yes  reject the message
//	ErrNoRole           Place on a node without the type's role      elsewhere  call it on a node of the role
//	ErrNoShard          the type has no shard of that number         no         fix the caller
//	ErrNoAnswer         a node did not answer a query in time        yes        look at that node
//	ErrNoWorker         the daemon's worker must not run (now)       yes        ask again; compare RunningDaemon.Workers
//	ErrWindowFull       to Reliable.Send: no room before ctx ended    yes        slow down; find the shard that does not confirm
//	ErrReliableClosed   the Reliable is closed                       no         make another
//	ErrUnconfirmed      to Close: the outcome of some messages is unknown  no   Flush first
//	ErrResultLost       to OnConfirm: handled, but its reply was lost  no       it is confirmed
//	ErrPanicked         the handler panicked (*PanicError)           no         fix the handler
//	*HandlerError       the handler returned an error                no         it is the application's own reply
//	context's errors    the deadline passed, or the caller gave up   maybe run  as ErrNodeLost
//
// Retryable returns true for the "yes" and "maybe run" rows. OutcomeUnknown returns true
// for the "maybe run" rows: there the handler may have run, and may even still run.
//
// An error that a handler returns is a *HandlerError to the asker, even if it is the error
// of a call by that handler. So an asker that gets ErrMailboxFull can rely on it: the full
// mailbox is that of the entity that it asked.
package sharding
