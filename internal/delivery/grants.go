package delivery

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/delivery/frames"
)

// onGrant handles one grant of a home.
func (r *Router) onGrant(inc *Incarnation, from gossip.NodeID, g *frames.Grant) {
	rt := r.routes.routeTo(g.Shard)
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.core.Grant(from, g.Token, g.Grant)
	r.carryOut(inc, rt)
}

// OnStop handles the gate that a home sets for an entity.
func (r *Router) OnStop(inc *Incarnation, from gossip.NodeID, s *frames.StopNotice) {
	rt := r.routes.routeTo(s.Shard)
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.core.Stop(from, s.Token, string(s.ID), s.Gate)
	r.carryOut(inc, rt)
}

// OnGrants handles the encoded grants of a home.
func (r *Router) OnGrants(from gossip.NodeID, grants []byte) error {
	inc := r.now.Load()
	for ; inc != nil && len(grants) > 0; grants = grants[frames.GrantBytes:] {
		g := frames.ReadGrant(grants)
		if uint32(g.Shard) >= r.shardCount {
			return frames.ErrMalformed
		}
		r.onGrant(inc, from, &g)
	}
	return nil
}

// OpenAccounts opens the accounts of the senders to this node, which hosts the type.
func (r *Router) OpenAccounts(inc *Incarnation, budgets *Budgets) {
	inc.Accounts = newAccounts(r.typeName, r.shardCount, inc.Self, budgets, grantSender(r, inc))
	inc.Work.Go(func() { inc.Accounts.run(inc.Ctx) })
}

// grantSender returns the function that sends grants, stops and shrink requests to other nodes.
// It passes those for this node to its own routes. No stop is made for this node.
func grantSender(r *Router, inc *Incarnation) func(to gossip.NodeID, grants []byte) {
	return func(to gossip.NodeID, frame []byte) {
		if to != inc.Self {
			inc.Out.Send(to, frame)
			return
		}
		if frames.KindOf(frame) == frames.KindShrink {
			if m, asked, err := frames.ParseShrink(frame); err == nil {
				r.OnShrink(inc, to, m, asked)
			}
		} else if _, grants, err := frames.ParseGrants(frame); err == nil {
			_ = r.OnGrants(to, grants)
		}
	}
}

// OnShrink lowers the window of a shard at the request of its home.
func (r *Router) OnShrink(inc *Incarnation, from gossip.NodeID, m frames.Marker, asked uint64) {
	rt := r.routes.routeTo(m.Shard)
	rt.mu.Lock()
	defer rt.mu.Unlock()
	report, ok := rt.core.Shrink(from, m.Token, asked)
	switch {
	case !ok:
	case from == inc.Self:
		inc.Accounts.Sender(from).OnShrunk(m.Shard, m.Token, report)
		inc.Accounts.wakeLoop()
	default:
		_ = inc.Send(from, frames.AppendShrunk(nil, r.typeName, m.Shard, m.Token, report))
	}
}
