package membership

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/transport"
)

// TestAMajorityThatLostPower: three of five vanish silently, and return as new
// incarnations when their proofs of death are too late to count. The remaining two are no
// quorum, and never will be; the returning nodes find a cluster that admits no node. All
// five must end in one cluster, in a generation above the one that was lost, although the
// wall clock is far below it.
func TestAMajorityThatLostPower(t *testing.T) {
	inBubble(t, func(c *cluster) {
		addrs := memAddrs(5)
		cfg := Config{Join: addrs, MinGeneration: 3_000_000_000}
		for _, a := range addrs {
			c.add(a, cfg)
		}
		ms := slices.Clone(c.nodes)
		c.settled(10*time.Second, ms...)
		pass(2 * time.Second)
		met := ms[0].View().Epoch.Generation()
		c.net.Split(transport.Dropped, addrs[:2], addrs[2:])
		c.crash(ms[2:]...)
		pass(time.Minute)
		for _, m := range ms[:2] {
			if m.LeaseValid() {
				t.Errorf("%s holds a lease in a minority", m.addr)
			}
			select {
			case <-m.over:
				t.Errorf("%s is over, and nothing is proven of the others", m.addr)
			default:
			}
		}
		c.net.Heal()
		for i := 2; i < 5; i++ {
			ms[i] = c.add(addrs[i], Config{Join: addrs})
		}
		back := time.Now()
		for !agree(ms) && time.Since(back) < time.Minute {
			for i, m := range ms[:2] {
				select {
				case <-m.over:
					_ = m.Close()
					ms[i] = c.add(m.addr, Config{Join: addrs, MinGeneration: met + 1})
				default:
				}
			}
			pass(50 * time.Millisecond)
		}
		if !agree(ms) {
			t.Fatalf("no cluster of five after a minute\n%s", c.describe())
		}
		if now := ms[0].View().Epoch.Generation(); now <= met {
			t.Errorf("generation %d after %d", now, met)
		}
		t.Logf("one cluster %v after power came back", time.Since(back))
	})
}

// TestARemovedNodeRejoins: the next incarnation has a MinGeneration above all generations
// met. It applies only to forming, so the node joins the living cluster in a lower
// generation; a cluster that it forms later is above.
func TestARemovedNodeRejoins(t *testing.T) {
	inBubble(t, func(c *cluster) {
		cfg := Config{Join: memAddrs(3), MinGeneration: 3_000_000_000}
		for _, a := range memAddrs(3) {
			c.add(a, cfg)
		}
		ms := slices.Clone(c.nodes)
		c.settled(10*time.Second, ms...)
		pass(2 * time.Second)
		met := ms[2].View().Epoch.Generation()
		c.net.Split(transport.Dropped, memAddrs(3)[:2], memAddrs(3)[2:])
		c.settled(10*time.Second, ms[:2]...)
		c.net.Heal()
		c.until(5*time.Second, "the third is out", func() bool {
			select {
			case <-ms[2].over:
				return true
			default:
				return false
			}
		})
		_ = ms[2].Close()
		cfg.MinGeneration = met + 1
		ms[2] = c.add(memAddrs(3)[2], cfg)
		c.settled(5*time.Second, ms...)
		if now := ms[2].View().Epoch.Generation(); now != met {
			t.Errorf("it stands in generation %d, the cluster that lives was of %d", now, met)
		}
		for _, m := range ms {
			_ = m.Close()
		}
		alone := c.add("10.0.0.9:7101", Config{MinGeneration: met + 1})
		c.settled(5*time.Second, alone)
		if now := alone.View().Epoch.Generation(); now != met+1 {
			t.Errorf("it formed generation %d after %d", now, met)
		}
	})
}
