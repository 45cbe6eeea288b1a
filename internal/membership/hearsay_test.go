package membership

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/internal/discovery"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/transport"
)

// TestAForgedHintDoesNotStick: a datagram names a wrong address of a node before the node
// itself is met. The node's own description then replaces it, and no later hint overrides
// that.
func TestAForgedHintDoesNotStick(t *testing.T) {
	inBubble(t, func(c *cluster) {
		addrs := memAddrs(2)
		a := c.add(addrs[0], Config{Join: addrs[:1], Bootstrap: true, NoDiscovery: true})
		forged := gossip.Node{ID: gossip.NodeID((c.lastID + 1) << 32), Name: "forged", Addr: "10.9.9.9:1"}
		a.inbox.Put(found{forged})
		synctest.Wait()
		b := c.add(addrs[1], Config{Join: addrs[:1], NoDiscovery: true})
		if b.Self().ID != forged.ID {
			t.Fatalf("the hint was about %v, not %v", forged.ID, b.Self().ID)
		}
		c.settled(5*time.Second, a, b)
		a.inbox.Put(found{forged})
		b.inbox.Put(found{gossip.Node{ID: a.Self().ID, Name: "forged", Addr: "10.9.9.9:2"}})
		pass(10 * time.Second)
		c.settled(time.Millisecond, a, b)
		for _, l := range append(a.Status().Links, b.Status().Links...) {
			if l.Addr == "10.9.9.9:1" || l.Addr == "10.9.9.9:2" || len(l.Out) == 0 {
				t.Errorf("%+v", l)
			}
		}
	})
}

// TestAFailedDiscoveryLeavesNothingBehind: the bubble fails if a goroutine is left over.
func TestAFailedDiscoveryLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := transport.NewNetwork(transport.NetworkConfig{Seed: 1})
		cfg := testConfig().withDefaults()
		tr, err := net.Transport(transport.MemoryConfig{Config: cfg.TransportConfig(1), Listen: "10.0.0.1:1"})
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.Start(); err != nil {
			t.Fatal(err)
		}
		cfg.SecretKeys = [][]byte{[]byte("short")}
		self := gossip.Node{ID: 1, Name: "a", Addr: "10.0.0.1:1"}
		if _, err := discovery.Start(cfg.discoveryConfig(), self, tr, discovery.Sink{Counters: new(discovery.Counters)}); err == nil {
			t.Error("a key of 5 bytes is taken")
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
}
