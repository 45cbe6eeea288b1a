// Package flow is the arithmetic of back-pressure between a node that sends to a shard
// and the shard's home. It is a core: it has no lock, clock or goroutine of its own.
//
// A sender has a Window for each shard, its home an Account for each sender. All limits
// are absolute: the number that every request carries, and the bytes sent since the
// Window was made, may go up to a limit. The home grants higher limits as requests enter
// mailboxes:
//
//	Window                                Account
//	Left(bytes)      -- request, number -->  Accept(number, bytes)
//	                                         Park(bytes): its mailbox is full
//	                                         Unpark(bytes): it has entered
//	Raise(grant)     <-------- grant ------  Grant(), when Due
//	Report()         ------- blocked ----->  Reconcile(report)
//	Shrink(number)   <------ shrink -------  Idle()
//	                 ------- shrunk ------>  Shrunk(report)
//
// Why absolute limits: the next grant corrects any grant that is lost, repeated or late.
// With relative credits ("32 more"), every frame that is lost
// with a connection destroys credit; the tail of a window lost with its
// connection would stop the sender for ever.
//
// Why reports: the home cannot see that requests were lost. A blocked sender reports
// how far it has sent, behind all of its requests on the same connection, and repeats the
// report until a grant arrives. The home takes the report as the truth. So one report and
// one grant restore both sides after any loss.
//
// Why the home asks an idle sender to give up its window's growth, and does not take it:
// the sender may use its grants at any time.
//
// Invariant: the requests that may still arrive, and those that are parked, are at most the
// account's window, as long as the sender keeps to its limits (Account has the exceptions):
//
//	granted - seen + parked <= window
//
// A sender is blocked only while the home has parked requests of that sender, or while a
// report or a grant is in flight. TestNothingStaysBlocked checks both against losses and
// repetitions.
package flow
