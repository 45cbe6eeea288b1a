// Package endpoint is the data path of an entity type on one node: from a call of Tell or Ask to
// a mailbox, and from a reply to its caller.
//
// An Endpoint holds what does not depend on the types of messages: the Router, the counters, the
// shards that run here. A Typed is an Endpoint with its codecs, its pending calls, and the
// entities that run here; it stands at the Endpoint's rim. A Set holds the Endpoints of one
// incarnation of a node, and passes incoming frames to them.
//
//	sender   Typed.Tell, Typed.Ask -> shard that runs here, or codec and Router.Post
//	home     Set.HandleFrames -> requestBatch -> mailbox
//	reply    replies -> Outbox -> Set.HandleFrame -> pending call
//
// Errors are codes of package failure, *activation.Said and *activation.PanicError: package
// sharding makes the errors that users see of them.
package endpoint
