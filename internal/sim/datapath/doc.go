// Package datapath carries out the routes of one entity type on one simulated process. It
// does around internal/core/route and internal/core/flow what internal/delivery does in
// production, but on one thread and in virtual time.
//
// A Path has both sides of the way of a message:
//
//	sender   Post offers a message to the route of its shard, and performs the route's
//	         actions. A caller makes one call at a time. Its call waits for a grant, for
//	         room on the connection, in the buffer or in a mailbox, or until Withdraw.
//	home     Handle takes frames. An account of each sender and shard counts its messages
//	         and grants more. Mailboxes bounds the messages of each entity, and parks the rest.
//
// The codecs, the outbox and the locks of production are not modelled.
package datapath
