package view

import (
	"fmt"
	"github.com/peerage-go/peerage/gossip"
	"testing"
	"time"
)

// TestOneLostPingCostsNothing: the limits of gossip.Config.Validate on P, L and clock
// drift suffice. A member that misses one ping keeps its lease even if its clock runs as
// fast against the leader's as allowed, and timers and messages are late. With an L of 4
// P it does not.
func TestOneLostPingCostsNothing(t *testing.T) {
	for _, ppm := range []int{1_000, 50_000, 100_000} {
		enough := time.Duration(4.5 * float64(testPing) / (1 - 3*float64(ppm)/1e6))
		for _, is := range []struct {
			lease time.Duration
			late  time.Duration
			keeps bool
		}{{enough, testPing / 3, true}, {4 * testPing, 0, false}} {
			t.Run(fmt.Sprintf("%d ppm, L of %v", ppm, is.lease), func(t *testing.T) {
				w := newWorld(t)
				w.cfg.Lease, w.cfg.RemoveAfter, w.cfg.DriftPPM = is.lease, 2*time.Second, ppm
				w.addNode(1, 1, 0, -int64(ppm)/2)
				w.step(1, Form{Generation: 100})
				for id := gossip.NodeID(2); id <= 3; id++ {
					w.addNode(id, int(id), time.Minute, int64(ppm)/2-1)
					w.step(id, Contacts{Nodes: w.contacts()})
					w.until(5*time.Second, "it is up", func() bool { return w.allUp(int(id)) && w.allHold() })
				}
				w.run(time.Second)
				w.latency, w.jitter = w.latency+is.late/2, is.late/2
				lost, lapsed := 0, false
				w.lose = func(from, to gossip.NodeID, m Message) bool {
					_, ping := m.(*Ping)
					if ping && to == 2 {
						lost++
					}
					return ping && to == 2 && lost%20 == 1
				}
				for w.now < time.Minute && !lapsed {
					w.run(time.Millisecond)
					lapsed = !w.holds(w.nodes[2])
				}
				if lapsed == is.keeps || lost < 20 && is.keeps {
					t.Errorf("the lease lapsed: %v, of %d pings every 20th was lost", lapsed, lost)
				}
			})
		}
	}
}
