// Package route decides the order of the messages that a node sends to one shard. It is a
// core: it has no lock, clock or goroutine of its own. Production runs it under the lock of
// each route (package sharding), the simulator on its one thread (package internal/sim).
//
// The caller reports events. An event that has a result returns it: Offer decides about one
// message, and the caller performs the Action in the same critical section. All other
// consequences are pulled:
//
//	a := r.Offer(&item)                     r.Open(home, token, local)
//	outcome := perform(a)                   for a, ok := r.Next(); ok; a, ok = r.Next() {
//	r.Done(&a, outcome)                         r.Done(&a, perform(a))
//	                                        }
//
// After each event, and after the Done of an offered Action, the caller pulls until Next
// returns false, before it gives up the lock.
//
// # Order
//
// Guarantee S3: messages of one sender to one entity are handled in the order in which they
// were sent. A sender waits for each call to return, so two rules suffice: a message leaves
// behind all that were accepted earlier, and messages that left on a former way have arrived
// or are lost before the next one leaves on a new way.
//
//  1. An event and its actions are one critical section: looking at the state, queueing on
//     the connection, appending to the buffer, closing, opening. A message either left
//     before a close, and stands before the marker on the connection, or is in the buffer
//     behind all that were there.
//
//  2. No message leaves directly while the buffer holds one: it joins the buffer.
//
//  3. A close with a marker queues the marker in the same critical section. The
//     acknowledgement of the marker proves that all messages before it are in mailboxes, or
//     have been refused.
//
//  4. A refused message returns to the head of the buffer only if every message that left
//     behind it was refused too. To decide that, the route closes at the first refusal,
//     sends a marker of its own to the node that refused, and sorts the refusals when the
//     acknowledgement arrives: connections keep order, so all refusals have arrived by then.
//     No message leaves in between. A route that turns to another home without having been
//     closed does the same. A refusal counts only if its message left on the way whose refusals
//     are due, since the route last turned to that home. It may arrive much later: a home may
//     open before the former one has acknowledged a marker, when the shard has stopped or died
//     there. By then messages may have left for other homes, or run here, where they have no
//     numbers.
//
//  5. When the connection to the home breaks, the messages on it may or may not have arrived,
//     and no refusal will return. The route keeps its home and is suspended until a new
//     connection is open, or the home changes. The receiver accepts no message from the
//     former connection after the new one is open.
//
//  6. The home grants how many messages may leave (package flow). A message without a grant
//     waits: in the buffer if it is there, else with its caller, behind the buffer and in the
//     order of arrival among its class. Messages of handlers have some room of their own, and
//     alternate with other callers for the rest. While the home stops senders for an entity,
//     callers for that entity wait at its gate, in the order of arrival. Messages in the
//     buffer leave regardless of gates.
//
// Local delivery bypasses the route: after a Publish action senders find the running shard
// without the lock, until a Hide action. Publish is returned only while the buffer is empty.
// A sender that found the shard just before Hide still delivers to that shard object, or is
// refused by it and offers its message here: both keep its own order, since it sends one
// message at a time.
//
// One lock per shard suffices: order is promised per entity only, and an entity belongs to
// one shard.
package route
