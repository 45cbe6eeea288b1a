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

// Func makes an Entity without state of a function.
type Func[C, Req, Resp any] func(ctx C, req Req) (Resp, error)

// Handle calls f.
func (f Func[C, Req, Resp]) Handle(ctx C, req Req) (Resp, error) { return f(ctx, req) }
