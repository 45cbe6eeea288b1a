package entity

// Entity is a stateful object with an id. The runtime calls its methods one at a
// time, never two at once, so it needs no lock. A handler that panics ends its
// instance: the asker gets an error and the next message meets a new one.
type Entity[Req, Resp any] interface {
	// Handle takes one request. Of an ask, the response or the error goes back to
	// the asker; of a tell, both are discarded and an error is counted. It should
	// return soon after ctx ends.
	Handle(ctx *Context, req Req) (Resp, error)
}

// Stopper is an Entity that wants to know of its orderly end: passivation, a
// move to another node, a drain. OnStop is not called when the process dies,
// when the handler panicked, or when the node lost its lease: what must survive
// these is written down before the answer is given.
type Stopper interface {
	OnStop(ctx *Context)
}

// Func makes an Entity without state of a function.
type Func[Req, Resp any] func(ctx *Context, req Req) (Resp, error)

// Handle calls f.
func (f Func[Req, Resp]) Handle(ctx *Context, req Req) (Resp, error) { return f(ctx, req) }
