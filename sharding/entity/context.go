package entity

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/sharding/protocol"
)

// Token is the fencing token of one allocation of one shard: see protocol.Token.
type Token = protocol.Token

// ShardID is the number of a shard.
type ShardID = protocol.ShardID

// Sender says who sent a message. Type and ID are empty when it came from
// outside an entity.
type Sender struct {
	Node view.NodeID
	Type string
	ID   string
}

// Context is what a handler knows about the message in its hands. It is a
// context.Context: it ends at the ask's deadline, and when the instance is
// abandoned because the node lost its right to run it.
//
// A Context belongs to one call of Handle or OnStop: keep nothing of it behind
// that call, and use it from one goroutine (Done, Err, Deadline and Value may be
// used from several while the call lasts).
type Context struct {
	shard   *shardInfo
	id      string
	from    *Sender
	expires time.Time
	inner   lazyContext
	self    atomic.Pointer[Sender]
	leave   bool
	// message is set while a message is in hand; stash and unstash are orders.
	message, stash, unstash bool
	// ends is set when the instance is about to end: it sets no timers.
	ends bool
}

var _ context.Context = (*Context)(nil)

// ID returns the entity's id.
func (c *Context) ID() string { return c.id }

// Type returns the name of the entity's type.
func (c *Context) Type() string { return c.shard.typ }

// Shard returns the number of the entity's shard.
func (c *Context) Shard() ShardID { return c.shard.number }

// Token returns the fencing token of this instance's allocation. Hand it to
// outside systems with every write and let them refuse lower ones: then even a
// handler that was frozen in the middle cannot do harm when it thaws (G2).
func (c *Context) Token() Token { return c.shard.token }

// Sender returns who sent the message; in OnStart that is the one which woke the
// entity. Where there is none, in OnTimer and OnStop, it is this node, outside an
// entity.
func (c *Context) Sender() Sender {
	if c.from == nil {
		return Sender{Node: c.shard.node}
	}
	return *c.from
}

// Self returns the identity under which this entity sends.
func (c *Context) Self() Sender {
	return Sender{Node: c.shard.node, Type: c.shard.typ, ID: c.id}
}

// Sending returns Self as the messages that the handler sends carry it: shared
// and never changed.
func (c *Context) Sending() *Sender {
	s := c.self.Load()
	if s == nil {
		self := c.Self()
		s = &self
		c.self.Store(s)
	}
	return s
}

// Passivate asks for this instance to end after the current call: OnStop runs,
// and the next message, if one waits or comes, meets a new instance.
func (c *Context) Passivate() { c.leave = true }

// Logger returns the node's logger with type, entity and shard attached. It is
// built anew on each call.
func (c *Context) Logger() *slog.Logger {
	return c.shard.logger.With("type", c.shard.typ, "entity", c.id, "shard", c.shard.number)
}

// clear makes c ready for another instance.
func (c *Context) clear() {
	c.shard, c.id, c.from, c.expires, c.leave = nil, "", nil, time.Time{}, false
	c.message, c.stash, c.unstash, c.ends = false, false, false, false
	if c.self.Load() != nil { // a load costs less
		c.self.Store(nil)
	}
}
