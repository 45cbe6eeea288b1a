package activation

// Entity is a stateful object with an id. The runtime never makes two calls to an entity at
// the same time, so it needs no lock. A handler that panics ends its instance, unless the
// type's Supervision differs: the asker gets an error, and a new instance handles the next
// message.
type Entity[C, Req, Resp any] interface {
	// Handle handles one request. It may keep the request, but must not change it. For an
	// ask, the response or the error is returned to the asker. The response must not share
	// memory that a later call changes. For a tell, both are discarded, and an error is
	// counted.
	//
	// An error is the entity's own reply, whatever it wraps: an asker to whom the handler
	// returns its own ErrMailboxFull gets a HandlerError, since this message was handled.
	// Handle should return soon after ctx ends. An asker whose deadline has passed gets
	// context.DeadlineExceeded, not the handler's error.
	Handle(ctx C, req Req) (Resp, error)
}

// Starter is an Entity with work to do before its first message: to set timers, or to load
// data.
type Starter[C any] interface {
	// OnStart is called on a new instance, after Restore. If it fails, the message that
	// started the entity fails with the error, and the next message tries again with
	// another instance.
	OnStart(ctx C) error
}

// Stopper is an Entity that is called at its orderly end: a passivation, a move to another
// node, a drain. OnStop is not called when the process dies, when the handler panicked, or
// when the node lost its lease. Store state that must survive these before you reply.
type Stopper[C any] interface {
	// OnStop is the last call. It must return when ctx ends. It may send messages. Timers
	// that it sets are ignored, and a panic in it is logged and counted.
	OnStop(ctx C)
}

// Snapshotter is an Entity whose state moves with its shard when the shard moves in order:
// in a rebalance, a drain, or a rolling restart. The new home's instance gets the state
// before its first message. The state is lost when the process dies, when a lease is lost,
// and when the instance is passivated: store there what must last.
//
// For a type with replicated state, the Snapshot is taken after every message instead, and
// several nodes keep it; every new instance begins with the newest one. The slice that
// Snapshot returned, or that Restore received, must not be changed afterwards. An entity
// that changes one is logged and counted (Stats.StatesReused), and its state is copied from
// then on.
type Snapshotter[C any] interface {
	// Snapshot returns the state, after the last message and before OnStop; nil means no
	// state. If it fails or panics, no state moves, the loss is counted, and OnStop is
	// still called. The same holds for a state of 8 MiB or more, which no connection
	// carries.
	Snapshot(ctx C) ([]byte, error)
	// Restore sets the state of a new instance. If it fails, the message that started the
	// entity fails with ErrRestore, and the next message tries again: state is never
	// dropped silently. Restore must not keep state.
	Restore(ctx C, state []byte) error
}

// Func makes an Entity without state of a function.
type Func[C, Req, Resp any] func(ctx C, req Req) (Resp, error)

// Handle calls f.
func (f Func[C, Req, Resp]) Handle(ctx C, req Req) (Resp, error) { return f(ctx, req) }
