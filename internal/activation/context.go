package activation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// Token is the fencing token of one allocation of one shard: see protocol.Token.
type Token = protocol.Token

// ShardID is the number of a shard.
type ShardID = protocol.ShardID

// Sender is sharding.Sender, the origin of a message.
type Sender struct {
	Node gossip.NodeID
	Type string
	ID   string
}

// Context implements sharding.Context, which documents it and its methods for users.
//
// A worker reuses its Context for the next message, unless Config.Strict is set, or the call
// made a real context of it (see lazyContext).
type Context struct {
	// shard is nil while a pooled Context belongs to no call.
	shard   *shardInfo
	id      string
	from    *Sender
	expires time.Time
	inner   lazyContext
	self    atomic.Pointer[Sender]
	// chain is that of the ask in hand, asking that of the asks made here.
	chain  *Chain
	asking atomic.Pointer[Chain]
	// labels are the goroutine's for profiles, so that pprof.Do gives them back.
	labels context.Context
	leave  bool
	// message is set while a message is in hand; stash and unstash are orders.
	message, stash, unstash bool
	// ends is set when the instance is about to end: it sets no timers.
	ends bool
	// ended is set when the call has returned and the Context is not used again.
	ended atomic.Bool
}

// ErrContextEnded: a Context was used after the call that it belongs to had returned.
var ErrContextEnded = errors.New("sharding: Context used after its Handle, OnStart, OnTimer or OnStop returned: read what is needed before, or start a context of one's own")

// info returns what c shares with the other Contexts of its shard, nil if the call that c
// belongs to has returned.
func (c *Context) info() *shardInfo {
	if c.ended.Load() {
		return nil
	}
	return c.shard
}

// live is info for methods that have no error to return: it panics in the goroutine that
// uses the Context too late.
func (c *Context) live(method string) *shardInfo {
	s := c.info()
	if s == nil {
		panic(fmt.Sprintf("%v (Context.%s)", ErrContextEnded, method))
	}
	return s
}

var _ context.Context = (*Context)(nil)

// ID returns the entity's id.
func (c *Context) ID() string {
	c.live("ID")
	return c.id
}

// Type returns the name of the entity's type.
func (c *Context) Type() string { return c.live("Type").typ }

// Shard returns the number of the entity's shard.
func (c *Context) Shard() ShardID { return c.live("Shard").number }

// Token returns the fencing token of this instance's allocation.
func (c *Context) Token() Token { return c.live("Token").token }

// Sender returns the origin of the message, or this node if there is no message.
func (c *Context) Sender() Sender {
	s := c.live("Sender")
	if c.from == nil {
		return Sender{Node: s.node}
	}
	return *c.from
}

// Self returns the identity with which this entity sends.
func (c *Context) Self() Sender {
	s := c.live("Self")
	return Sender{Node: s.node, Type: s.typ, ID: c.id}
}

// SenderOf returns the entity to whose handler ctx belongs, nil if it belongs to none. The
// messages of the entity carry the same value: it is shared and never changed. SenderOf
// fails with ErrContextEnded.
func SenderOf(c *Context) (*Sender, error) {
	if c == nil {
		return nil, nil
	}
	s := c.info()
	if s == nil {
		return nil, ErrContextEnded
	}
	self := c.self.Load()
	if self == nil {
		self = &Sender{Node: s.node, Type: s.typ, ID: c.id}
		c.self.Store(self)
	}
	return self, nil
}

// Passivate ends this instance after the current call.
func (c *Context) Passivate() {
	c.live("Passivate")
	c.leave = true
}

// Logger returns the node's logger with type, entity and shard attached.
func (c *Context) Logger() *slog.Logger {
	return c.live("Logger").loggerOf(c.id)
}

// clear makes c ready for another instance.
func (c *Context) clear() {
	c.shard, c.id, c.from, c.chain, c.expires, c.leave = nil, "", nil, nil, time.Time{}, false
	c.message, c.stash, c.unstash, c.ends = false, false, false, false
	if c.self.Load() != nil { // a load costs less
		c.self.Store(nil)
	}
}
