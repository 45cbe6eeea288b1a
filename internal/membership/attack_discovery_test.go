package membership

import (
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/discovery/forge"
	"github.com/peerage-go/peerage/internal/transport"
)

// forgedAlive claims that a node lives at an address.
func forgedAlive(t *testing.T, n gossip.Node, ip net.IP, port int) []byte {
	t.Helper()
	return forge.Message(4, map[string]any{
		"Incarnation": uint32(1), "Node": n.Name + "-" + n.ID.String(), "Addr": []byte(ip.To4()), "Port": uint16(port),
		"Meta": metadata(&n), "Vsn": []byte{1, 5, 2, 0, 0, 0},
	})
}

// repeated returns n copies of a message.
func repeated(n int, message []byte) [][]byte {
	out := make([][]byte, n)
	for i := range out {
		out[i] = message
	}
	return out
}

// TestAttackNestedDatagram sends one datagram whose messages multiply when unpacked:
// compound in LZW in compound. It must cost one refusal.
func TestAttackNestedDatagram(t *testing.T) {
	n := startTCP(t, freeAddrs(t, 1)[0], Config{Bootstrap: true})
	conn, err := net.Dial("udp", n.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	inner := forge.Compound(repeated(255, []byte{99})...)
	middle := forge.Compressed(forge.Compound(repeated(80, inner)...))
	outer := forge.Compound(repeated(10, middle)...)
	before := n.Stats()
	if _, err := conn.Write(forge.Labelled("peerage", outer)); err != nil {
		t.Fatal(err)
	}
	// A second datagram, of one message, marks the end: both are handled in order.
	eventually(t, 30*time.Second, "both datagrams are counted", func() bool {
		_, _ = conn.Write([]byte("\xf4\x07another"))
		return n.Stats().PacketsNotOurs > before.PacketsNotOurs
	})
	if got := n.Stats().PacketsNotOurs - before.PacketsNotOurs; got > 1000 {
		t.Errorf("one datagram of %d bytes was unpacked into %d messages", len(outer), got)
	}
	if got := n.Stats().PacketsForbidden - before.PacketsForbidden; got != 1 {
		t.Errorf("%d datagrams are counted as forbidden", got)
	}
}

// TestAttackDecompressionBomb sends ten small datagrams that unpack to 24 MB each.
func TestAttackDecompressionBomb(t *testing.T) {
	n := startTCP(t, freeAddrs(t, 1)[0], Config{Bootstrap: true})
	conn, err := net.Dial("udp", n.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	bomb := forge.Labelled("peerage", forge.Compressed(make([]byte, 24<<20)))
	if len(bomb) > 65000 {
		t.Fatalf("the datagram has %d bytes", len(bomb))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 10 {
		if _, err := conn.Write(bomb); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, 30*time.Second, "the bombs are refused", func() bool { return n.Stats().PacketsForbidden >= 10 })
	runtime.ReadMemStats(&after)
	if grown := (after.TotalAlloc - before.TotalAlloc) >> 20; grown > 64 {
		t.Errorf("ten datagrams of %d bytes cost %d MB", len(bomb), grown)
	}
}

// forgeNames sends datagrams that claim nodes at addresses of the forger's choice.
func (c *cluster) forgeNames(from transport.Transport, to *member, datagrams, names int) {
	c.t.Helper()
	for d := range datagrams {
		var parts [][]byte
		for i := range names {
			k := d*names + i
			ip := net.IPv4(10, 66, byte(k>>8), byte(k))
			n := gossip.Node{ID: gossip.NodeID(0xbad<<32 | uint64(k+1)), Name: "forged", Addr: fmt.Sprintf("%v:7101", ip)}
			parts = append(parts, forgedAlive(c.t, n, ip, 7101))
		}
		if err := from.WritePacket(forge.Labelled(to.cfg.Cluster, forge.Compound(parts...)), to.addr); err != nil {
			c.t.Error(err)
		}
	}
}

// stranger returns a non-member's transport, to send datagrams.
func (c *cluster) stranger(addr string) transport.Transport {
	c.t.Helper()
	c.lastID++
	cfg := testConfig().TransportConfig(gossip.NodeID(c.lastID << 32))
	cfg.Logger = slog.New(slog.DiscardHandler)
	t, err := c.net.Transport(transport.MemoryConfig{Config: cfg, Listen: addr})
	if err != nil {
		c.t.Fatal(err)
	}
	if err := t.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = t.Close() })
	return t
}

// TestAttackForgedNames claims 4,000 nodes with 40 datagrams. The receiver dials none of
// those addresses, and keeps its lease and its place in the view.
func TestAttackForgedNames(t *testing.T) {
	inBubble(t, func(c *cluster) {
		ms := c.form(3)
		pass(3 * time.Second)
		_, rest := leader(ms)
		victim, epoch := rest[0], rest[0].View().Epoch
		forger := c.stranger("10.0.9.9:7101")
		defer forger.Close()
		dials, asked := victim.transport.Counters().Dials.Load(), time.Now()
		c.forgeNames(forger, victim, 40, 100)
		for range 200 {
			pass(50 * time.Millisecond)
			if !victim.LeaseValid() {
				t.Fatalf("the lease was lost %v after the datagrams", time.Since(asked))
			}
		}
		if n := victim.transport.Counters().Dials.Load() - dials; n > 50 {
			t.Errorf("the node dialled %d times", n)
		}
		if got := victim.View().Epoch; got != epoch {
			t.Errorf("the view went from %v to %v", epoch, got)
		}
		if n := victim.discovery.Names(); n > 3 {
			t.Errorf("the gate holds %d names", n)
		}
		c.settled(time.Second, ms...)
	})
}

// TestAttackStreamState opens streams that declare a million nodes, and more streams
// than memberlist could serve: they are cut off before memory is taken for them.
func TestAttackStreamState(t *testing.T) {
	n := startTCP(t, freeAddrs(t, 1)[0], Config{Bootstrap: true})
	cfg := n.cfg.TransportConfig(77)
	stranger, err := transport.NewTCP(transport.TCPConfig{Config: cfg, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	state := forge.Message(forge.PushPull, map[string]any{"Nodes": 1 << 20, "UserStateLen": 0, "Join": true})
	bomb := forge.Compressed(make([]byte, 24<<20))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range 20 {
		conn, err := stranger.DialStream(n.addr, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		body := state
		if i%2 == 0 {
			body = bomb
		}
		_, _ = conn.Write(forge.Labelled(n.cfg.Cluster, append(body, make([]byte, 4096)...)))
		defer conn.Close()
	}
	eventually(t, 30*time.Second, "all are cut off", func() bool { return n.Stats().StreamsRefused >= 20 })
	runtime.ReadMemStats(&after)
	if grown := (after.TotalAlloc - before.TotalAlloc) >> 20; grown > 100 {
		t.Errorf("20 streams cost %d MB", grown)
	}
}
