package transport

import (
	"io"
	"log"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

// carrier lets memberlist run on a node under test.
type carrier struct {
	*node
	packets chan *memberlist.Packet
	ended   chan struct{}
}

func newCarrier(n *node) *carrier {
	c := &carrier{node: n, packets: make(chan *memberlist.Packet), ended: make(chan struct{})}
	go func() {
		for {
			select {
			case p := <-n.Packets():
				select {
				case c.packets <- &memberlist.Packet{Buf: p.Data, From: p.From, Timestamp: p.Time}:
				case <-c.ended:
					return
				}
			case <-c.ended:
				return
			}
		}
	}()
	return c
}

func (c *carrier) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	host, port, err := net.SplitHostPort(c.Self().Addr)
	if err != nil {
		return nil, 0, err
	}
	p, err := strconv.Atoi(port)
	return net.ParseIP(host), p, err
}

func (c *carrier) WriteTo(b []byte, addr string) (time.Time, error) {
	return time.Now(), c.WritePacket(b, addr)
}

func (c *carrier) WriteToAddress(b []byte, addr memberlist.Address) (time.Time, error) {
	return c.WriteTo(b, addr.Addr)
}

func (c *carrier) DialTimeout(addr string, d time.Duration) (net.Conn, error) {
	return c.DialStream(addr, d)
}

func (c *carrier) DialAddressTimeout(addr memberlist.Address, d time.Duration) (net.Conn, error) {
	return c.DialStream(addr.Addr, d)
}

func (c *carrier) PacketCh() <-chan *memberlist.Packet { return c.packets }
func (c *carrier) StreamCh() <-chan net.Conn           { return c.Streams() }
func (c *carrier) Shutdown() error                     { close(c.ended); return c.Close() }

func TestMemberlistRunsOnIt(t *testing.T) {
	everywhere(t, func(w *world) {
		var lists []*memberlist.Memberlist
		var nodes []*node
		for i := range 3 {
			n := w.start(nodeID(i + 1))
			nodes = append(nodes, n)
			cfg := memberlist.DefaultLocalConfig()
			cfg.Name, cfg.Transport, cfg.Label = n.Self().Name, newCarrier(n), "test"
			cfg.Logger = log.New(io.Discard, "", 0)
			cfg.ProbeInterval, cfg.ProbeTimeout, cfg.SuspicionMult = 50*time.Millisecond, 20*time.Millisecond, 1
			cfg.GossipInterval, cfg.TCPTimeout = 10*time.Millisecond, 500*time.Millisecond
			cfg.EnableCompression = false
			l, err := memberlist.Create(cfg)
			if err != nil {
				w.Fatal(err)
			}
			lists = append(lists, l)
		}
		for _, l := range lists[1:] {
			if _, err := l.Join([]string{nodes[0].Self().Addr}); err != nil {
				w.Fatal(err)
			}
		}
		members := func(n int, of ...*memberlist.Memberlist) func() bool {
			return func() bool {
				for _, l := range of {
					if l.NumMembers() != n {
						return false
					}
				}
				return true
			}
		}
		w.poll("three members", members(3, lists...))
		if w.net != nil {
			w.net.Crash(nodes[2].addr())
		}
		if err := lists[2].Shutdown(); err != nil {
			w.Error(err)
		}
		w.poll("two members", members(2, lists[:2]...))
		for _, l := range lists[:2] {
			if err := l.Shutdown(); err != nil {
				w.Error(err)
			}
		}
		// Shutdown does not wait for its probes: give them their time-outs.
		nodes[0].within(time.Second, func() bool { return false })
	})
}
