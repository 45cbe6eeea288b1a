package sharding

import "github.com/peerage-go/peerage/internal/activation"

// Entity is a stateful object with an id. Its methods are called one at a time, so it needs
// no lock. A handler that panics ends its instance, unless the type's Supervision selects
// otherwise: the asker gets an error, and the next message starts a new instance.
type Entity[Req, Resp any] interface {
	// Handle handles one request, which it may keep and must not change. For an ask, the
	// response or the error is returned to the asker; the response must share no memory
	// that a later call changes. For a tell, both are discarded, and an error is counted.
	//
	// An error is the entity's answer, whatever it wraps: if Handle returns ErrMailboxFull
	// of a call of its own, the asker gets a HandlerError, because this message was
	// handled. Handle should return soon after ctx ends; an asker whose deadline has passed
	// by then gets its own context.DeadlineExceeded, not the handler's.
	Handle(ctx *Context, req Req) (Resp, error)
}

// Starter is an Entity with work to do before its first message, such as setting timers or
// loading data.
type Starter interface {
	// OnStart is called on a new instance, after Restore. On an error the message that
	// started the entity fails with it, and the next message tries again with another
	// instance.
	OnStart(ctx *Context) error
}

// Stopper is an Entity that is called at its orderly end: passivation, a move to another
// node, or a drain. OnStop is not called when the process crashes, when the handler panicked,
// or when the node lost its lease: data that must survive these has to be stored before the
// answer is returned.
type Stopper interface {
	// OnStop is the last call. It must return when ctx ends. It may send messages. Timers
	// that it sets are ignored; a panic in it is logged and counted.
	OnStop(ctx *Context)
}

// Snapshotter is an Entity whose state moves with its shard in an orderly move: a rebalance,
// a drain, or a rolling restart. The instance at the new home gets the state before its first
// message. The state is lost when the process crashes, when a lease is lost, and when the
// instance is passivated. Data that must survive a passivation can be stored in OnStop; data
// that must survive the other two has to be stored before the answer is returned.
//
// For a type with replicated state, Snapshot is called after every message instead, several
// nodes hold the state, and every new instance starts with the newest one. The slice that
// Snapshot returned must not be changed afterwards, nor the one that Restore was given. An
// entity that changes it is logged and counted (Stats.StatesReused), and its state is copied
// from then on.
type Snapshotter interface {
	// Snapshot returns the state, after the last message and before OnStop; nil is no
	// state. On an error, a panic, or a state of 8 MiB or more, which exceeds a frame,
	// nothing moves, and the loss is counted; OnStop is called nevertheless.
	Snapshot(ctx *Context) ([]byte, error)
	// Restore loads the state into a new instance. On an error the message that started
	// the entity fails with ErrRestore, and the next message tries again: state is never
	// discarded silently. Restore must not keep the slice.
	Restore(ctx *Context, state []byte) error
}

// TimerHandler is an Entity that sets timers.
type TimerHandler interface {
	// OnTimer is called, through the mailbox, when the timer of that name has expired. Like
	// every call it is never concurrent with another call of the instance, and its turn
	// comes after the messages that arrived earlier. An error is logged and counted; a
	// panic is treated as a panic of Handle.
	OnTimer(ctx *Context, name string) error
}

// Func returns a stateless entity that handles messages with f.
func Func[Req, Resp any](f func(*Context, Req) (Resp, error)) Entity[Req, Resp] {
	return activation.Func[*Context, Req, Resp](f)
}
