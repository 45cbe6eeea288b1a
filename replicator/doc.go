// Package replicator keeps CRDT values under keys, one replicator per role, and
// spreads them to the members of the view that carry the role. It is the shell
// of package replicator/core: one goroutine, the timers, the subscribers.
//
// Applications use it through package ddata.
//
// # Errors
//
//	error               meaning                                 retry?  what to do
//	ErrOutcomeUnknown   level not fulfilled in time; the        yes     write the same again, or read at the
//	  (*QuorumError)    change may stand anywhere                       same level to learn the outcome
//	ErrNoLease          the same, and this node held no lease   yes     the same; on a node that is cut off or
//	  (*QuorumError)    when it ended: it may be out of the             removed, only when it has joined again
//	                    cluster
//	  Unchanged         given up while asking others for stamps    yes     write again
//	ErrStamp            an entry's stamp is the last there is,     no      delete the key
//	                    or more than a minute in the future
//	*AheadError         a stamp of yours is more than a minute  no      check the clocks; stamp with terms,
//	                    in the future, here or elsewhere                numbers or ticks of crdt.HLC
//	*StaleError         your stamp lost to a newer one          no      see what stands (Have)
//	ErrContended        the keys changed with every attempt        yes     try again later
//	ErrTooFewMembers    the view is smaller than the level      later   lower the level or wait for members
//	*FencedError        a higher term exists                    never   step down
//	ErrLimit            a limit of the configuration            no      write less, or raise the limit
//	*KindError          the key holds another data type, or     no      use another key
//	                    one of other elements
//	ErrPlan             the update's own function refused       -       see the wrapped error
//	ErrDurable          the file of durable keys is damaged,    no      OpenDurable: restore the file, or remove
//	                    foreign, held, or cannot be written             it; in a request: nothing was changed,
//	                                                                    unless it wraps ErrOutcomeUnknown too
//	*MixedError         durable keys and others in one update   no      make two updates of it
//	ErrClosed           the replicator is closed                no      -
//
// A context that ends gives its own error, wrapped together with
// ErrOutcomeUnknown once the change has been applied here.
//
// Requests at a level other than Local end well only while the node holds a valid lease
// (Config.LeaseValid), and wait for it up to their deadline: nodes that were removed and
// do not know it could else take each other for a majority. A node that is still joining
// has no lease yet.
package replicator
