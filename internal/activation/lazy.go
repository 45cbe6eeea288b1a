package activation

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// shardInfo is what contexts of one shard share. It never changes.
type shardInfo struct {
	typ    string
	number ShardID
	token  Token
	node   gossip.NodeID
	logger *slog.Logger
	// base ends when the shard's instances are abandoned.
	base context.Context
	ops  shardOps
}

func (s *shardInfo) loggerOf(id string) *slog.Logger {
	return s.logger.With("type", s.typ, "entity", id, "shard", s.number)
}

// lazyContext becomes a real context.Context when somebody first asks for one:
// most handlers never do, and a timer per message would cost more than they.
//
// A Context that was asked is not used again for another message. Package context
// itself looks at parents later, from goroutines and timers of its own, and must
// find there what it found before.
type lazyContext struct {
	// used is set once somebody asked.
	used   atomic.Bool
	mu     sync.Mutex
	ctx    context.Context
	cancel context.CancelFunc
}

func (l *lazyContext) get(base context.Context, expires time.Time) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used.Store(true)
	if l.ctx == nil {
		if expires.IsZero() {
			l.ctx, l.cancel = context.WithCancel(base)
		} else {
			l.ctx, l.cancel = context.WithDeadline(base, expires)
		}
	}
	return l.ctx
}

// afterwards returns the context once the call has returned: cancelled, whether or not one
// was made before.
func (l *lazyContext) afterwards() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx != nil {
		return l.ctx
	}
	return endedContext{}
}

// endedContext is the context of a call that has returned and never asked for one.
type endedContext struct{ context.Context }

func (endedContext) Done() <-chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return ch
}

func (endedContext) Err() error { return context.Canceled }

// end cancels the context, if one was made.
func (l *lazyContext) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel != nil {
		l.cancel()
	}
}

// value asks the context, if one was made.
func (l *lazyContext) value(key any) any {
	if !l.used.Load() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ctx.Value(key)
}

// Deadline returns the time at which the asker gives up.
func (c *Context) Deadline() (time.Time, bool) { return c.expires, !c.expires.IsZero() }

// Done returns a channel that is closed at the deadline, when the instance is abandoned,
// and when the call ends.
func (c *Context) Done() <-chan struct{} { return c.real().Done() }

// Err returns the reason why Done was closed.
func (c *Context) Err() error { return c.real().Err() }

func (c *Context) real() context.Context {
	if s := c.info(); s != nil {
		return c.inner.get(s.base, c.expires)
	}
	return c.inner.afterwards()
}

// Value returns the values of keys of package context, of this package, and of
// runtime/pprof; for other keys it returns nil.
func (c *Context) Value(key any) any {
	if key == (selfKey{}) {
		return c
	}
	if v := c.inner.value(key); v != nil || c.labels == nil {
		return v
	}
	return c.labels.Value(key)
}

type selfKey struct{}

// From returns the Context of the handler to which ctx belongs, nil outside of handlers.
func From(ctx context.Context) *Context {
	if c, ok := ctx.(*Context); ok {
		return c
	}
	c, _ := ctx.Value(selfKey{}).(*Context)
	return c
}
