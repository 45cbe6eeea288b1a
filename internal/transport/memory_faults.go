package transport

import (
	"math/rand/v2"
	"net"
	"time"
)

// Path is the way from one address to another. The zero Path is perfect.
type Path struct {
	// Latency is the delay of all traffic, Jitter the bound of a random addition.
	// Connections keep their order.
	Latency, Jitter time.Duration
	// Loss and Duplication are the shares of datagrams, 0 to 1, that are lost or arrive
	// twice. Loss delays the bytes of connections as retransmission would.
	Loss, Duplication float64
	// Corruption is the share of writes to connections in which a bit flips.
	Corruption float64
	Cut        Cut
}

// Cut is the fate of traffic that enters a path.
type Cut uint8

const (
	// Open: it arrives.
	Open Cut = iota
	// Dropped: it is discarded silently. Dials hang, in both directions; connections
	// stall, and break after UnackedTimeout.
	Dropped
	// Rejected: a firewall on the way answers. Dials are refused, as if the far end did,
	// and a connection breaks when something is written to it. It rejects datagrams in
	// its own name, so its refusals differ from those of a dead process (Inquirer).
	Rejected
	// Forged: the firewall of the far end's own host does the same, datagrams included:
	// it cannot be distinguished from a host whose process has died.
	Forged
)

// delay draws a delay.
func (p Path) delay(rng *rand.Rand) time.Duration {
	if p.Jitter <= 0 {
		return p.Latency
	}
	return p.Latency + time.Duration(rng.Int64N(int64(p.Jitter)+1))
}

// SetPath sets the path from one address to another, in this direction only.
func (n *Network) SetPath(from, to string, p Path) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.paths[[2]string{from, to}] = p
	n.recheck()
}

// SetPaths sets the paths between two addresses, in both directions.
func (n *Network) SetPaths(a, b string, p Path) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.paths[[2]string{a, b}], n.paths[[2]string{b, a}] = p, p
	n.recheck()
}

// SetUsual sets all paths that were not set by address.
func (n *Network) SetUsual(p Path) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.usual = p
	n.recheck()
}

// Split cuts all paths between different groups of addresses; paths within a group
// and those of addresses in no group stay as they are.
func (n *Network) Split(cut Cut, groups ...[]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, group := range groups {
		for j, other := range groups {
			if i == j {
				continue
			}
			for _, a := range group {
				for _, b := range other {
					p := n.pathSet(a, b)
					p.Cut = cut
					n.paths[[2]string{a, b}] = p
				}
			}
		}
	}
	n.recheck()
}

// Heal opens all paths; their latency and loss stay.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for k, p := range n.paths {
		p.Cut = Open
		n.paths[k] = p
	}
	n.usual.Cut = Open
	n.recheck()
}

// Crash ends the process of the node at addr, as SIGKILL does: its connections
// end, and dials are refused. Its own transport receives nothing any longer: no event, no
// frame, no answer; Close it to free its goroutines. Another node may listen at the
// address immediately.
func (n *Network) Crash(addr string) { n.kill(addr, true) }

// PowerOff ends the node at addr with its host: no peer gets a reset, connections stall
// and dials hang. Otherwise it is Crash.
func (n *Network) PowerOff(addr string) { n.kill(addr, false) }

func (n *Network) kill(addr string, hostLives bool) {
	n.mu.Lock()
	h := n.hosts[addr]
	if h == nil || h.dead {
		n.mu.Unlock()
		return
	}
	if hostLives {
		for c := range n.ends {
			if c.host == h && !c.closed && c.failed == nil {
				c.sendLocked(segment{fin: true})
			}
		}
		delete(n.hosts, addr)
	}
	h.dead = true
	n.recheck()
	n.mu.Unlock()
	h.e.stopCalls()
}

// Pause stops the node at addr as SIGSTOP does, as far as a network can: nothing
// is read, written or accepted there until Resume, while its kernel keeps accepting
// connections and bytes until its buffers are full. The node's own timers keep running.
func (n *Network) Pause(addr string) { n.setPaused(addr, true) }

// Resume ends Pause.
func (n *Network) Resume(addr string) { n.setPaused(addr, false) }

func (n *Network) setPaused(addr string, paused bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if h := n.hosts[addr]; h != nil {
		h.paused = paused
		n.recheck()
	}
}

// pathSet returns the path as it was set.
func (n *Network) pathSet(from, to string) Path {
	if p, ok := n.paths[[2]string{from, to}]; ok {
		return p
	}
	return n.usual
}

// currentPath returns the path as it is: a host without power drops everything.
func (n *Network) currentPath(from, to string) Path {
	p := n.pathSet(from, to)
	for _, addr := range [2]string{from, to} {
		if h := n.hosts[addr]; h != nil && h.dead {
			p.Cut = Dropped
		}
	}
	return p
}

// wayOf returns the paths of a connection from one end to the other and back.
func (n *Network) wayOf(c *memConn) (there, back Path) {
	a, b := c.host.addr, c.peer.host.addr
	return n.currentPath(a, b), n.currentPath(b, a)
}

// recheck makes all connections check paths and hosts again.
func (n *Network) recheck() {
	for c := range n.ends {
		c.recheckLocked()
	}
	for _, h := range n.hosts {
		h.ready.Broadcast()
	}
	n.changed.Broadcast()
}

func (n *Network) chance(share float64) bool { return share > 0 && n.rng.Float64() < share }

// memPacket is a datagram that has arrived.
type memPacket struct {
	data []byte
	from string
}

// socketPackets is how many datagrams wait in a socket before more are lost.
const socketPackets = 1024

func (h *memHost) writePacket(b []byte, addr string) error {
	n := h.n
	n.mu.Lock()
	defer n.mu.Unlock()
	if h.closed {
		return net.ErrClosed
	}
	way := n.currentPath(h.addr, addr)
	if h.stuck() || way.Cut != Open || n.chance(way.Loss) {
		return nil
	}
	copies := 1
	if n.chance(way.Duplication) {
		copies = 2
	}
	for range copies {
		p := memPacket{data: append([]byte(nil), b...), from: h.addr}
		if d := way.delay(n.rng); d > 0 {
			time.AfterFunc(d, func() {
				n.mu.Lock()
				defer n.mu.Unlock()
				n.deliver(addr, p)
			})
		} else {
			n.deliver(addr, p)
		}
	}
	return nil
}

// deliver puts a datagram into the socket at addr, if there is one with room.
func (n *Network) deliver(addr string, p memPacket) {
	h := n.hosts[addr]
	if h == nil || h.dead || len(h.packets) >= socketPackets {
		return
	}
	h.packets = append(h.packets, p)
	h.ready.Broadcast()
}

func (h *memHost) readPacket(b []byte) (int, net.Addr, error) {
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	for !h.mute && (h.stuck() || len(h.packets) == 0) {
		h.ready.Wait()
	}
	if h.mute {
		return 0, nil, net.ErrClosed
	}
	p := h.packets[0]
	h.packets = h.packets[1:]
	return copy(b, p.data), memAddr(p.from), nil
}
