// Package activation runs the entities of one type on one node. It holds the shards that
// this node hosts, makes an instance at the first message for an id, passes it one
// message at a time, and ends it.
//
// An entity at rest is a small struct in its shard's map. It owns no goroutine,
// no channel and no timer of its own; a goroutine runs while its mailbox is not empty.
// Timers, a stash, pauses after panics and a place in the order of passivation cost
// only the entities that have them.
//
// The package does not depend on the cluster. The owner of a Host orders which shards
// start and stop. The Host calls Config.Alive before each message; without a lease it
// runs nothing, and messages stay in their mailboxes until Resume or Abandon.
package activation

// The interfaces of this file are those of package sharding, which documents them for the
// authors of entities. C is the type of Context that the entities see.

// Entity is sharding.Entity.
type Entity[C, Req, Resp any] interface {
	// Handle handles one request.
	Handle(ctx C, req Req) (Resp, error)
}

// Starter is sharding.Starter.
type Starter[C any] interface {
	// OnStart is called on a new instance, after Restore.
	OnStart(ctx C) error
}

// Stopper is sharding.Stopper.
type Stopper[C any] interface {
	// OnStop is the last call, at an orderly end. Its timers are ignored, and its panics
	// are contained.
	OnStop(ctx C)
}

// Snapshotter is sharding.Snapshotter.
type Snapshotter[C any] interface {
	// Snapshot returns the state, after the last message and before OnStop, and after every
	// message if there is a Config.Keeper; nil means no state.
	Snapshot(ctx C) ([]byte, error)
	// Restore sets the state of a new instance.
	Restore(ctx C, state []byte) error
}

// Func is a function that serves as an Entity without state.
type Func[C, Req, Resp any] func(ctx C, req Req) (Resp, error)

// Handle calls f.
func (f Func[C, Req, Resp]) Handle(ctx C, req Req) (Resp, error) { return f(ctx, req) }
