package peerage_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/peerage-go/peerage"
)

// The first shard waits for Config.MinMembers members, and once there were enough,
// fewer do.
func TestMinMembersOfTheCluster(t *testing.T) {
	inBubble(t, 0, func(c *cluster) {
		own := func(c *peerage.Config) { c.MinMembers = 3 }
		c.addWith(0, own, nil)
		c.addWith(1, own, nil)
		c.ready(c.nodes...)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if got, err := c.nodes[0].counters.Ask(ctx, "x", add{1}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("two of three members: %+v, %v", got, err)
		}
		c.addWith(2, own, nil)
		c.ready(c.nodes...)
		if got, err := c.nodes[0].ask("y", 1); err != nil || got.Sum != 1 {
			t.Fatalf("three members: %+v, %v", got, err)
		}
		for _, m := range c.nodes[1:] {
			if err := m.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
		}
		if got, err := c.nodes[0].ask("z", 1); err != nil || got.Sum != 1 {
			t.Errorf("one member left: %+v, %v", got, err)
		}
	})
	if _, err := peerage.New(peerage.Config{MinMembers: -1}); !errors.As(err, new(*peerage.ConfigError)) {
		t.Errorf("MinMembers -1: %v", err)
	}
}
