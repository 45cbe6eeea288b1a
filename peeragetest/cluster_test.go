package peeragetest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/internal/leakcheck"
	"github.com/peerage-go/peerage/peeragetest"
	"github.com/peerage-go/peerage/sharding"
)

func TestMain(m *testing.M) { os.Exit(leakcheck.Run(m)) }

// startHanging returns the start of a service whose handlers wait for release and ignore
// their Context.
func startHanging(release <-chan struct{}) func(context.Context, peerage.Config) (*peerage.Node, *scores, error) {
	return func(ctx context.Context, cfg peerage.Config) (*peerage.Node, *scores, error) {
		node, err := peerage.New(cfg)
		if err != nil {
			return nil, nil, err
		}
		region, err := sharding.Register(node.Registry(), sharding.Type[byte, byte]{
			Name: "hanging", Shards: 1,
			New: func(string) sharding.Entity[byte, byte] {
				return sharding.Func[byte, byte](func(*sharding.Context, byte) (byte, error) {
					<-release
					return 0, nil
				})
			},
		})
		if err != nil {
			return nil, nil, err
		}
		return node, region, node.Start(ctx)
	}
}

// names returns the names of the nodes that run.
func names(c *peeragetest.Cluster[*scores]) (all []string) {
	for _, n := range c.Nodes() {
		all = append(all, n.Name)
	}
	return all
}

func TestNodesAreThoseThatRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := peeragetest.Start(t, 5, startScores)
		c.Node("a").Crash()
		c.Node("b").Stop()
		if err := c.Node("c").Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if err := c.Node("d").Close(); err != nil {
			t.Error(err)
		}
		if got := names(c); !slices.Equal(got, []string{"e"}) {
			t.Errorf("%v run", got)
		}
		c.WaitReady()
		added := c.Add()
		first := c.Node("a").Restart()
		c.WaitReady()
		if got := names(c); added.Name != "f" || c.Node("a") != first || !slices.Equal(got, []string{"a", "e", "f"}) {
			t.Errorf("%v run; added %s", got, added.Name)
		}
	})
}

// All nodes end, and are started again: the list of contact points forms the cluster, with
// no node that bootstraps.
func TestAWholeClusterStartsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := peeragetest.Start(t, 3, startScores)
		for _, n := range c.Nodes() {
			n.Crash()
		}
		if got := names(c); len(got) > 0 {
			t.Errorf("%v run", got)
		}
		for _, name := range []string{"c", "b", "a"} {
			c.Node(name).Restart()
		}
		c.WaitReady()
		if sum := addPoints(t, c.Node("b"), "ada", 3); sum != 3 {
			t.Errorf("ada has %d points", sum)
		}
	})
}

func TestAPausedNodeIsRemovedAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := peeragetest.Start(t, 3, startScores)
		c.Node("b").Pause()
		c.WaitUntil(10*time.Second, "b is removed", func() bool { return len(c.Node("a").View().Members) == 2 })
		c.Node("b").Resume()
		c.WaitReady()
	})
}

func TestASlowNodeIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := peeragetest.Start(t, 3, startScores)
		for _, latency := range []time.Duration{40 * time.Millisecond, 0} {
			c.Node("b").Slow(latency)
			c.Heal() // it heals cuts only
			slowest := time.Duration(0)
			for i := range 30 {
				began := time.Now()
				addPoints(t, c.Node("b"), string(rune('A'+i)), 1)
				slowest = max(slowest, time.Since(began))
			}
			if slowest < 2*latency || latency == 0 && slowest > 20*time.Millisecond {
				t.Errorf("the slowest ask took %v with a latency of %v", slowest, latency)
			}
		}
	})
}

// A cut between two nodes leaves the third one in touch with both: all stay members.
func TestACutBetweenTwoNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := peeragetest.Start(t, 3, startScores)
		c.Node("b").Cut(c.Node("c"))
		failed := 0
		for i := range 30 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			if _, err := c.Node("b").Service.Ask(ctx, fmt.Sprint("player", i), 1); err != nil {
				failed++
			}
			cancel()
		}
		if members := len(c.Node("a").View().Members); failed == 0 || failed == 30 || members != 3 {
			t.Errorf("%d of 30 calls failed, %d members", failed, members)
		}
		c.Heal()
		c.WaitReady()
		for i := range 30 {
			addPoints(t, c.Node("b"), fmt.Sprint("player", i), 1)
		}
	})
}

func TestTheSeedRepeatsWhatWasDrawn(t *testing.T) {
	t.Setenv("PEERAGETEST_SEED", "42")
	var drawn [2][]uint64
	for i := range drawn {
		synctest.Test(t, func(t *testing.T) {
			c := peeragetest.Start(t, 2, func(ctx context.Context, cfg peerage.Config) (*peerage.Node, *scores, error) {
				drawn[i] = append(drawn[i], cfg.Seed)
				return startScores(ctx, cfg)
			})
			drawn[i] = append(drawn[i], c.Rand().Uint64(), c.Rand().Uint64())
		})
	}
	if !slices.Equal(drawn[0], drawn[1]) || drawn[0][2] == drawn[0][3] || drawn[0][0] == drawn[0][1] {
		t.Errorf("drew %v, then %v", drawn[0], drawn[1])
	}
}

// Random faults by the seed, for as long as a user wants.
func TestRandomFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := peeragetest.Start(t, 4, startScores)
		random := c.Rand()
		for range 6 {
			n := c.Nodes()[random.IntN(4)]
			playFault(t, c, n, random)
			c.AssertSingleInstance()
			c.Heal()
			c.WaitReady()
		}
	})
}

func playFault(t *testing.T, c *peeragetest.Cluster[*scores], n *peeragetest.Node[*scores], random *rand.Rand) {
	switch random.IntN(3) {
	case 0:
		n.Restart()
	case 1:
		n.Stop()
		n.Restart()
	case 2:
		n.Cut()
		other := c.Nodes()[random.IntN(4)]
		if other != n {
			addPoints(t, other, "ada", 1)
		}
	}
}
