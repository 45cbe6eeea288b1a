package entity

// Entity is a stateful object with an id. The runtime calls its methods one at a
// time, never two at once, so it needs no lock. A handler that panics ends its
// instance, unless the type's Supervision says otherwise: the asker gets an error and
// the next message meets a new one.
type Entity[Req, Resp any] interface {
	// Handle takes one request, which it may keep and must not change. Of an ask, the
	// response or the error goes back to the asker; the response must share nothing that
	// a later call changes. Of a tell, both are discarded and an error is counted. An
	// error is the entity's answer whatever it wraps: an asker to whom it hands on its own
	// ErrMailboxFull gets a HandlerError, since this message was handled. It
	// should return soon after ctx ends; an asker whose deadline has passed meanwhile
	// gets its own context.DeadlineExceeded, not the handler's.
	Handle(ctx *Context, req Req) (Resp, error)
}

// Starter is an Entity that has something to do before its first message: to set
// timers, to fetch what it needs.
type Starter interface {
	// OnStart is called on a new instance, after Restore. On an error the message that
	// woke the entity fails with it, and the next one tries again with another instance.
	OnStart(ctx *Context) error
}

// Stopper is an Entity that wants to know of its orderly end: passivation, a
// move to another node, a drain. OnStop is not called when the process dies,
// when the handler panicked, or when the node lost its lease: what must survive
// these is written down before the answer is given.
type Stopper interface {
	// OnStop is the last call, and returns when ctx ends. It may send messages; timers
	// that it sets are forgotten, and a panic in it is logged and counted.
	OnStop(ctx *Context)
}

// Snapshotter is an Entity whose state goes with it when its shard moves in
// order: a rebalance, a drain, a rolling restart. The new home's instance gets it
// before its first message. State is not kept when the process dies, when a lease
// is lost, or when the instance is passivated: write down there what must last.
//
// Of a type with replicated state the Snapshot is taken after every message instead,
// and kept by several nodes; every new instance begins with the newest. The slice
// that Snapshot returns must not be changed afterwards, nor the one that Restore was given.
// An entity that does so is logged and counted (Stats.StatesReused), and its state is copied
// from then on.
type Snapshotter interface {
	// Snapshot returns the state, after the last message and before OnStop; nil is no
	// state. On an error, or a panic, nothing travels, and the loss is counted; OnStop is
	// called all the same. So it is with a state of 8 MiB or more, which no connection
	// takes.
	Snapshot(ctx *Context) ([]byte, error)
	// Restore takes the state on a new instance. On an error the message that woke
	// the entity fails with ErrRestore, and the next one tries again: state is never
	// thrown away in silence. It must not keep state.
	Restore(ctx *Context, state []byte) error
}

// Func makes an Entity without state of a function.
type Func[Req, Resp any] func(ctx *Context, req Req) (Resp, error)

// Handle calls f.
func (f Func[Req, Resp]) Handle(ctx *Context, req Req) (Resp, error) { return f(ctx, req) }
