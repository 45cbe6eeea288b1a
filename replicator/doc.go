// Package replicator is the vocabulary of replicated data: the levels of requests,
// fences, expiring keys, errors and figures. Applications use replicated data through
// package ddata; the node runs one replicator for each role.
//
// # Errors
//
// An error of a request wraps one of the codes below, which errors.Is finds. If it is, or
// wraps, an *Error of that code, errors.As finds that, with the fields of the second column.
//
//	code                fields of Error                 meaning                                 retry?  what to do
//	ErrOutcomeUnknown   Level, Need, Got, Missing       level not reached in time; the change   yes     write the same again, or read at the
//	                                                    may be on any replica                           same level to learn the outcome
//	ErrNoLease          the same                        the same, and this node held no lease   yes     the same; on a node that is cut off or
//	                                                    when it ended: it may be out of the             removed, only when it has joined again
//	                                                    cluster
//	  either            Unchanged                       gave up while requesting stamps         yes     write again
//	ErrStamp                                            an entry's stamp leaves no room for a   no      set the clocks right, or delete the key
//	                                                    newer one
//	ErrAhead            Key, Stamp, Wall, Node          your stamp is more than a minute in     no      check the clocks; stamp with terms,
//	                                                    the future, here or elsewhere                   numbers or ticks of crdt.HLC
//	ErrStale            Key, Entry, Stamp, Node         your stamp lost to a newer one          no      read the present entry (Stamp)
//	ErrContended                                        the keys changed with every attempt     yes     try again later
//	ErrTooFewMembers    Level, Need, Got                the view is smaller than the level      later   lower the level or wait for members
//	ErrFenced           Fence, Higher                   a higher term exists                    never   step down
//	ErrLimit            Limit, Max, Got                 a limit of the configuration            no      write less, or raise the limit
//	ErrKind             Key, HaveKind, WantKind         the key holds another data type, or     no      use another key
//	                                                    one of other elements
//	ErrPlan                                             the update's own function failed        -       see the wrapped error
//	ErrDurable          Key, Node, Cause in a request   the file of durable keys is damaged,    no      at the start: restore the file, or remove
//	                                                    foreign, held, or cannot be written             it; in a request: nothing was changed,
//	                                                                                                    unless it wraps ErrOutcomeUnknown too
//	ErrMixed            Key, OtherKey                   durable and other keys in one update    no      make two updates of it
//	ErrClosed                                           the node has stopped                    no      -
//
// If a context ends, its error is returned, wrapped together with ErrOutcomeUnknown once
// the change has been applied here.
//
// Requests at a level other than Local succeed only while the node holds a valid lease, and
// wait for it up to their deadline. Otherwise removed nodes that have not learned of their
// removal could form a majority among themselves. A node that is still joining has no lease
// yet.
package replicator
