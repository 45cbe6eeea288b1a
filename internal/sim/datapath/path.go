package datapath

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/route"
)

// Path is the data path of one entity type on one process.
type Path struct {
	env      Env
	self     gossip.NodeID
	routes   routes
	callers  callers
	accounts accounts
}

// New returns the Path of a process.
func New(cfg Config, env Env) *Path {
	p := &Path{env: env, self: cfg.Self}
	p.accounts = newAccounts(cfg, env, p.sendAnswer)
	p.routes = newRoutes(cfg, env)
	p.callers = callers{cfg: cfg, env: env, routes: &p.routes, calls: map[callerKey]*call{}}
	p.routes.deliverHere, p.routes.reportHere = p.acceptMessage, p.onReport
	p.routes.onWake, p.routes.onRoom = p.callers.wakeCaller, p.callers.announceRoom
	return p
}

// Post makes the call of a caller that is not busy, and reports whether it waits.
func (p *Path) Post(m *Message) (waits bool) { return p.callers.post(m) }

// Attempt is how an attempt to send a copy of a reliable message went.
type Attempt uint8

const (
	// Departed: it has left.
	Departed Attempt = iota
	// NoWay: there is no route to its shard, or no room. AtGate: its home has stopped senders for
	// the entity.
	NoWay
	AtGate
)

// PostNow sends a copy of a reliable message if it can leave now, and returns the node that it
// left for.
func (p *Path) PostNow(m *Message) (at gossip.NodeID, how Attempt) {
	rt, it := p.routes.at(m.Shard), newItem(m)
	a := rt.core.OfferNow(&it)
	p.routes.carryOut(rt)
	switch a.Kind {
	case route.Stopped:
		return 0, AtGate
	case route.NoHome, route.Wait:
		return 0, NoWay
	}
	outcome := p.routes.perform(rt, &a)
	rt.core.Done(&a, outcome)
	p.routes.carryOut(rt)
	if outcome != route.Sent {
		return 0, NoWay
	}
	return a.To, Departed
}

// Withdraw ends the call of m, and reports whether it was waiting: then m will not be sent.
func (p *Path) Withdraw(m *Message) bool { return p.callers.withdrawCall(m) }

// Busy reports whether the last call of a caller for an entity has not returned.
func (p *Path) Busy(entity, caller int) bool {
	return p.callers.calls[callerKey{entity, caller}] != nil
}

// Open opens a route, or turns it to another home.
func (p *Path) Open(shard protocol.ShardID, home gossip.NodeID, token protocol.Token) {
	p.routes.onRoute(shard, func(c *core) { c.Open(home, token, home == p.self) })
}

// Close closes a route. If owner is not 0, a marker with token follows the messages to it.
func (p *Path) Close(shard protocol.ShardID, owner gossip.NodeID, token protocol.Token) {
	p.routes.onRoute(shard, func(c *core) { c.Close(owner, token) })
}

// Mark sends the marker of a closed route again.
func (p *Path) Mark(shard protocol.ShardID, owner gossip.NodeID, token protocol.Token) {
	p.routes.onRoute(shard, func(c *core) { c.Mark(owner, token) })
}

// PeerLost suspends the routes to a node whose connection broke.
func (p *Path) PeerLost(peer gossip.NodeID) {
	p.routes.onRoutes(func(c *core) { c.PeerLost(peer) })
}

// PeerUp resumes the routes to a node.
func (p *Path) PeerUp(peer gossip.NodeID) { p.routes.onRoutes(func(c *core) { c.PeerUp(peer) }) }

// Look repeats frames that may be lost, and calls connect with the homes of suspended routes.
func (p *Path) Look(gates bool, connect func(gossip.NodeID)) {
	p.routes.onRoutes(func(c *core) {
		if !route.NeedsLook(c) {
			return
		}
		if home := c.Look(gates); home != 0 {
			connect(home)
		}
	})
}

// Tidy drops the accounts of shards that no longer run here, and asks idle senders to return the
// growth of their windows.
func (p *Path) Tidy() { p.accounts.tidyUp() }

// Forget drops the accounts of a node that has left the view.
func (p *Path) Forget(node gossip.NodeID) { p.accounts.forgetSender(node) }

// Describe returns the home and the state of a route, and how many messages it holds.
func (p *Path) Describe(shard protocol.ShardID) (home gossip.NodeID, state string, held int) {
	rt := p.routes.at(shard)
	home, _ = rt.core.Home()
	return home, rt.core.State(), rt.held
}

// Handle takes a frame of another process.
func (p *Path) Handle(from gossip.NodeID, f *Frame) {
	switch f.Op {
	case Tell:
		p.onTell(from, f)
	case Refused:
		p.onRefused(from, f)
	case Marker:
		p.sendAnswer(from, &Frame{Op: MarkerAck, Shard: f.Shard, Token: f.Token})
	case MarkerAck:
		if f.Token.Term != 0 {
			p.env.MarkerAcked(from, f.Shard, f.Token)
			return
		}
		p.routes.onRoute(f.Shard, func(c *core) { c.MarkerAcked(from, f.Token.Seq) })
	default:
		p.handleFlow(from, f)
	}
}

// handleFlow takes a frame of package flow.
func (p *Path) handleFlow(from gossip.NodeID, f *Frame) {
	switch f.Op {
	case Grant:
		for _, g := range f.Grants {
			p.routes.onRoute(g.Shard, func(c *core) { c.Grant(from, g.Token, g.Grant) })
		}
	case Blocked:
		p.onReport(from, f)
	case Stop:
		if f.Gate != flow.Open {
			p.env.Count(GateClosed)
		}
		p.routes.onRoute(f.Shard, func(c *core) { c.Stop(from, f.Token, f.ID, f.Gate) })
	case Stopped:
		p.onGateQuestion(from, f)
	case Shrink:
		p.onShrink(from, f)
	case Shrunk:
		p.accounts.senderOf(from).onShrunk(f)
	}
}

// onTell delivers a message, or refuses it if its shard does not run here.
func (p *Path) onTell(from gossip.NodeID, f *Frame) {
	if !isHosted(p.env, f.Shard, f.Token) {
		p.env.Count(MessageRefused)
		back := *f
		back.Op = Refused
		p.sendAnswer(from, &back)
		return
	}
	p.acceptMessage(from, f.Msg, f.Token, f.Number, f.Left)
}

// acceptMessage counts a message to a shard that runs here, and delivers it.
func (p *Path) acceptMessage(from gossip.NodeID, m *Message, token protocol.Token, number uint64, left time.Duration) {
	a := p.accounts.senderOf(from).accountOf(m.Shard, token, number)
	enough := a.run.Add(number, m.Bytes)
	p.env.Deliver(m, left, &Place{account: a})
	if enough {
		a.takeRun()
	}
	a.s.sendUrgent()
}

// onRefused takes back a message that this process has sent to a node that is not the home.
func (p *Path) onRefused(from gossip.NodeID, f *Frame) {
	if !p.routes.at(f.Shard).core.Expects(from, f.Token, f.Number) {
		p.loseRefused(f)
		return
	}
	if f.Msg.Copy != nil {
		p.env.CopyRefused(f.Msg)
		p.routes.onRoute(f.Shard, func(c *core) { c.Refused(from, f.Number, route.Item[*Message]{Msg: f.Msg, Placeholder: true}) })
		return
	}
	_, waits := p.env.Move(f.Msg, 0)
	it := route.Item[*Message]{Msg: f.Msg, Bytes: f.Msg.Bytes, Placeholder: !waits}
	p.routes.onRoute(f.Shard, func(c *core) { c.Refused(from, f.Number, it) })
}

// loseRefused reports a refused message that cannot be sent again. The producer of a reliable one
// still has it.
func (p *Path) loseRefused(f *Frame) {
	if f.Msg.Copy != nil {
		p.env.CopyRefused(f.Msg)
		return
	}
	p.env.Lost(f.Msg, f.Token)
}

// onReport answers the report of a blocked sender. If the shard does not run here, the sender
// may send one message more: its refusal makes the sender ask for the home.
func (p *Path) onReport(from gossip.NodeID, f *Frame) {
	switch s := p.accounts.senderOf(from); {
	case from == p.self || isHosted(p.env, f.Shard, f.Token):
		s.reconcileReport(f)
	default:
		r := f.Report
		g := ShardGrant{f.Shard, f.Token, flow.Grant{Limit: r.Sent + 1, LimitBytes: r.SentBytes + 1, Asked: r.Asked}}
		p.sendAnswer(from, &Frame{Op: Grant, Grants: []ShardGrant{g}})
	}
}

// onGateQuestion answers a sender that asks whether it must still stop for an entity.
func (p *Path) onGateQuestion(from gossip.NodeID, f *Frame) {
	gate := flow.Open
	if isHosted(p.env, f.Shard, f.Token) {
		gate = p.accounts.senderOf(from).gateOf(f)
	}
	if gate != flow.Control {
		p.sendAnswer(from, &Frame{Op: Stop, Shard: f.Shard, Token: f.Token, ID: f.ID, Gate: gate})
	}
}

// onShrink lowers the window of a shard at the request of its home.
func (p *Path) onShrink(from gossip.NodeID, f *Frame) {
	report, ok := p.routes.at(f.Shard).core.Shrink(from, f.Token, f.Number)
	if !ok {
		return
	}
	answer := &Frame{Op: Shrunk, Shard: f.Shard, Token: f.Token, Report: report}
	if from == p.self {
		p.accounts.senderOf(from).onShrunk(answer)
		return
	}
	_ = p.env.Send(from, answer)
}

// sendAnswer sends a frame to another process, or to this one.
func (p *Path) sendAnswer(to gossip.NodeID, f *Frame) {
	if to == p.self {
		p.env.Later(func() { p.Handle(to, f) })
		return
	}
	p.env.Answer(to, f)
}
