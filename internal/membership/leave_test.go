package membership

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/peerage-go/peerage/gossip"
)

// out makes a node leave and close, and returns how long each took.
func (c *cluster) out(m *member) (leave, shut time.Duration) {
	c.t.Helper()
	began := time.Now()
	if err := m.Leave(context.Background()); err != nil {
		c.t.Error(err)
	}
	leave = time.Since(began)
	if err := m.Close(); err != nil {
		c.t.Error(err)
	}
	return leave, time.Since(began) - leave
}

// TestAPlannedStopIsQuick: no part of it waits for a round of gossip, and memberlist's
// leave message is sent nevertheless.
func TestAPlannedStopIsQuick(t *testing.T) {
	inBubble(t, func(c *cluster) {
		ms := c.form(5)
		pass(5 * time.Second)
		for len(ms) > 0 {
			first, rest := leader(ms)
			who, m, left := "the leader", first, rest
			if len(ms)%2 == 1 && len(rest) > 0 {
				who, m, left = "a member", rest[0], append([]*member{first}, rest[1:]...)
			}
			leave, shut := c.out(m)
			t.Logf("%s of %d: leave %v, close %v", who, len(ms), leave, shut)
			// A few round trips of 0.4 ms, and the moment in which leaves are gathered.
			if most := 20 * time.Millisecond; shut > most || leave > most {
				t.Errorf("%s of %d: leave %v, close %v", who, len(ms), leave, shut)
			}
			if ms = left; len(ms) > 0 {
				c.settled(5*time.Second, ms...)
				for _, o := range ms {
					c.until(3*time.Second, "memberlist has the remaining nodes only", func() bool { return o.discovery.OtherAddrs() == len(ms)-1 })
					if n := o.Stats().Suspicions; n != 0 {
						t.Errorf("%s: %d suspicions", o.addr, n)
					}
				}
			}
		}
	})
}

// TestSeveralLeaveAtOnce: the leader and two members, at the same instant; then all of
// those that are left.
func TestSeveralLeaveAtOnce(t *testing.T) {
	inBubble(t, func(c *cluster) {
		ms := c.form(5)
		pass(3 * time.Second)
		first, rest := leader(ms)
		together := func(goes []*member) (longest, shut time.Duration) {
			var group sync.WaitGroup
			var mu sync.Mutex
			for _, m := range goes {
				group.Go(func() {
					l, s := c.out(m)
					mu.Lock()
					defer mu.Unlock()
					longest, shut = max(longest, l), max(shut, s)
				})
			}
			group.Wait()
			return longest, shut
		}
		three, closed3 := together([]*member{first, rest[0], rest[1]})
		c.settled(50*time.Millisecond, rest[2:]...)
		two, closed2 := together(rest[2:])
		t.Logf("three of five left after %v and closed in %v, the last two after %v and %v", three, closed3, two, closed2)
		if three > 50*time.Millisecond || two > 50*time.Millisecond {
			t.Error("a node waited for a ping, or for a lease to end\n" + c.describe())
		}
		if closed3 > 50*time.Millisecond || closed2 > 50*time.Millisecond {
			t.Error("a node waited for one that has gone")
		}
	})
}

// TestAllLeaveOneShortlyAfterTheOther: an orchestrator stops everything, and its
// signals arrive in any order, some milliseconds apart: the leader at that moment may
// have gone before the other nodes ask to leave too. No node waits in vain for one that
// stays.
func TestAllLeaveOneShortlyAfterTheOther(t *testing.T) {
	for _, apart := range []time.Duration{100 * time.Microsecond, time.Millisecond, 3 * time.Millisecond, 30 * time.Millisecond} {
		for turn := range 5 {
			t.Run(fmt.Sprintf("%v apart, the leader %d.", apart, turn+1), func(t *testing.T) {
				inBubble(t, func(c *cluster) {
					ms := slices.Clone(c.form(5))
					pass(3 * time.Second)
					first, order := leader(ms)
					order = slices.Insert(order, turn, first)
					took := make(chan [2]time.Duration)
					for i, m := range order {
						go func() {
							pass(time.Duration(i) * apart)
							leave, shut := c.out(m)
							took <- [2]time.Duration{leave, shut}
						}()
					}
					var longest, shut time.Duration
					for range order {
						one := <-took
						longest, shut = max(longest, one[0]), max(shut, one[1])
					}
					t.Logf("the longest leave took %v, the longest close %v", longest, shut)
					if longest > 100*time.Millisecond {
						t.Error("too slow\n" + c.describe())
					}
				})
			})
		}
	}
}

// The last two leave at the same time, and one is closed before the other has asked it.
// The latter has received the leave request of the former, and no node is left to ask.
func TestTheLastLeaverWaitsForNoNode(t *testing.T) {
	inBubble(t, func(c *cluster) {
		d := c.form(1)[0].discovery
		gone := gossip.Node{ID: 77, Name: "gone", Addr: "10.9.9.9:1"}
		meta := memberlist.Node{Name: "gone", Meta: metadata(&gone)}
		other := gossip.Node{ID: 78, Name: "other", Addr: "10.9.9.8:1"}
		// There was another node a while ago, and now none.
		d.NotifyJoin(&memberlist.Node{Name: "other", Meta: metadata(&other)})
		d.NotifyLeave(&memberlist.Node{Name: "other", Meta: metadata(&other)})
		d.NotifyJoin(&meta)
		began, told := time.Now(), make(chan time.Duration)
		go func() {
			d.PingSome()
			told <- time.Since(began)
		}()
		pass(10 * time.Millisecond)
		d.NotifyLeave(&meta)
		if took := <-told; took != 10*time.Millisecond {
			t.Errorf("it waited for %v", took)
		}
	})
}

// TestARestartWithinASecond: a process that ends in order, or is killed, rejoins at the
// same address 200 ms later, as another node.
func TestARestartWithinASecond(t *testing.T) {
	for _, how := range []string{"closed", "left", "killed"} {
		t.Run(how, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				ms := slices.Clone(c.form(3))
				pass(3 * time.Second)
				for round := range 3 {
					first, rest := leader(ms)
					m := rest[0]
					if round == 1 {
						m = first
					}
					switch how {
					case "closed":
						_ = m.Close()
					case "left":
						c.out(m)
					case "killed":
						c.crash(m)
					}
					pass(200 * time.Millisecond)
					again := c.add(m.addr, Config{Join: memAddrs(3)})
					for i := range ms {
						if ms[i] == m {
							ms[i] = again
						}
					}
					t.Logf("one view of 3 again after %v", c.settled(5*time.Second, ms...))
					if again.Self().ID == m.Self().ID || ms[0].View().Members[2].Status != gossip.Up {
						t.Errorf("%v came back as %v", m.Self().ID, again.Self().ID)
					}
				}
			})
		})
	}
}
