package view

import (
	"fmt"
	"github.com/peerage-go/peerage/gossip"
	"slices"
	"testing"
	"time"
)

// cluster forms a cluster of n nodes with ids 1 to n, in that order of seniority.
func cluster(t testing.TB, n int) *world { return grow(newWorld(t), n) }

func grow(w *world, n int) *world {
	w.add(1)
	w.step(1, Form{Generation: 100, Secret: [2]uint64{7, 8}})
	for id := gossip.NodeID(2); id <= gossip.NodeID(n); id++ {
		w.join(id)
		w.until(5*time.Second, fmt.Sprintf("node %d is up", id), func() bool { return w.allUp(int(id)) })
	}
	w.until(5*time.Second, "all hold leases", func() bool { return w.allHold() })
	for _, a := range w.order {
		for _, b := range w.order {
			if a != b {
				w.step(a, Link{Subject: b, Up: true})
			}
		}
	}
	return w
}

// join adds a node that sends join requests to every member.
func (w *world) join(id gossip.NodeID) *simNode {
	n := w.add(id)
	w.step(id, Contacts{Nodes: w.contacts()})
	return n
}

func (w *world) contacts() []gossip.Node {
	var out []gossip.Node
	for _, n := range w.living() {
		if n.core.View() != nil {
			out = append(out, n.core.cfg.Self)
		}
	}
	return out
}

func (w *world) living() []*simNode {
	var out []*simNode
	for _, id := range w.order {
		if n := w.nodes[id]; !n.down && n.removed == nil {
			out = append(out, n)
		}
	}
	return out
}

// allUp reports whether all living nodes hold one view of n up members.
func (w *world) allUp(n int) bool {
	for _, x := range w.living() {
		v := x.core.View()
		if v == nil || len(v.Members) != n || slices.ContainsFunc(v.Members, func(m gossip.Member) bool { return m.Status != gossip.Up }) {
			return false
		}
	}
	return true
}

func (w *world) allHold() bool {
	return !slices.ContainsFunc(w.living(), func(n *simNode) bool { return !w.holds(n) })
}

// crash stops nodes for good.
func (w *world) crash(ids ...gossip.NodeID) {
	for _, id := range ids {
		w.nodes[id].down = true
		w.truth.dead[id] = true
		w.note("crash of %d", id)
	}
}

// kill crashes nodes; the living nodes receive the proof after the delay.
func (w *world) kill(proofAfter time.Duration, ids ...gossip.NodeID) {
	w.crash(ids...)
	for _, n := range w.living() {
		for _, id := range ids {
			w.step(n.id, Link{Subject: id, Up: false})
			w.at(proofAfter, func() { w.step(n.id, ProvenDead{Subject: id, Reason: "refused", Certain: true}) })
		}
	}
}

func (w *world) pause(ids ...gossip.NodeID) {
	for _, id := range ids {
		w.nodes[id].paused = true
		w.note("pause of %d", id)
	}
}

// resume wakes nodes: messages that arrived meanwhile are delivered in order, after the
// timer or before it.
func (w *world) resume(ids ...gossip.NodeID) {
	for _, id := range ids {
		n := w.nodes[id]
		if !n.paused {
			continue
		}
		n.paused = false
		w.note("resume of %d", id)
		held := n.held
		n.held = nil
		if len(held) > 1 && w.chance(50) {
			held = append(held[1:], held[0])
		}
		for i, run := range held {
			w.at(time.Duration(i)*time.Microsecond, run)
		}
	}
}

// cutOff isolates nodes from all other nodes, in both directions.
func (w *world) cutOff(ids ...gossip.NodeID) {
	w.cut = func(from, to gossip.NodeID) bool { return slices.Contains(ids, from) != slices.Contains(ids, to) }
}
