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
// retransmits unconfirmed messages, and shards remember which messages have run.
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
// Each call returns an *Error with one of eight codes. They suffice to decide what to do:
//
//	code               retryable  meaning
//	ErrInvalid         no         the call can never succeed: fix the caller
//	ErrIncompatible    no         code or settings of two nodes differ: compare the releases
//	ErrOverloaded      yes        no room, and nothing has run: slow down
//	ErrUnavailable     yes        the receiver cannot be reached now, and nothing has run
//	ErrWrongNode       elsewhere  this node cannot do it: call from another node
//	ErrOutcomeUnknown  maybe run  ask again if the request may run twice
//	ErrEntityState     no         the state was not restored or replicated: fix Snapshot or Restore
//	ErrHandler         no         the handler has run: it failed, or its reply was lost
//
//	if errors.Is(err, sharding.ErrOverloaded) { ... }
//
// The functions Retryable and OutcomeUnknown report the second column of any error, and so do
// the methods of *Error: Retryable is true for "yes" and "maybe run", OutcomeUnknown for
// "maybe run". After such an error the handler may have run, and may even still run.
//
// The details are for logs and operators; errors.Is finds them, too:
//
//	error              code               meaning, and what to do
//	ErrUnknownType     ErrIncompatible    type not registered at the home, or here; deploy it everywhere, or give it a role
//	ErrBadID           ErrInvalid         id empty or above Limits.IDBytes; fix the caller
//	ErrTooLarge        ErrInvalid         request or response above Limits.PayloadBytes; split it, or raise the limit everywhere
//	ErrCodec           ErrIncompatible    request or response did not encode/decode; fix the codec; compare versions
//	ErrSettings        ErrIncompatible    the nodes map ids to shards differently; give all nodes the same number of shards
//	ErrMailboxFull     ErrOverloaded      no room in the entity's mailbox before ctx ended; slow down
//	ErrBufferFull      ErrOverloaded      no room to buffer before ctx ended; slow down; find out why the shard has no home
//	ErrNotReady        ErrUnavailable     the node is in no cluster (yet, or between incarnations); wait; look at the node's view
//	ErrNoHome          ErrUnavailable     ctx ended before the shard had a home; look at Explain and at the quorum
//	ErrPaused          ErrOutcomeUnknown  ctx ended while the home had no lease; look at the quorum
//	ErrNodeStopping    ErrWrongNode       this node is shutting down, or closed; send from another node
//	ErrMoved           ErrUnavailable     the shard left before the message was handled; ask again
//	ErrNodeLost        ErrOutcomeUnknown  the connection to the home broke; ask again if the request may run twice
//	ErrAbandoned       ErrOutcomeUnknown  the instance was dropped with its lease; ask again if the request may run twice
//	ErrRestore         ErrEntityState     Restore rejected the state of a moved shard; fix Restore; the state is kept
//	ErrState           ErrEntityState     the new state cannot be replicated; the change was undone; fix Snapshot, or raise Type.State's limits
//	ErrNotKept         ErrOutcomeUnknown  too few nodes acknowledged the new state in time; look at the quorum; as ErrNodeLost
//	ErrTimer           ErrInvalid         to a handler: time not positive, or too many timers; fix the handler
//	ErrSelfAsk         ErrInvalid         the asked entity waits for this ask; use Tell, or reply first
//	ErrNoDeadline      ErrInvalid         Ask with Retry and no deadline; give ctx one, or use Within
//	ErrContextEnded    ErrInvalid         a handler's Context was used after the handler returned; fix the handler: use another context there
//	ErrHeaders         ErrInvalid         too many headers, or too large; send less in headers
//	ErrStash           ErrInvalid         to a handler: no message that can be stashed; fix the handler
//	ErrStashFull       ErrOverloaded      to a handler: Limits.Mailbox messages are stashed; reject the message
//	ErrNoRole          ErrWrongNode       Place on a node without the type's role; call it on a node of the role
//	ErrNoShard         ErrInvalid         the type has no shard of that number; fix the caller
//	ErrNoAnswer        ErrUnavailable     a node did not answer a query in time; look at that node
//	ErrNoWorker        ErrUnavailable     the daemon's worker must not run (now); ask again; compare RunningDaemon.Workers
//	ErrWindowFull      ErrOverloaded      to Reliable.Send: no room before ctx ended; slow down; find the shard that does not confirm
//	ErrReliableClosed  ErrInvalid         the Reliable is closed; make another
//	ErrUnconfirmed     ErrInvalid         to Close: the outcome of some messages is unknown; Flush first
//	ErrResultLost      ErrHandler         to OnConfirm: handled, but its reply was lost; it is confirmed
//	ErrPanicked        ErrHandler         the handler panicked (*PanicError); fix the handler
//	*HandlerError      ErrHandler         the handler returned an error; it is the application's own reply
//	context's errors   ErrOutcomeUnknown  the deadline passed, or the caller gave up; as ErrNodeLost
//
// An error that a handler returns is a *HandlerError to the asker, even if it is the error
// of a call by that handler. So an asker that gets ErrMailboxFull can rely on it: the full
// mailbox is that of the entity that it asked.
package sharding
