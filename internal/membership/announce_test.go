package membership

import (
	"context"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// TestAnAnnouncedLeaveIsShown: every node shows the status, the leaver keeps its lease
// and serves as before; then it leaves. The leader does the same.
func TestAnAnnouncedLeaveIsShown(t *testing.T) {
	inBubble(t, func(c *cluster) {
		ms := c.form(3)
		pass(time.Second)
		first, rest := leader(ms)
		for _, m := range []*member{rest[0], first} {
			m.AnnounceLeave()
			took := c.until(time.Second, "all see it leaving", func() bool {
				for _, o := range ms {
					if e := o.View().Member(m.Self().ID); e == nil || e.Status != gossip.Leaving {
						return false
					}
				}
				return true
			})
			t.Logf("shown as leaving after %v", took)
			pass(5 * time.Second)
			if !m.LeaseValid() || m.Status().State != "leaving" || len(rest[1].View().Members) != 3 {
				t.Errorf("%s: lease %v, %s, view of %d", m.addr, m.LeaseValid(), m.Status().State, len(rest[1].View().Members))
			}
		}
		for _, m := range []*member{rest[0], first} {
			if err := m.Leave(context.Background()); err != nil {
				t.Error(err)
			}
			_ = m.Close()
			m.AnnounceLeave() // a no-op after the end
		}
		c.settled(5*time.Second, rest[1])
	})
}
