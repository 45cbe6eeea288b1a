package transport

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// Network is a network in memory, for tests: of Peerage, and of programs that
// embed it. Transports on it behave as TCP does: they run the same code above
// connections and datagrams that this type imitates, with faults on request
// (memory_faults.go). It owns no goroutine and uses only package time's clock, so it
// works in a bubble of testing/synctest; make it inside the bubble. Build it with
// NewNetwork. All methods are safe for concurrent use.
type Network struct {
	cfg NetworkConfig

	// mu guards the whole network: hosts, connections, paths. With one lock every fault
	// takes effect at one instant.
	mu sync.Mutex
	// changed is signalled when anything changes that a dial may wait for.
	changed *sync.Cond
	rng     *rand.Rand
	hosts   map[string]*memHost
	// lingering are the nodes that no longer accept connections but still hold their port
	// of datagrams.
	lingering map[string]*memHost
	ends      map[*memConn]struct{}
	paths     map[[2]string]Path
	usual     Path
	lastIP    int
}

// NetworkConfig configures a Network. Zero fields stand for their defaults.
type NetworkConfig struct {
	// Seed feeds loss, jitter and duplication.
	Seed uint64
	// SocketBytes is how much a connection holds in each direction before a write
	// blocks. Default 1 MiB.
	SocketBytes int
	// UnackedTimeout is TCPConfig.UnackedTimeout. Default 5 s.
	UnackedTimeout time.Duration
}

// MemoryConfig configures Network.Transport.
type MemoryConfig struct {
	Config
	// Listen is the host:port of the node in this network. Default: a new one of
	// 10.0.0.0/8, port 7101.
	Listen string
}

// memoryTransport is a Transport on a Network. All methods are safe for concurrent use.
type memoryTransport struct {
	*engine
}

var _ Transport = (*memoryTransport)(nil)

// NewNetwork returns a network without nodes, on which all paths are perfect.
func NewNetwork(cfg NetworkConfig) *Network {
	orDefault(&cfg.SocketBytes, 1<<20)
	orDefault(&cfg.UnackedTimeout, 5*time.Second)
	n := &Network{
		cfg:   cfg,
		rng:   rand.New(rand.NewPCG(cfg.Seed, 1)),
		hosts: make(map[string]*memHost), lingering: make(map[string]*memHost),
		ends:  make(map[*memConn]struct{}),
		paths: make(map[[2]string]Path),
	}
	n.changed = sync.NewCond(&n.mu)
	return n
}

// Transport returns a new node's transport. Errors: those of Config.Validate, and
// syscall.EADDRINUSE while another node listens there; a crashed one does not.
func (n *Network) Transport(cfg MemoryConfig) (*memoryTransport, error) {
	cfg.Config = cfg.Config.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if cfg.Listen == "" {
		n.lastIP++
		cfg.Listen = fmt.Sprintf("10.%d.%d.%d:7101", n.lastIP>>16&255, n.lastIP>>8&255, n.lastIP&255)
	}
	if h := n.hosts[cfg.Listen]; h != nil && !h.dead {
		return nil, opError("listen", cfg.Listen, os.NewSyscallError("bind", syscall.EADDRINUSE))
	}
	h := &memHost{n: n, addr: cfg.Listen, ready: sync.NewCond(&n.mu)}
	h.e = newEngine(cfg.Config, cfg.Listen, h)
	h.e.credentials.authenticated = true // no stranger is on a network in memory
	n.hosts[cfg.Listen] = h
	n.recheck()
	return &memoryTransport{h.e}, nil
}

// memHost is one node's place in the network: its listener and its datagrams.
type memHost struct {
	n    *Network
	addr string
	e    *engine

	// All fields below are guarded by n.mu. ready is signalled when there may be
	// something to accept or to read.
	ready   *sync.Cond
	closed  bool
	mute    bool // datagrams have ended as well
	paused  bool
	dead    bool // its process has ended and does nothing
	backlog []*memConn
	packets []memPacket
}

// backlogMax is how many connections wait to be accepted. The kernel finishes 17
// handshakes for a stopped process on loopback (measured); a live one accepts faster than
// they arrive.
const backlogMax = 17

// memAddr is an address on a Network.
type memAddr string

func (memAddr) Network() string  { return "tcp" }
func (a memAddr) String() string { return string(a) }

func opError(op, addr string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Addr: memAddr(addr), Err: err}
}

// dial imitates connect(2): refused if nothing listens, silent behind a cut or at a host
// without power, slow if a backlog is full.
func (h *memHost) dial(ctx context.Context, addr string) (net.Conn, error) {
	n := h.n
	defer context.AfterFunc(ctx, n.wakeAll)()
	n.mu.Lock()
	defer n.mu.Unlock()
	travelled := false
	for {
		if h.closed {
			return nil, opError("dial", addr, net.ErrClosed)
		}
		if ctx.Err() != nil {
			return nil, opError("dial", addr, ctx.Err())
		}
		there, back := n.currentPath(h.addr, addr), n.currentPath(addr, h.addr)
		target := n.hosts[addr]
		switch {
		case h.stuck() || there.Cut == Dropped:
			n.changed.Wait()
		case there.Cut >= Rejected: // whatever the way back: the firewall is on this side of it
			return nil, opError("dial", addr, os.NewSyscallError("connect", syscall.ECONNREFUSED))
		case back.Cut != Open, target != nil && (target.dead || len(target.backlog) >= backlogMax):
			n.changed.Wait()
		case !travelled && there.Latency+back.Latency > 0:
			travelled = true
			n.mu.Unlock()
			h.sleep(ctx, there.Latency+back.Latency)
			n.mu.Lock()
		case target == nil:
			return nil, opError("dial", addr, os.NewSyscallError("connect", syscall.ECONNREFUSED))
		default:
			return n.join(h, target), nil
		}
	}
}

func (h *memHost) sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// stuck reports whether this host is paused or dead.
func (h *memHost) stuck() bool { return h.paused || h.dead }

// join makes a connection and queues its far end to be accepted.
func (n *Network) join(from, to *memHost) net.Conn {
	a, b := newMemConn(from), newMemConn(to)
	a.peer, b.peer = b, a
	n.ends[a], n.ends[b] = struct{}{}, struct{}{}
	to.backlog = append(to.backlog, b)
	to.ready.Broadcast()
	return a
}

func (h *memHost) accept() (net.Conn, error) {
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	for !h.closed && (h.stuck() || len(h.backlog) == 0) {
		h.ready.Wait()
	}
	if h.closed {
		return nil, opError("accept", h.addr, net.ErrClosed)
	}
	c := h.backlog[0]
	h.backlog = h.backlog[1:]
	h.n.changed.Broadcast()
	return c, nil
}

func (h *memHost) closeListener() error {
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	h.closed = true
	if h.n.hosts[h.addr] == h && !h.dead {
		delete(h.n.hosts, h.addr)
		h.n.lingering[h.addr] = h
	}
	for _, c := range h.backlog {
		c.closeLocked()
	}
	h.backlog = nil
	h.ready.Broadcast()
	h.n.changed.Broadcast()
	return nil
}

func (h *memHost) closePackets() error {
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	h.mute, h.packets = true, nil
	if h.n.lingering[h.addr] == h {
		delete(h.n.lingering, h.addr)
	}
	h.ready.Broadcast()
	h.n.changed.Broadcast()
	return nil
}

// inquire imitates beacons: the process answers, and the host of a dead one refuses. A
// firewall refuses in the host's name if the path is Forged; on a Rejected path nothing
// valid returns.
func (h *memHost) inquire(ctx context.Context, p Peer, _ beaconNonce) (q Inquiry) {
	n := h.n
	at := memIP(p.Addr)
	n.mu.Lock()
	there, back := n.currentPath(h.addr, p.Addr), n.currentPath(p.Addr, h.addr)
	d := there.delay(n.rng) + back.delay(n.rng)
	lost := n.chance(there.Loss) || n.chance(back.Loss)
	n.mu.Unlock()
	h.sleep(ctx, d)
	n.mu.Lock()
	target := n.hosts[p.Addr]
	if target == nil {
		target = n.lingering[p.Addr]
	}
	if there, back = n.currentPath(h.addr, p.Addr), n.currentPath(p.Addr, h.addr); !lost && ctx.Err() == nil && !h.mute && !h.stuck() {
		switch {
		case there.Cut == Forged, there.Cut == Open && back.Cut == Open && target == nil:
			q = Inquiry{Asked: at, Outcome: PortUnreachable, By: at, TTL: memTTL}
		case there.Cut == Open && back.Cut == Open && !target.stuck() && target.e.Self().ID == p.ID:
			q = Inquiry{Asked: at, Outcome: Answered, By: at, TTL: memTTL}
		}
	}
	n.mu.Unlock()
	if q.Outcome == Unanswered {
		<-ctx.Done()
		q.Asked = at
	}
	return q
}

const memTTL = 64

// memIP is the address of a node of this network, one of the loopback interface if it has
// a name.
func memIP(addr string) netip.Addr {
	if at, err := netip.ParseAddrPort(addr); err == nil {
		return at.Addr()
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

// wakeAll makes all waiters check the network again.
func (n *Network) wakeAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.changed.Broadcast()
}
