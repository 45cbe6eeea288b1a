package peerage

import (
	"time"

	"github.com/peerage-go/peerage/internal/transport"
)

// Network is a network in memory, for tests of programs that embed Peerage: see
// Config.Network. It behaves as TCP does, with faults on request.
//
// A Network owns no goroutine and uses only package time's clock, so it works in a bubble
// of testing/synctest; make it inside the bubble. Build it with NewNetwork. All methods are
// safe for concurrent use.
type Network struct{ memory *transport.Network }

// NetworkPath is the path from one address to another. The zero NetworkPath is perfect.
type NetworkPath struct {
	// Latency is the delay of all traffic, Jitter the bound of a random addition.
	// Connections keep their order.
	Latency, Jitter time.Duration
	// Loss and Duplication are the shares of datagrams, 0 to 1, that are lost or arrive
	// twice. Loss delays the bytes of connections as retransmission would.
	Loss, Duplication float64
	// Corruption is the share of writes to connections in which a bit flips.
	Corruption float64
	// Cut stops all traffic on the path.
	Cut NetworkCut
}

// NetworkCut is a way in which a path of a Network carries no traffic.
type NetworkCut uint8

const (
	// CutNone carries all traffic.
	CutNone = NetworkCut(transport.Open)
	// CutDropped discards traffic silently. Dials hang, in both directions; connections
	// stall, and break after 5 s.
	CutDropped = NetworkCut(transport.Dropped)
	// CutRejected is a firewall on the way that answers. Dials are refused, as if the far
	// end did, and a connection breaks when something is written to it. The firewall
	// rejects datagrams in its own name, so its refusals are no evidence of a crash.
	CutRejected = NetworkCut(transport.Rejected)
	// CutForged is the firewall of the far end's own host, which rejects datagrams as well
	// as dials: it cannot be distinguished from a host whose process has died.
	CutForged = NetworkCut(transport.Forged)
)

// NewNetwork returns a network without nodes, on which all paths are perfect. The seed
// feeds loss, jitter and duplication.
func NewNetwork(seed uint64) *Network {
	return &Network{transport.NewNetwork(transport.NetworkConfig{Seed: seed})}
}

// SetUsual sets all paths that were not set by address.
func (n *Network) SetUsual(p NetworkPath) { n.memory.SetUsual(p.toTransport()) }

// SetPath sets the path from one address to another, in this direction only.
func (n *Network) SetPath(from, to string, p NetworkPath) {
	n.memory.SetPath(from, to, p.toTransport())
}

// SetPaths sets the paths between two addresses, in both directions.
func (n *Network) SetPaths(a, b string, p NetworkPath) { n.memory.SetPaths(a, b, p.toTransport()) }

// Split cuts all paths between different groups of addresses. Paths within a group and
// those of addresses in no group stay as they are.
func (n *Network) Split(cut NetworkCut, groups ...[]string) {
	n.memory.Split(transport.Cut(cut), groups...)
}

// Heal opens all paths; their latency and loss stay.
func (n *Network) Heal() { n.memory.Heal() }

// Crash ends the process of the node at addr, as SIGKILL does: its connections end, and
// dials are refused. The node itself receives nothing any longer; Close it to free its
// goroutines. Another node may listen at the address immediately.
func (n *Network) Crash(addr string) { n.memory.Crash(addr) }

// PowerOff ends the node at addr with its host: no peer gets a reset, connections stall and
// dials hang. Otherwise it is Crash.
func (n *Network) PowerOff(addr string) { n.memory.PowerOff(addr) }

// Pause stops the node at addr as SIGSTOP does, as far as a network can: nothing is read,
// written or accepted there until Resume, while its kernel keeps accepting connections and
// bytes until its buffers are full. The node's own timers keep running.
func (n *Network) Pause(addr string) { n.memory.Pause(addr) }

// Resume ends Pause.
func (n *Network) Resume(addr string) { n.memory.Resume(addr) }

func (p NetworkPath) toTransport() transport.Path {
	return transport.Path{
		Latency: p.Latency, Jitter: p.Jitter, Loss: p.Loss, Duplication: p.Duplication,
		Corruption: p.Corruption, Cut: transport.Cut(p.Cut),
	}
}
