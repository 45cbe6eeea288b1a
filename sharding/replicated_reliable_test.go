package sharding

import (
	"fmt"
	"testing"
	"time"
)

// Reliable messages to entities with replicated state run once across planned moves,
// and are confirmed only once their change is kept.
func TestReplicatedStateWithReliable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		c.delay = time.Millisecond
		set := Replicated{Replicas: 3}
		regions := keepers(t, c, 3, set)
		s, err := regions[0].Reliable(ReliableConfig[int]{})
		if err != nil {
			t.Fatal(err)
		}
		const ids, rounds = 10, 200
		for n := range rounds {
			if n == rounds/4 {
				c.keeping(set)
				c.install(c.nodes...)
			}
			for i := range ids {
				if err := s.Send(within(t, time.Minute), fmt.Sprint("e", i), 1); err != nil {
					t.Fatal(err)
				}
			}
			pass(5 * time.Millisecond)
		}
		pass(5 * time.Second)
		_ = s.Close()
		for i := range ids {
			got, err := regions[1].Ref(fmt.Sprint("e", i)).Ask(within(t, 20*time.Second), 0)
			if err != nil || got.Count != rounds {
				t.Errorf("e%d counts %+v, %v", i, got, err)
			}
		}
		if n := c.sum(func(s Stats) uint64 { return s.HandoffsOut }); n == 0 {
			t.Error("nothing moved")
		}
	})
}
