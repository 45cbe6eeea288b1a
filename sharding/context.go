package sharding

import (
	"context"
	"log/slog"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/delivery/endpoint"
	"github.com/peerage-go/peerage/internal/failure"
)

// Context describes the message that a handler is handling. It is a context.Context: it
// ends at the ask's deadline, when the call returns, and when the instance is abandoned
// because the node lost its right to run it.
//
// A Context belongs to one call of Handle, OnStart, OnTimer, OnStop, Snapshot or Restore.
// Use it from one goroutine; Done, Err, Deadline and Value may be used from several while
// the call lasts. After the call has returned, Done is closed and Err is context.Canceled.
// Methods that return an error then return ErrContextEnded, as do Tell and Ask with it; all
// other methods panic with a text that names the mistake. A worker reuses its Context for
// the next message, so late use may also reach that message instead. In strict mode, which
// is on under the race detector, each call has a Context of its own, and late use is always
// detected.
//
// The zero Context belongs to no call.
type Context struct{ in activation.Context }

var _ context.Context = (*Context)(nil)

// Sender is the origin of a message. Type and ID are empty if it was sent from outside an
// entity.
type Sender struct {
	Node gossip.NodeID
	Type string
	ID   string
}

// newContext returns a Context for a worker, and the one that the worker fills in.
func newContext() (*Context, *activation.Context) {
	c := new(Context)
	return c, &c.in
}

// originOf returns the Context of the handler that ctx belongs to, and the headers of messages
// that are sent with ctx. It fails with ErrHeaders.
func originOf(ctx context.Context) (o endpoint.Origin, err error) {
	if c, ok := ctx.(*Context); ok {
		o.Handler = &c.in
		return o, nil
	}
	if o.Handler, o.Headers, err = activation.From(ctx); err != nil {
		err = failure.Because(failure.Headers, err)
	}
	return o, err
}

// ID returns the entity's id.
func (c *Context) ID() string { return c.in.ID() }

// Type returns the name of the entity's type.
func (c *Context) Type() string { return c.in.Type() }

// Shard returns the number of the entity's shard.
func (c *Context) Shard() ShardID { return c.in.Shard() }

// Token returns the fencing token of this instance's allocation. Pass it to outer systems
// with every write, and let them reject writes with lower tokens: then a handler that was
// suspended in the middle does no harm when it resumes.
func (c *Context) Token() Token { return Token(c.in.Token()) }

// Sender returns the origin of the message; in OnStart, of the message that started the
// entity. In OnTimer and OnStop, which have no message, it is this node, outside an entity.
func (c *Context) Sender() Sender { return Sender(c.in.Sender()) }

// Header returns the value of a header of the message, "" if there is none: see WithHeaders. In
// OnStart, it is that of the message that started the entity.
func (c *Context) Header(key string) string { return c.in.Header(key) }

// Headers returns all headers of the message in a new map, nil if there are none.
func (c *Context) Headers() map[string]string { return c.in.Headers() }

// Self returns the entity as the origin of the messages that it sends.
func (c *Context) Self() Sender { return Sender(c.in.Self()) }

// Passivate ends this instance after the current call: OnStop runs, and the next message,
// waiting or to come, starts a new instance.
func (c *Context) Passivate() { c.in.Passivate() }

// Logger returns the node's logger with the type, the entity and the shard as attributes.
// Each call builds it anew.
func (c *Context) Logger() *slog.Logger { return c.in.Logger() }

// Stash puts the current message aside: the result of Handle is ignored, the asker keeps
// waiting, and the message is handled again, from its beginning, after Unstash, in the order
// in which messages were put aside. A message whose handler panics is not put aside. When
// the instance ends, the next instance gets these messages first. When the shard moves, asks
// fail and can be repeated, and tells are counted as dropped. Stash fails with ErrStash
// outside of Handle, and with ErrStashFull beyond the size of a mailbox.
func (c *Context) Stash() error { return inGroup(c.in.Stash()) }

// Unstash moves all messages that were put aside to the head of the mailbox, behind control
// messages, when the current call has returned.
func (c *Context) Unstash() { c.in.Unstash() }

// After calls OnTimer once, after d. It replaces an earlier timer of that name, even one
// that has expired and waits in the mailbox.
//
// Timers end with their instance: they do not move with the shard, and the next instance
// sets its own. Timers are not messages: they do not keep an instance from being idle. A
// timer that expires while the node has no lease is handled when the lease is back.
//
// The entity must be a TimerHandler; without OnTimer, the expiry is logged and counted as an
// error. After fails with ErrTimer if d is not positive, or if the instance has 64 timers
// already. In OnStop it does nothing.
func (c *Context) After(name string, d time.Duration) error { return inGroup(c.in.After(name, d)) }

// Every calls OnTimer every d, until Cancel. While a call waits in the mailbox no second one
// is added, so a slow entity misses turns. It is After in all other respects.
func (c *Context) Every(name string, d time.Duration) error { return inGroup(c.in.Every(name, d)) }

// Cancel removes a timer: OnTimer is no longer called for it. Cancelling a timer that is not
// set does nothing.
func (c *Context) Cancel(name string) { c.in.Cancel(name) }

// ReceiveTimeout calls OnTimer with the name ReceiveTimeout whenever no message was handled
// for d; 0 turns it off.
func (c *Context) ReceiveTimeout(d time.Duration) error { return inGroup(c.in.ReceiveTimeout(d)) }

// Deadline returns the asker's deadline.
func (c *Context) Deadline() (time.Time, bool) { return c.in.Deadline() }

// Done returns a channel that is closed at the deadline, when the instance is abandoned, and
// when the call returns.
func (c *Context) Done() <-chan struct{} { return c.in.Done() }

// Err returns the reason for which Done was closed.
func (c *Context) Err() error { return c.in.Err() }

// Value returns values of package context and of runtime/pprof, and those that an Interceptor
// has added. It returns nil for all other keys.
func (c *Context) Value(key any) any { return c.in.Value(key) }
