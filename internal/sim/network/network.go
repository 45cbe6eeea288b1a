// Package network is the modelled network of a run, with its faults. It guarantees exactly what
// internal/transport guarantees: frames of one class to one peer arrive in order or not at all;
// a lost connection loses any suffix of what was sent; nothing read from a connection counts
// once the peer has opened a newer one, or a later incarnation of its process has (late.go, endpoint.go).
//
// Between hosts a path can be open, dropping (connections stall, then time out) or rejecting
// (connections break, dials are refused), each way on its own. In some runs control messages
// travel as datagrams, and frames are damaged on the way (corruptor.go).
package network

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// Network connects the hosts of a run.
type Network struct {
	run       *run.Run
	fabric    *fabric
	endpoints *endpoints
}

// New returns the network of a run, with all paths open. Apart reports whether nothing may pass
// between two hosts yet.
func New(r *run.Run, apart func(a, b int) bool) *Network {
	return &Network{run: r, fabric: newFabric(r, apart), endpoints: &endpoints{onHost: make([]*Endpoint, r.Config.Nodes), byID: map[gossip.NodeID]*Endpoint{}}}
}

// Attach connects a process that starts on a host.
func (n *Network) Attach(id Identity, t *virtual.Thread, r Receiver) *Endpoint {
	e := newEndpoint(n.fabric, n.endpoints, id, t, r)
	n.fabric.machines[id.Slot].down, n.fabric.machines[id.Slot].tenant = false, false
	return e
}

// Paths returns what happens to packets from a host, by destination.
func (n *Network) Paths(from int) []Block { return n.fabric.machines[from].paths }

// Blocked returns the worse of the two paths between hosts.
func (n *Network) Blocked(a, b int) Block { return n.fabric.blocked(a, b) }

// SetPath changes one direction between two hosts.
func (n *Network) SetPath(from, to int, b Block) {
	b, changed := n.fabric.setPath(from, to, b)
	if !changed {
		return
	}
	for _, c := range n.endpoints.between(from, to) {
		c.onPath(from, to, b)
	}
}

// SetBoth changes both directions between two hosts.
func (n *Network) SetBoth(a, b int, to Block) {
	n.SetPath(a, b, to)
	n.SetPath(b, a, to)
}

// PartHosts drops what hosts send that must not meet yet, before any connection exists.
func (n *Network) PartHosts() {
	for i := range n.fabric.machines {
		for j := range n.fabric.machines {
			if n.fabric.apart(i, j) {
				n.fabric.machines[i].paths[j] = Drop
				n.fabric.recordPath(i, j, Drop)
			}
		}
	}
}

// OpenAll heals every path.
func (n *Network) OpenAll() {
	for i := range n.fabric.machines {
		for j := range n.fabric.machines {
			n.SetPath(i, j, Open)
		}
	}
}

// CutOff splits the hosts into those in side and the rest.
func (n *Network) CutOff(side map[int]bool, b Block, oneWay bool) {
	for i := range n.fabric.machines {
		for j := range n.fabric.machines {
			if side[i] && !side[j] {
				n.SetPath(i, j, b)
				if !oneWay {
					n.SetPath(j, i, b)
				}
			}
		}
	}
}

// SetPower switches the machine of a host on or off.
func (n *Network) SetPower(slot int, on bool) { n.fabric.machines[slot].down = !on }

// PoweredOff reports whether the machine of a host is switched off.
func (n *Network) PoweredOff(slot int) bool { return n.fabric.machines[slot].down }

// LetAddress gives the address of a host without a process to one of another cluster, until a
// process starts there again. It reports whether it did.
func (n *Network) LetAddress(slot int) bool {
	m := &n.fabric.machines[slot]
	m.tenant = n.endpoints.onHost[slot] == nil && !m.down
	return m.tenant
}

// Delivered returns how many frames processes have handled.
func (n *Network) Delivered() int { return n.endpoints.delivered }

// Connections returns the live connections of all processes in a fixed order.
func (n *Network) Connections() []*Conn {
	return n.endpoints.connections()
}
