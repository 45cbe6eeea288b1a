// Package sharding spreads stateful entities over the nodes of a cluster: each
// id has at most one live instance, found by its id from everywhere (DESIGN
// section 7).
//
// A program registers each entity type once, in a Registry, and keeps the Region
// it gets: the handle through which messages are sent, for as long as the program
// runs. Below it, one Sharding per incarnation of the node does the work; when a
// node is removed and joins anew, the handle stays and the Sharding is replaced.
//
//	region, err := sharding.Register(registry, sharding.Type[Add, Total]{
//		Name: "counter",
//		New:  func(id string) sharding.Entity[Add, Total] { return &counter{} },
//	})
//	...
//	total, err := region.Ref("alice").Ask(ctx, Add{1})
//
// Kinds is the codec for a type that takes several kinds of messages.
//
// Register refuses messages that Msgpack or JSON would not carry whole, and names the field:
// one that is not exported, an interface (any included), a channel or a function, two fields
// of one name, and methods for encoding that belong to an embedded field. A field with the tag
// "-" is left behind by choice, locks do not count, types with methods of their own for both
// directions pass, and a codec of one's own is not checked; nor is Lossy.
//
// # Delivery
//
// Tell and Ask deliver at most once. Messages from one sender (a goroutine that
// waits for each call to return) to one entity are handled in the order they were
// sent, whatever moves meanwhile; there may be gaps, never inversions. While a
// shard has no known home its messages wait in a bounded buffer. A message that
// cannot be delivered is never dropped silently: the asker gets an error, a tell
// is counted with its reason in Stats.
//
// A Reliable delivers at least once, and once as long as no home crashes: it sends
// again what is not confirmed, and shards remember what has run (package reliable).
//
// Within one process no codec is used as long as the home is known, so
// Limits.PayloadBytes is not looked at either, and nothing is copied: a request must not be changed once it was sent, and a response must share
// nothing with the entity that a later message changes. Hand out a copy of a map or a
// slice, not the entity's own. Config.Strict sends local messages through the codec all the
// same: set it in tests. Under the race detector it is on.
//
// # Where shards live
//
// One node per type, the most senior of the type's role that hosts it, decides;
// Type.Strategy says how. strategy.LeastShards, the default, evens numbers out; Weighted
// gives each node its part by Config.Capacity; ConsistentHashing keeps shards in place
// while nodes come and go; External follows the application (Registry.Place); and anything
// with the two methods of Strategy will do. Strategies run on the deciding node
// alone, and none of them can break single instance: it never rests on their answer.
//
// A node whose type has another number of shards, or another role, is refused when
// it registers: both sides log the setting and the two values, TypeStatus.Refused
// shows it, and messages from there fail with ErrSettings. A type that is missing on
// a node of its role is logged there, and shown as TypeStatus.Unregistered.
// Neither of the two coordinates the type, however senior it is: the next node does.
// (If all that are left were refused by one that has gone, the most senior of them
// does. And a node that joins while the coordinator dies may coordinate before anybody
// has refused it. Then those with the other settings are refused; what lives there goes
// on, and nothing starts anywhere before that has ended, so there are never two of an
// entity.)
//
// Messages may differ between nodes, since versions of a program do. Nodes compare
// fingerprints of their shapes, the names of fields and kinds of values as Msgpack, JSON and
// Kinds write them. For a difference the coordinator's node logs a warning, once in each term,
// counts the node in Stats.MessageShapes, and keeps an event for Explain. A field that only one
// node has arrives empty at the other: add fields in one version, and use them in the next.
//
// Registry.Cluster, Where and Explain ask all nodes: what runs where, where an
// entity is and whether it lives, and why. What nodes that hang would have said is
// missing from the answer, and the answer says so; those to whom the connection is
// lost are not waited for.
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
//	ErrBufferFull       no room to buffer before ctx ended           yes        slow down; look why the shard has no home
//	ErrNotReady         the node is not in a cluster (yet, again)    yes        wait; look at the node's view
//	ErrNoHome           ctx ended before the shard had a home        yes        look at Explain and at the quorum
//	ErrPaused           ctx ended while the home had no lease        maybe run  look at the quorum
//	ErrNodeStopping     this node is shutting down, or closed        elsewhere  send from another node
//	ErrMoved            the shard left before the message was taken  yes        ask again
//	ErrNodeLost         the connection to the home broke             maybe run  ask again if the request may run twice
//	ErrAbandoned        the instance was dropped with its lease      maybe run  ask again if the request may run twice
//	ErrRestore          the state that came with a move was not taken back  no  fix Restore; the state is kept
//	ErrState            the new state cannot be replicated; the change was undone  no  fix Snapshot, or raise Type.State's limits
//	ErrNotKept          too few nodes acknowledged the new state in time  maybe run  look at the quorum; as ErrNodeLost
//	ErrTimer            to a handler: time not positive, or too many timers  no  fix the handler
//	ErrSelfAsk          the entity asked waits for this ask          no         tell it, or answer first
//	ErrNoDeadline       Ask with Retry and a ctx without a deadline  no         give ctx a deadline
//	ErrContextEnded     a handler's Context was used after the handler returned  no  fix the handler: use another context there
//	ErrStash            to a handler: no message in hand to put aside  no  fix the handler
//	ErrStashFull        to a handler: Limits.Mailbox messages put aside  yes  refuse the message
//	ErrNoRole           Place on a node without the type's role      elsewhere  call it on a node of the role
//	ErrNoShard          the type has no shard of that number         no         fix the caller
//	ErrNoAnswer         a node did not answer a query in time        yes        look at that node
//	ErrNoWorker         the daemon's worker is not to run (now)      yes        ask again; compare RunningDaemon.Workers
//	ErrWindowFull       to Reliable.Send: no room before ctx ended    yes        slow down; look which shard does not confirm
//	ErrReliableClosed   the Reliable is closed                       no         make another
//	ErrUnconfirmed      to Close: of some messages nobody knows      no         Flush first
//	ErrResultLost       to OnConfirm: handled, its answer got lost   no         it is confirmed
//	ErrPanicked         the handler panicked (*PanicError)           no         fix the handler
//	*HandlerError       the handler returned an error                no         it is the application's own answer
//	context's errors    the deadline passed, or the caller gave up   maybe run  as ErrNodeLost
//
// Retryable tells the "yes" and "maybe run" rows from the others, OutcomeUnknown
// the "maybe run" rows: there the handler may have run, and may even still run.
// What a handler returns is a *HandlerError to its asker, also when it hands on the
// error of a call of its own: an asker that gets ErrMailboxFull knows that it was the
// mailbox of the entity that it asked.
package sharding
