package datapath

import (
	"errors"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/route"
	"github.com/peerage-go/peerage/internal/transport"
)

type core = route.Route[*Message]

// shardRoute is the route to one shard.
type shardRoute struct {
	shard protocol.ShardID
	core  core
	// published: local callers find the shard that runs here under token, without the route.
	published bool
	token     protocol.Token
	// held is how many messages the buffer held when carryOut last returned.
	held int
}

// routes are the routes of a type. They perform the actions of their cores.
type routes struct {
	env  Env
	self gossip.NodeID
	all  []shardRoute

	// deliverHere and reportHere pass messages and reports to this process as a home.
	deliverHere func(from gossip.NodeID, m *Message, token protocol.Token, number uint64, left time.Duration)
	reportHere  func(from gossip.NodeID, f *Frame)
	// onWake ends the wait of a caller, onRoom is called when a buffer may have room.
	onWake func(m *Message, how route.Outcome)
	onRoom func()
}

func newRoutes(cfg Config, env Env) routes {
	r := routes{env: env, self: cfg.Self, all: make([]shardRoute, cfg.Shards)}
	for i := range r.all {
		r.all[i].shard = protocol.ShardID(i)
	}
	return r
}

func (r *routes) at(shard protocol.ShardID) *shardRoute { return &r.all[shard] }

// onRoute performs an event of a route, and the actions that it makes due.
func (r *routes) onRoute(shard protocol.ShardID, event func(*core)) {
	rt := r.at(shard)
	event(&rt.core)
	r.carryOut(rt)
}

func (r *routes) onRoutes(event func(*core)) {
	for i := range r.all {
		r.onRoute(protocol.ShardID(i), event)
	}
}

// carryOut performs the actions that an event has made due.
func (r *routes) carryOut(rt *shardRoute) {
	for a, ok := rt.core.Next(); ok; a, ok = rt.core.Next() {
		rt.core.Done(&a, r.perform(rt, &a))
	}
	if err := rt.core.Check(); err != nil {
		r.env.Fail(err)
	}
	before := rt.held
	if rt.held, _, _ = rt.core.Held(); rt.held < before {
		r.onRoom()
	}
}

// perform performs an action and returns its outcome.
func (r *routes) perform(rt *shardRoute, a *route.Action[*Message]) route.Outcome {
	switch a.Kind {
	case route.Send, route.Deliver:
		return r.depart(rt, a)
	case route.Publish:
		if !isHosted(r.env, rt.shard, a.Token) {
			return route.Down
		}
		rt.published, rt.token = true, a.Token
	case route.Hide:
		rt.published = false
	case route.Wake:
		r.onWake(a.Item.Msg, a.Result)
	case route.Lost:
		r.env.Lost(a.Item.Msg, a.Item.Msg.left)
	case route.Freed:
		r.env.Freed(rt.shard, a.ID)
		if a.ID == "" {
			r.onRoom()
		}
	default:
		r.notify(rt, a)
	}
	return route.Sent
}

// notify performs an action that sends a frame other than a message, or informs the process.
func (r *routes) notify(rt *shardRoute, a *route.Action[*Message]) {
	switch a.Kind {
	case route.Marker:
		if a.To == r.self {
			r.env.MarkerAcked(a.To, rt.shard, a.Token)
			return
		}
		_ = r.env.Send(a.To, &Frame{Op: Marker, Shard: rt.shard, Token: a.Token})
	case route.Report:
		r.sendReport(rt, a)
	case route.AskGate:
		_ = r.env.Send(a.To, &Frame{Op: Stopped, Shard: rt.shard, Token: a.Token, ID: a.ID})
	case route.AwaitRoom:
		home := a.To
		r.env.AwaitRoom(home, func(how route.Outcome) {
			rt.core.RoomFound(home, how)
			r.carryOut(rt)
		})
	case route.NeedHome:
		r.env.NeedHome(rt.shard)
	case route.Misrouted:
		r.env.Misrouted(rt.shard, a.Token)
	}
}

// sendReport sends the home how far this process has sent.
func (r *routes) sendReport(rt *shardRoute, a *route.Action[*Message]) {
	f := &Frame{Op: Blocked, Shard: rt.shard, Token: a.Token, Report: rt.core.Report()}
	if a.To == r.self {
		r.reportHere(a.To, f)
		return
	}
	_ = r.env.Send(a.To, f)
}

// depart queues a message on the connection to the home, or delivers it here.
func (r *routes) depart(rt *shardRoute, a *route.Action[*Message]) route.Outcome {
	m := a.Item.Msg
	left, waits := r.env.Move(m, a.To)
	if !waits {
		return route.Gone
	}
	m.left = a.Token
	if a.Kind == route.Deliver {
		if !isHosted(r.env, rt.shard, a.Token) {
			return route.Down
		}
		r.deliverHere(a.To, m, a.Token, a.Number, left)
	} else if err := r.env.Send(a.To, &Frame{Op: Tell, Shard: rt.shard, Token: a.Token, Msg: m, Number: a.Number, Left: left}); err != nil {
		return r.stay(m, err)
	}
	if a.Item.Returned {
		r.env.Count(SentAgain)
	}
	return route.Sent
}

// stay returns the outcome for a message that the connection did not take.
func (r *routes) stay(m *Message, err error) route.Outcome {
	switch _, waits := r.env.Move(m, 0); {
	case !waits:
		return route.Gone
	case errors.Is(err, transport.ErrQueueFull):
		return route.Full
	}
	return route.Down
}
