package discovery

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/peerage-go/peerage/internal/transport"
)

// packetQueue is how many datagrams wait for memberlist; more are dropped.
const packetQueue = 1024

var errGossipClosed = errors.New("gossip: discovery is closed")

// gossipTransport carries memberlist's traffic on our transport and port. It follows
// memberlist's unwritten rules: a write never blocks, and never fails because a peer is
// absent.
type gossipTransport struct {
	t    transport.Transport
	ip   net.IP
	port int
	gate *packetGate
	st   *Counters

	packets chan *memberlist.Packet
	streams chan net.Conn
	stop    chan struct{}
	pumps   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	// open holds the streams that memberlist uses: closing them ends its waits. accepted
	// counts those opened by other nodes.
	open     map[*gossipConn]struct{}
	accepted int
}

func newGossipTransport(t transport.Transport, ip net.IP, port int, gate *packetGate, st *Counters) *gossipTransport {
	g := &gossipTransport{
		t: t, ip: ip, port: port, gate: gate, st: st,
		packets: make(chan *memberlist.Packet, packetQueue),
		streams: make(chan net.Conn),
		stop:    make(chan struct{}),
		open:    map[*gossipConn]struct{}{},
	}
	g.pumps.Go(g.pumpPackets)
	g.pumps.Go(g.pumpStreams)
	return g
}

func (g *gossipTransport) pumpPackets() {
	for {
		select {
		case p, ok := <-g.t.Packets():
			if !ok {
				return
			}
			g.st.PacketIn.Count(len(p.Data))
			if !g.gate.admitPacket(&p) {
				continue
			}
			select {
			case g.packets <- &memberlist.Packet{Buf: p.Data, From: p.From, Timestamp: p.Time}:
			default:
				g.st.PacketsDropped.Add(1)
			}
		case <-g.stop:
			return
		}
	}
}

func (g *gossipTransport) pumpStreams() {
	for {
		select {
		case c, ok := <-g.t.Streams():
			if !ok {
				return
			}
			wrapped := g.adoptStream(c, true)
			if wrapped == nil {
				continue
			}
			select {
			case g.streams <- wrapped:
			case <-g.stop:
				_ = wrapped.Close()
				return
			}
		case <-g.stop:
			return
		}
	}
}

// adoptStream registers a stream. After Shutdown, or when too many accepted streams are open,
// it closes the stream and returns nil.
func (g *gossipTransport) adoptStream(c net.Conn, accepted bool) *gossipConn {
	w := &gossipConn{Conn: c, g: g, in: newGatedReader(c), accepted: accepted}
	g.mu.Lock()
	refused := g.closed
	if accepted && !refused && g.accepted >= streamsOpenMost {
		refused = true
		g.st.StreamsRefused.Add(1)
	}
	if !refused {
		g.open[w] = struct{}{}
		if accepted {
			g.accepted++
		}
	}
	g.mu.Unlock()
	if refused {
		_ = c.Close()
		return nil
	}
	return w
}

// FinalAdvertiseAddr implements memberlist.Transport.
func (g *gossipTransport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return g.ip, g.port, nil
}

// WriteTo implements memberlist.Transport.
func (g *gossipTransport) WriteTo(b []byte, addr string) (time.Time, error) {
	g.mu.Lock()
	closed := g.closed
	g.mu.Unlock()
	if closed {
		return time.Time{}, errGossipClosed
	}
	now := time.Now()
	g.st.PacketOut.Count(len(b))
	// Report no error for a lost datagram: memberlist would abandon the probe and suspect
	// no node.
	_ = g.t.WritePacket(b, addr)
	return now, nil
}

// WriteToAddress implements memberlist.NodeAwareTransport.
func (g *gossipTransport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return g.WriteTo(b, a.Addr)
}

// DialTimeout implements memberlist.Transport.
func (g *gossipTransport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	g.mu.Lock()
	closed := g.closed
	g.mu.Unlock()
	if closed {
		return nil, errGossipClosed
	}
	c, err := g.t.DialStream(addr, timeout)
	if err != nil {
		return nil, err
	}
	w := g.adoptStream(c, false)
	if w == nil {
		return nil, errGossipClosed
	}
	return w, nil
}

// DialAddressTimeout implements memberlist.NodeAwareTransport.
func (g *gossipTransport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return g.DialTimeout(a.Addr, timeout)
}

// PacketCh implements memberlist.Transport.
func (g *gossipTransport) PacketCh() <-chan *memberlist.Packet { return g.packets }

// StreamCh implements memberlist.Transport.
func (g *gossipTransport) StreamCh() <-chan net.Conn { return g.streams }

// Shutdown implements memberlist.Transport: it ends the pumps and closes every
// stream. The transport below stays open.
func (g *gossipTransport) Shutdown() error {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil
	}
	g.closed = true
	open := g.open
	g.open = nil
	g.mu.Unlock()
	close(g.stop)
	for c := range open {
		_ = c.Conn.Close()
	}
	g.pumps.Wait()
	return nil
}

// gossipConn is a stream that memberlist uses.
type gossipConn struct {
	net.Conn
	g        *gossipTransport
	in       *gatedReader
	accepted bool
	refused  bool
}

func (c *gossipConn) Read(b []byte) (int, error) {
	n, err := c.in.Read(b)
	c.g.st.StreamIn.Count(n)
	if errors.Is(err, errStreamForm) && !c.refused {
		c.refused = true
		c.g.st.StreamsRefused.Add(1)
	}
	return n, err
}

func (c *gossipConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.g.st.StreamOut.Count(n)
	return n, err
}

func (c *gossipConn) Close() error {
	c.g.mu.Lock()
	if _, open := c.g.open[c]; open {
		delete(c.g.open, c)
		if c.accepted {
			c.g.accepted--
		}
	}
	c.g.mu.Unlock()
	return c.Conn.Close()
}
