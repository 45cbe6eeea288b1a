package peeragetest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/peeragetest"
)

// Each test of this file shows that a wait or an assertion can fail, and what a reader of
// the failure gets.

func TestWaitUntilCanFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		runFake(t, func(t testing.TB) {
			c := peeragetest.Start(t, 2, startScores)
			began = time.Now()
			c.WaitUntil(3*time.Second, "pigs fly", func() bool {
				if took := time.Since(began); took > 3*time.Second+time.Millisecond {
					t.Fatalf("still waiting after %v", took)
				}
				return false
			})
		}).expect(t, true, "not within 3s: pigs fly", "node a (10.0.0.1:7101) is ready; lease: ", "of a, b", "last log lines of node b")
	})
}

func TestWaitReadyCanFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runFake(t, func(t testing.TB) {
			c := peeragetest.Start(t, 3, startScores)
			c.Node("c").Cut()
			c.Node("b").Crash()
			c.WaitReady()
		}).expect(t, true, "not within 1m0s: all running nodes are ready",
			"node b (10.0.0.2:7101) has crashed", "node c (10.0.0.3:7101) is not ready: ",
			"the test cuts this node off", "the test crashes this node")
	})
}

func TestWaitConvergedCanFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runFake(t, func(t testing.TB) {
			c := peeragetest.Start(t, 3, startScores)
			peeragetest.WaitConverged(c, time.Second, "the name", func(n *peeragetest.Node[*scores]) (string, error) {
				if n.Name == "c" {
					return "", errors.New("no idea")
				}
				return strings.ToUpper(n.Name), nil
			})
		}).expect(t, true, "not within 1s: the name is equal on all nodes:", "a: A", "b: B", "c: error: no idea")
	})
}

// startApart starts each node in a cluster of its own: the mistake that AssertSingleInstance
// is for.
func startApart(ctx context.Context, cfg peerage.Config) (*peerage.Node, *scores, error) {
	cfg.Network, cfg.Bootstrap, cfg.ForeignClusters = peerage.NewNetwork(cfg.Seed), true, gossip.ForeignWarn
	return startScores(ctx, cfg)
}

func TestAssertSingleInstanceCanFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runFake(t, func(tb testing.TB) {
			c := peeragetest.Start(tb, 0, startApart)
			for _, n := range []*peeragetest.Node[*scores]{c.Add(), c.Add()} {
				addPoints(t, n, "ada", 1)
				addPoints(t, n, "only at "+n.Name, 1)
			}
			c.AssertSingleInstance()
		}).expect(t, false, `entity "ada" of type "score" has two instances: on node a with token `, ", and on node b with token")
	})
}

func TestKeepCallingCanFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answered := 0
		runFake(t, func(t testing.TB) {
			c := peeragetest.Start(t, 2, startScores)
			allAnswered := c.KeepCalling(func(ctx context.Context, n *peeragetest.Node[*scores], i int) error {
				if i == 7 {
					return errors.New("the cart is full")
				}
				_, err := n.Service.Ask(ctx, fmt.Sprint("player", i), 1)
				return err
			})
			c.WaitUntil(time.Minute, "time passes", waitFor(100*time.Millisecond))
			answered = allAnswered()
		}).expect(t, false, "1 calls were not answered, ", "first, call 7, by node b: the cart is full")
		if answered < 50 {
			t.Errorf("%d calls were answered", answered)
		}
	})
}

// waitFor returns a condition that holds after d.
func waitFor(d time.Duration) func() bool {
	began := time.Now()
	return func() bool { return time.Since(began) >= d }
}

func TestCallsOfAnEmptyClusterAreNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runFake(t, func(t testing.TB) {
			c := peeragetest.Start(t, 0, startScores)
			c.KeepCalling(func(context.Context, *peeragetest.Node[*scores], int) error { return nil })()
		}).expect(t, false, "no call was answered")
	})
}

// A node that cannot stop in order fails the test: its handler hangs.
func TestStopCanFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		runFake(t, func(tb testing.TB) {
			c := peeragetest.Start(tb, 1, startHanging(release))
			go func() { _, _ = c.Node("a").Service.Ask(context.Background(), "ada", 1) }()
			c.WaitUntil(time.Second, "the handler runs", func() bool {
				shards, _ := c.Node("a").Registry().Local("hanging")
				return len(shards) == 1 && shards[0].Entities == 1
			})
			tb.Cleanup(func() { close(release) })
			c.Node("a").Stop()
		}).expect(t, true, "node a does not stop in order: ", "context deadline exceeded")
	})
}

func TestStartCanFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runFake(t, func(t testing.TB) {
			peeragetest.Start(t, 3, func(ctx context.Context, cfg peerage.Config) (*peerage.Node, *scores, error) {
				if cfg.Name == "b" {
					return nil, nil, errors.New("no licence")
				}
				return startScores(ctx, cfg)
			})
		}).expect(t, true, "node b does not start: no licence")
	})
}

func TestANodeThatNeverWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runFake(t, func(t testing.TB) {
			peeragetest.Start(t, 1, startScores).Node("z")
		}).expect(t, true, `there is no node "z"`)
	})
}

func TestASeedThatIsNoNumber(t *testing.T) {
	t.Setenv("PEERAGETEST_SEED", "lucky")
	runFake(t, func(t testing.TB) { peeragetest.Start(t, 1, startScores) }).expect(t, true, `PEERAGETEST_SEED is not a number: "lucky"`)
}

// A test that fails for reasons of its own gets the log lines of the nodes as well.
func TestAFailedTestShowsTheLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runFake(t, func(t testing.TB) {
			c := peeragetest.Start(t, 2, startScores)
			c.Node("b").Restart()
			c.WaitReady()
			t.Errorf("the price is wrong")
		}).expect(t, false, "the price is wrong", "seed ", "last log lines of node a", "last log lines of node b", "the test starts this node again")
	})
}
