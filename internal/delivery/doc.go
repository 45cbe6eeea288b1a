// Package delivery carries the messages of entity types between nodes, and keeps the order of
// the messages of one sender to one shard.
//
// A Router holds the routes of one type. The core of a route (package route) decides whether a
// message may leave; the Router performs its actions under the lock of the route. Routes and
// their buffers outlive the incarnations of the node, so each incarnation is passed to Serve.
//
//	sender   Router.Post -> route.Route -> connection, or the buffer of the route
//	         Calls: the asks that wait for their replies
//	         Producer: reliable messages, sent again until they are confirmed
//	home     Accounts: back-pressure to the senders
//	         Outbox: replies, which must not wait for a slow node
//
// Encoding and decoding of payloads, and the entities of this node, stay behind Local.
package delivery
