package sharding

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestADoubleIsCountedAndReported: a proof of death that is wrong (GUARANTEES G1 says
// when) has a shard live on two nodes. When they meet, the older one ends, and the
// node that finds it counts and logs it.
func TestADoubleIsCountedAndReported(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, j := newCluster(t), newJournal()
		var log strings.Builder
		logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
		var nodes []*node
		var regions []*Region[say, heard]
		for range 3 {
			n := c.add("n")
			n.log = logger
			nodes, regions = append(nodes, n), append(regions, n.register(j, nil))
			n.start()
		}
		c.install(nodes[0], nodes[1])
		pass(time.Second)
		id := "x"
		if got, err := regions[0].Ask(within(t, time.Second), id, say{"a", 1}); err != nil || got.Node != nodes[0].self.ID {
			t.Fatalf("%+v, %v", got, err)
		}
		c.install(nodes[1]) // the first is taken for dead, and lives
		if got, err := regions[1].Ask(within(t, time.Second), id, say{"b", 1}); err != nil || got.Node != nodes[1].self.ID {
			t.Fatalf("%+v, %v", got, err)
		}
		c.install(nodes[2], nodes[1], nodes[0]) // another takes office, and asks who has what
		pass(2 * time.Second)
		for i, r := range regions {
			got, err := r.Ask(within(t, time.Second), id, say{"c", i + 1})
			if err != nil || got.Node != nodes[1].self.ID {
				t.Errorf("node %d is answered by %v, %v", i, got.Node, err)
			}
		}
		if n := regions[2].Stats().Duplicates; n != 1 {
			t.Errorf("%d doubles were counted", n)
		}
		if !strings.Contains(log.String(), "duplicate shard activation") || !strings.Contains(log.String(), nodes[0].self.ID.String()) {
			t.Errorf("the log says %q", log.String())
		}
	})
}
