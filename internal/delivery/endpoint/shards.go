package endpoint

import (
	"context"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Shard is a shard that runs here.
type Shard interface {
	Token() protocol.Token
	// Ensure starts an entity that has no instance, and reports whether it does. Dismiss ends
	// an instance in an orderly way, and reports whether it still exists.
	Ensure(id string) (starts bool)
	Dismiss(id string) (exists bool)
	Lives(id string) bool
	IDs() []string
	Entities() int
}

// hosting is an activation.Host without the types of its messages.
type hosting interface {
	// ShardAt returns a shard, nil if it does not run here.
	ShardAt(shard strategy.ShardID) Shard
	// Describe returns the state of an entity's instance, if there is one; Search those of
	// the first instances of a shard whose id contains a text.
	Describe(shard strategy.ShardID, id string) (activation.EntityState, bool)
	Search(shard strategy.ShardID, text string, most int) []activation.EntityState
	BeginShard(shard strategy.ShardID, token protocol.Token, states map[string][]byte) error
	StopShard(shard strategy.ShardID, token protocol.Token, within time.Duration, keep bool, done func(activation.Stopped))
	Abandon()
	AbandonShard(shard strategy.ShardID)
	Resume()
	Running(stacks bool) []activation.Running
	Count() int
	Oldest() time.Duration
	Waiting() (messages, most int)
	Close(ctx context.Context) error
}

// This file has what the driver of the type does to the shards that run here, and what it
// learns of them.

// StartShard starts a shard whose entities begin with states.
func (e *Endpoint) StartShard(shard strategy.ShardID, token protocol.Token, states map[string][]byte) error {
	h := e.rim.hosting()
	if h == nil {
		return activation.ErrClosed
	}
	if err := h.BeginShard(shard, token, states); err != nil {
		return err
	}
	e.Counters.In.Add(1)
	if e.ShardStarted != nil {
		e.ShardStarted()
	}
	return nil
}

// StopShard ends the entities of a shard within a time, then calls done. If keep is set, done
// receives their states.
func (e *Endpoint) StopShard(shard strategy.ShardID, token protocol.Token, within time.Duration, keep bool, done func(activation.Stopped)) {
	e.Counters.Out.Add(1)
	if h := e.rim.hosting(); h != nil {
		h.StopShard(shard, token, within, keep, done)
		return
	}
	done(activation.Stopped{Shard: shard, Token: token})
}

// Abandon drops all instances here. The asks that their handlers hold fail immediately: the
// handlers' own replies would not count.
func (e *Endpoint) Abandon() {
	inc, h := e.Current.Load(), e.rim.hosting()
	if inc == nil || h == nil {
		return
	}
	e.rim.hideShards()
	h.Abandon()
	e.rim.failCalls(inc.Self, failure.Abandoned)
}

// AbandonShard drops the instances of one shard, if it runs under that token.
func (e *Endpoint) AbandonShard(shard strategy.ShardID, token protocol.Token) {
	if h := e.rim.hosting(); h != nil && e.HostedUnder(shard) == token {
		e.rim.Hide(shard)
		h.AbandonShard(shard)
	}
}

// Resume continues after a pause of the lease.
func (e *Endpoint) Resume() {
	if h := e.rim.hosting(); h != nil {
		h.Resume()
	}
}

// ShardAt returns a shard, nil if it does not run here.
func (e *Endpoint) ShardAt(shard strategy.ShardID) Shard {
	if h := e.rim.hosting(); h != nil {
		return h.ShardAt(shard)
	}
	return nil
}

// PresentShards returns the function that finds the shards of the present incarnation, also
// after its end.
func (e *Endpoint) PresentShards() func(strategy.ShardID) Shard {
	h := e.rim.hosting()
	if h == nil {
		return func(strategy.ShardID) Shard { return nil }
	}
	return h.ShardAt
}

// HostedUnder returns the token under which a shard runs here, zero if it does not.
func (e *Endpoint) HostedUnder(shard strategy.ShardID) protocol.Token {
	if s := e.ShardAt(shard); s != nil {
		return s.Token()
	}
	return protocol.Token{}
}

// Population returns the number of a shard's entities here.
func (e *Endpoint) Population(shard strategy.ShardID) int {
	if s := e.ShardAt(shard); s != nil {
		return s.Entities()
	}
	return 0
}

// Lives reports whether an entity has an instance here.
func (e *Endpoint) Lives(shard strategy.ShardID, id string) bool {
	s := e.ShardAt(shard)
	return s != nil && s.Lives(id)
}

// Describe returns the state of an entity's instance here, if there is one.
func (e *Endpoint) Describe(shard strategy.ShardID, id string) (state activation.EntityState, ok bool) {
	if h := e.rim.hosting(); h != nil {
		state, ok = h.Describe(shard, id)
	}
	return state, ok
}

// Dismiss orders a node to end the instance of an entity, after the messages that it is handling,
// if the shard runs there under that token. The order is sent once.
func (e *Endpoint) Dismiss(at gossip.NodeID, shard strategy.ShardID, token protocol.Token, id string) error {
	inc := e.Current.Load()
	switch {
	case inc == nil:
		return failure.NotReady
	case at != inc.Self:
		if err := inc.Send(at, frames.AppendDismiss(nil, e.Name, shard, token, id)); err != nil {
			return failure.Because(failure.NodeLost, err)
		}
		return nil
	}
	e.dismissHere(shard, token, id)
	return nil
}

func (e *Endpoint) dismissHere(shard strategy.ShardID, token protocol.Token, id string) {
	if s := e.ShardAt(shard); s != nil && s.Token() == token {
		s.Dismiss(id)
	}
}

// Search returns the states of the first instances of a shard whose id contains text.
func (e *Endpoint) Search(shard strategy.ShardID, text string, most int) []activation.EntityState {
	if h := e.rim.hosting(); h != nil {
		return h.Search(shard, text, most)
	}
	return nil
}

// Hosts reports whether this node runs shards of the type.
func (e *Endpoint) Hosts() bool { return e.rim.hosting() != nil }

// ShardCount returns the number of shards that run here.
func (e *Endpoint) ShardCount() int {
	if h := e.rim.hosting(); h != nil {
		return h.Count()
	}
	return 0
}

// RunningCalls returns the calls of entities' code that run now, with the goroutines' stacks.
func (e *Endpoint) RunningCalls() []activation.Running {
	if h := e.rim.hosting(); h != nil {
		return h.Running(true)
	}
	return nil
}

// OldestCall returns the duration of the longest running call, 0 if none runs.
func (e *Endpoint) OldestCall() time.Duration {
	if h := e.rim.hosting(); h != nil {
		return h.Oldest()
	}
	return 0
}

// WaitingMessages returns how many messages wait in mailboxes here, and how many of them for the
// entity with the most.
func (e *Endpoint) WaitingMessages() (messages, most int) {
	if h := e.rim.hosting(); h != nil {
		return h.Waiting()
	}
	return 0, 0
}
