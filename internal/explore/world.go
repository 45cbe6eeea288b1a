package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"reflect"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/explore/snapshot"
	"github.com/peerage-go/peerage/sharding/strategy"
)

func newCamera() *snapshot.Camera {
	const core = "github.com/peerage-go/peerage/internal/core/"
	return snapshot.New([]reflect.Type{
		reflect.TypeFor[*gossip.View](), reflect.TypeFor[protocol.Message](), reflect.TypeFor[strategy.Strategy](), reflect.TypeFor[*operation](),
	}, []string{
		// Step sets the time before anything reads it. Configurations never change.
		core + "coordinator.env.now", core + "coordinator.env.cfg",
		core + "region.env.now", core + "region.env.cfg",
	})
}

func sum(b []byte) digest {
	s := sha256.Sum256(b)
	return digest(s[:16])
}

// branch returns a copy that shares everything with w until it changes.
func (w *world) branch() *world {
	next := *w
	next.own, next.ownCluster = [nodes]bool{}, false
	return &next
}

// seal computes the digests of what has changed.
func (w *world) seal() {
	for i := range w.nodes {
		if w.own[i] {
			w.ids[i] = digestOf(w.x, w.nodes[i])
		}
	}
	if w.ownCluster {
		w.past = digestOf(w.x, w.cluster)
	}
}

func digestOf[T any](x *explorer, v *T) digest {
	x.buf = snapshot.Append(x.camera, x.buf[:0], v)
	return sum(x.buf)
}

// edit returns a node that this state may modify.
func (w *world) edit(i int) *node {
	if !w.own[i] {
		w.nodes[i], w.own[i] = snapshot.Copy(w.x.camera, w.nodes[i]), true
	}
	return w.nodes[i]
}

func (w *world) editCluster() *cluster {
	if !w.ownCluster {
		w.cluster, w.ownCluster = snapshot.Copy(w.x.camera, w.cluster), true
	}
	return w.cluster
}

// digest covers all on which the future of a state depends, and the record of the checks.
func (w *world) digest() digest {
	b := w.x.buf[:0]
	b = binary.AppendUvarint(b, uint64(w.now))
	for i := range w.ids {
		b = append(b, w.ids[i][:]...)
	}
	b = append(b, w.past[:]...)
	for l := range w.links {
		for i := range w.links[l] {
			for j := range w.links[l][i] {
				b = append(b, byte(len(w.links[l][i][j])))
				for _, f := range w.links[l][i][j] {
					b = append(b, f.id[:]...)
				}
			}
		}
	}
	for _, f := range w.late {
		b = append(append(b, byte(f.from), byte(f.to)), f.id[:]...)
	}
	b = append(b, byte(w.left), byte(w.wishes))
	w.x.buf = b
	return sum(b)
}

func (w *world) index(id gossip.NodeID) int { return int(id) - 1 }

// connected reports whether messages pass between two nodes.
func (w *world) connected(i, j int) bool {
	return w.nodes[i].alive && w.nodes[j].alive && (i == j || !w.nodes[i].cut && !w.nodes[j].cut)
}

// push queues a message. Messages to nodes that cannot be reached are lost.
func (w *world) push(l class, n *node, to gossip.NodeID, msg any) {
	i, j := w.index(n.id), w.index(to)
	if j < 0 || !w.connected(i, j) {
		return
	}
	if i == j {
		l = control // a node's own queue keeps one order
	}
	q := w.links[l][i][j]
	w.links[l][i][j] = append(q[:len(q):len(q)], flight{msg, digestOf(w.x, &msg)})
}

// popFlight takes the first message of a link.
func (w *world) popFlight(l class, i, j int) flight {
	f := w.links[l][i][j][0]
	if w.links[l][i][j] = w.links[l][i][j][1:]; len(w.links[l][i][j]) == 0 {
		w.links[l][i][j] = nil
	}
	return f
}

// dropLinks loses all messages to a node and from it, but not its own.
func dropLinks(w *world, i int) {
	for l := range w.links {
		for j := range nodes {
			if j != i {
				w.links[l][i][j], w.links[l][j][i] = nil, nil
			}
		}
	}
}

func (w *world) logLine(format string, args ...any) {
	if w.x.loud {
		w.x.lines = append(w.x.lines, fmt.Sprintf("%8.1fms ", float64(w.now-1)/1e6)+fmt.Sprintf(format, args...))
	}
}
