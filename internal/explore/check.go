package main

import (
	"fmt"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
)

func newTruth() truth {
	return truth{
		written: map[protocol.ShardToken]bool{}, begun: map[protocol.ShardID]protocol.Token{},
		office: map[gossip.Epoch]gossip.NodeID{},
	}
}

// failure is a check that failed.
type failure string

func (w *world) fail(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }

// isBound reports whether the promises of one cluster bind a node: after a wrong proof of death
// they bind the members of the newest view.
func (w *world) isBound(n *node) bool {
	return n.alive && (!w.cluster.truth.misjudged || w.cluster.newest.Member(n.id) != nil)
}

// checkAll runs after every step.
func checkAll(w *world) {
	for s := range protocol.ShardID(shards) {
		home := gossip.NodeID(0)
		for _, n := range w.nodes {
			if !w.isBound(n) || !n.hasEffect(s) {
				continue
			}
			if home != 0 {
				w.fail("S1: shard %v has an effect at %d and at %d", s, home, n.id)
			}
			home = n.id
		}
	}
	for i, n := range w.nodes {
		if !w.own[i] || !n.alive || w.x.outside {
			continue
		}
		if err := n.reg.Check(); err != nil {
			w.fail("%d: %v", n.id, err)
		}
		if err := n.coord.Check(); err != nil {
			w.fail("%d: %v", n.id, err)
		}
	}
}

// checkOffice: a term has one coordinator.
func checkOffice(w *world, n *node) {
	t := n.coord.Term()
	if t == 0 {
		return
	}
	if holder, ok := w.cluster.truth.office[t]; !ok {
		w.editCluster().truth.office[t] = n.id
	} else if holder != n.id {
		w.fail("S7: %d is in office in term %v, and %d was", n.id, t, holder)
	}
}

func noteWritten(w *world, records []protocol.Record) {
	for _, r := range records {
		w.editCluster().truth.written[protocol.ShardToken{Shard: r.Shard, Token: r.Token}] = true
	}
}

// checkOrder: no order to start a shard leaves before its record is acknowledged.
func checkOrder(w *world, n *node, e coordinator.Send) {
	m, ok := e.Msg.(*protocol.HostShards)
	if !ok {
		return
	}
	for _, o := range m.Shards {
		if !w.cluster.truth.written[protocol.ShardToken{Shard: o.Shard, Token: o.Token}] {
			w.fail("S8: %d orders shard %v under %v before its record is acknowledged", n.id, o.Shard, o.Token)
		}
	}
}

// checkStart: tokens only grow, a shard starts nowhere while another node has it, and its state
// is the newest.
func checkStart(w *world, n *node, e region.StartShard) {
	if !n.lease {
		w.fail("S1: %d starts shard %v without a lease", n.id, e.Shard)
	}
	if n.tenants[e.Shard] != nil {
		w.fail("S1: %d starts shard %v twice", n.id, e.Shard)
	}
	taken := stateOf{e.Shard, e.Ended, e.From}
	takes := e.From != 0 && n.held[taken]
	delete(n.held, taken)
	if !w.isBound(n) {
		return
	}
	for _, o := range w.nodes {
		if t := o.tenants[e.Shard]; o != n && w.isBound(o) && t != nil {
			w.fail("S1: shard %v starts at %d under %v while %d has it under %v (stopping: %v)", e.Shard, n.id, e.Token, o.id, t.token, t.stopping)
		}
	}
	past := &w.cluster.truth
	if !past.begun[e.Shard].Less(e.Token) {
		w.fail("S7: shard %v starts at %d under %v, after %v", e.Shard, n.id, e.Token, past.begun[e.Shard])
	}
	switch last := past.begun[e.Shard]; {
	case past.misjudged:
	case takes && e.Ended != last:
		w.fail("G9: shard %v starts at %d with the state of %v, and %v was the last", e.Shard, n.id, e.Ended, last)
	case !takes && !last.IsZero() && !past.faulty:
		w.fail("G9: shard %v starts at %d without the state of %v", e.Shard, n.id, last)
	}
	w.editCluster().truth.begun[e.Shard] = e.Token
}

// checkStop: a stop handler needs a lease, and a shard moves when all routes to it are closed.
func checkStop(w *world, n *node, e region.StopShard) {
	t := n.tenants[e.Shard]
	if t == nil || t.token != e.Token {
		return // it has stopped before
	}
	if !n.lease {
		w.fail("S1: the stop handler of shard %v runs at %d without a lease", e.Shard, n.id)
	}
	if e.To == 0 {
		return
	}
	n.stoppedFor[e.Shard] = e.Token
	for _, o := range w.nodes {
		if h, open := o.reg.Route(e.Shard); open && h.Node == n.id && h.Token == e.Token && w.isBound(o) && w.isBound(n) && w.cluster.newest.Member(o.id) != nil {
			w.fail("G9: shard %v stops at %d for a move while the route of %d is open", e.Shard, n.id, o.id)
		}
	}
}

// checkTrail: a message of a closed route is handled before its shard stops for a move.
func checkTrail(w *world, n *node, from gossip.NodeID, st protocol.ShardToken) {
	sender := w.nodes[w.index(from)]
	if w.isBound(sender) && w.isBound(n) && w.cluster.newest.Member(from) != nil && !n.stoppedFor[st.Shard].Less(st.Token) && n.stoppedFor[st.Shard] == st.Token {
		w.fail("S3: a message of %d for shard %v under %v comes to %d behind the end of the shard", from, st.Shard, st.Token, n.id)
	}
}

// checkServed: in the end every shard that was wanted runs, where its coordinator has it, and all
// routes lead there.
func checkServed(w *world) string {
	boss := w.boss()
	if boss == nil || !boss.coord.Settled() {
		return "no coordinator is in office and settled"
	}
	homes := boss.coord.Homes()
	for _, h := range homes {
		o := w.nodes[w.index(h.Node)]
		if t := o.tenants[h.Shard]; !o.hasEffect(h.Shard) || t.token != h.Token {
			return fmt.Sprintf("shard %v does not run at %d under %v", h.Shard, h.Node, h.Token)
		}
		if from := w.cluster.newest.TokensFrom; h.Token.Term.Generation() < from {
			return fmt.Sprintf("G2: shard %v keeps the token %v below generation %d", h.Shard, h.Token, from)
		}
		for _, n := range w.nodes {
			if r, open := n.reg.Route(h.Shard); w.serves(n) && open && (r.Node != h.Node || r.Token != h.Token) {
				return fmt.Sprintf("the route of %d to shard %v leads to %d, its home is %d", n.id, h.Shard, r.Node, h.Node)
			}
		}
	}
	if len(homes) < shards && w.cluster.newest.Yields() == nil {
		return fmt.Sprintf("%d of %d shards have a home", len(homes), shards)
	}
	return ""
}

// boss returns the node in office under the newest term.
func (w *world) boss() (boss *node) {
	for _, n := range w.nodes {
		if w.serves(n) && n.coord.Term() != 0 && (boss == nil || n.coord.Term() > boss.coord.Term()) {
			boss = n
		}
	}
	return boss
}

func (w *world) serves(n *node) bool { return n.alive && w.cluster.newest.Member(n.id) != nil }
