package membership

import (
	"testing"
	"time"
)

// TestAtRestLittleIsSent: thirty idle nodes. A member sends less than 4 KB/s, the leader
// less than that for each member that it serves: frames, datagrams and memberlist's
// streams, of default settings.
func TestAtRestLittleIsSent(t *testing.T) {
	const nodes, most = 30, 4000
	inBubble(t, func(c *cluster) {
		addrs := memAddrs(nodes)
		for _, a := range addrs {
			cfg := lanConfig()
			cfg.Clock, cfg.Join = testConfig().Clock, addrs
			c.add(a, cfg)
		}
		c.settled(20*time.Second, c.nodes...)
		pass(5 * time.Second)
		sent := func(m *member) (n uint64) {
			k := m.Transport().Counters()
			for i := range k.Class {
				n += k.Class[i].BytesSent.Load()
			}
			return n + k.PacketBytesSent.Load() + m.Stats().StreamOut.Bytes
		}
		before := map[*member]uint64{}
		for _, m := range c.nodes {
			before[m] = sent(m)
		}
		const lasting = 2 * time.Minute
		pass(lasting)
		first, rest := leader(c.nodes)
		lead := float64(sent(first)-before[first]) / lasting.Seconds() / (nodes - 1)
		worst := 0.0
		for _, m := range rest {
			worst = max(worst, float64(sent(m)-before[m])/lasting.Seconds())
		}
		t.Logf("a member sends %.0f B/s at most, the leader %.0f B/s for each member", worst, lead)
		if worst > most || lead > most || worst == 0 || lead == 0 {
			t.Error("more than 4 KB/s")
		}
	})
}
