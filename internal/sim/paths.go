package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/internal/transport"
)

// host is a machine: it keeps its address while processes come and go.
type host struct {
	proc *proc
	// down is a machine without power: nothing answers, not even a refusal.
	down bool
	// expected hosts must all answer before a cluster is formed. A host is expected from
	// its first start, which for most is the beginning of the run.
	expected bool
	// stay keeps the host empty: its process is not started again.
	stay    bool
	block   []block
	latency []time.Duration
	lives   int
	// rejoins: the process that was removed here is about to start its next incarnation.
	rejoins bool
	// wallAhead is by how many seconds the host's wall clock is ahead, generation the
	// highest that is in the host's file.
	wallAhead  int64
	generation uint32
	// clockAhead is how far the clock that stamps the register is ahead.
	clockAhead time.Duration
	// files are those of durable keys, by store. diskFails: nothing can be stored.
	files     []file
	diskFails bool
	// former are the nodes that ran here before.
	former []gossip.Node
}

// conns returns the live connections of all processes in a fixed order.
func (w *world) conns() []*conn {
	var all []*conn
	for i := range w.hosts {
		if p := w.hosts[i].proc; p != nil {
			all = append(all, p.conns()...)
		}
	}
	return all
}

// conns returns the process's outgoing connections in a fixed order.
func (p *proc) conns() []*conn {
	all := make([]*conn, 0, len(p.out))
	for _, c := range p.out {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *conn) int {
		return cmp.Or(cmp.Compare(a.to.node.ID, b.to.node.ID), cmp.Compare(a.class, b.class))
	})
	return all
}

// setPath changes one direction between two hosts.
func (w *world) setPath(from, to int, b block) {
	if b == open && w.parted(from, to) {
		b = drop
	}
	if from == to || w.hosts[from].block[to] == b {
		return
	}
	w.hosts[from].block[to] = b
	for _, c := range w.conns() {
		if c.from.slot != from && c.to.slot != from || c.from.slot != to && c.to.slot != to {
			continue
		}
		switch {
		case b == reject && c.state == up:
			c.reset()
		case b == open && c.from.slot == from && c.to.slot == to:
			c.resume()
		}
	}
}

// openAll heals every path.
func (w *world) openAll() {
	for i := range w.hosts {
		for j := range w.hosts {
			w.setPath(i, j, open)
		}
	}
}

// cutOff splits the hosts into those in side and the rest.
func (w *world) cutOff(side map[int]bool, b block, oneWay bool) {
	for i := range w.hosts {
		for j := range w.hosts {
			if side[i] && !side[j] {
				w.setPath(i, j, b)
				if !oneWay {
					w.setPath(j, i, b)
				}
			}
		}
	}
}

// gone breaks the connections of a process that ended.
// Its kernel notifies the peers, unless the machine crashed with the process.
func (w *world) gone(p *proc) {
	for _, c := range p.conns() {
		if c.state == up && !w.hosts[p.slot].down && (w.netRand.Coin() || w.swarm.lateBytes) {
			// The kernel still sends the bytes that it had taken, then the end of the stream.
			c.linger()
			continue
		}
		c.state = dead
		c.ended()
	}
	for _, c := range w.conns() {
		if c.to == p && c.state == up {
			w.After(w.hosts[p.slot].latency[c.from.slot], func() {
				if c.state == up && c.stalled == virtual.Never {
					c.orphaned()
				}
			})
		}
	}
}

// peerEvent reports an event of a connection to a process.
func (p *proc) peerEvent(typ transport.PeerEventType, class transport.Class, peer, former nodeID) {
	if !p.alive {
		return
	}
	p.run(func() { p.onPeer(typ, class, peer, former) })
}
