package peeragetest_test

// The tests of this file are a user's: they test a service, a game's scores, by the exported
// functions of the kit alone. docs/TESTING-YOUR-SERVICE.md shows the first of them.

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/ddata"
	"github.com/peerage-go/peerage/peeragetest"
	"github.com/peerage-go/peerage/sharding"
)

// score is the entity of the service: the points of one player. Snapshot and Restore let it
// move, and Type.State lets it survive a crash.
type score struct{ Points byte }

func (s *score) Handle(_ *sharding.Context, points byte) (byte, error) {
	s.Points += points
	return s.Points, nil
}

func (s *score) Snapshot(*sharding.Context) ([]byte, error) { return []byte{s.Points}, nil }

func (s *score) Restore(_ *sharding.Context, state []byte) error {
	s.Points = state[0]
	return nil
}

// scores is what the tests need of a node.
type scores = sharding.Region[byte, byte]

// startScores is the service's own: its main calls it, too.
func startScores(ctx context.Context, cfg peerage.Config) (*peerage.Node, *scores, error) {
	node, err := peerage.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	region, err := sharding.Register(node.Registry(), sharding.Type[byte, byte]{
		Name: "score", Shards: 30,
		New:   func(string) sharding.Entity[byte, byte] { return &score{} },
		State: sharding.Replicated{Replicas: 3, Mode: sharding.Quorum},
	})
	if err != nil {
		return nil, nil, err
	}
	return node, region, node.Start(ctx)
}

// addPoints adds to a player's score, and returns it.
func addPoints(t *testing.T, n *peeragetest.Node[*scores], player string, points byte) byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	sum, err := n.Service.Ask(ctx, player, points, sharding.Retry())
	if err != nil {
		t.Fatalf("%s at node %s: %v", player, n.Name, err)
	}
	return sum
}

func TestScoresSurviveACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // time is virtual: this test takes no second
		c := peeragetest.Start(t, 3, startScores)
		for i := range 20 {
			addPoints(t, c.Node("a"), fmt.Sprint("player", i), 7)
		}

		c.Node("a").Crash()
		began := time.Now()
		for i := range 20 {
			if sum := addPoints(t, c.Node("b"), fmt.Sprint("player", i), 1); sum != 8 {
				t.Errorf("player%d has %d points after the crash, want 8", i, sum)
			}
		}
		if took := time.Since(began); took > 300*time.Millisecond {
			t.Errorf("all players were back after %v", took)
		}
		c.AssertSingleInstance()
	})
}

// A rolling update: each node stops and starts again, and no player notices.
func TestRollingUpdateFailsNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := peeragetest.Start(t, 3, startScores)
		allAnswered := c.KeepCalling(func(ctx context.Context, n *peeragetest.Node[*scores], i int) error {
			_, err := n.Service.Ask(ctx, fmt.Sprint("player", i%50), 0)
			return err
		})
		for _, name := range []string{"a", "b", "c"} {
			c.Node(name).Stop()
			c.Node(name).Restart()
			c.WaitReady()
		}
		if n := allAnswered(); n < 50 {
			t.Errorf("only %d calls", n)
		}
		c.AssertSingleInstance()
	})
}

// The smaller side of a partition stops, the larger one goes on, and after it the
// cluster is whole.
func TestThePartOfTheMinorityStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := peeragetest.Start(t, 5, startScores)
		nodes := c.Nodes()
		c.Split(nodes[:2], nodes[2:])
		c.WaitUntil(5*time.Second, "the minority has no lease", func() bool {
			return !nodes[0].LeaseValid() && !nodes[1].LeaseValid()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := nodes[0].Service.Ask(ctx, "ada", 1); err == nil {
			t.Error("the minority has answered")
		}
		addPoints(t, nodes[2], "ada", 1)
		c.AssertSingleInstance()
		c.Heal()
		c.WaitReady()
		if sum := addPoints(t, nodes[0], "ada", 1); sum != 2 {
			t.Errorf("ada has %d points", sum)
		}
	})
}

// games counts games in replicated data.
func games() ddata.Key[ddata.GCounter, *ddata.GCounterTx] { return ddata.GCounterKey("games") }

func addGame(t *testing.T, n *peeragetest.Node[*scores]) {
	t.Helper()
	err := ddata.Update(t.Context(), n.Data(""), games(), ddata.Majority, func(c *ddata.GCounterTx) error {
		c.Add(1)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// waitGames waits until all nodes have the same number of games, and returns it.
func waitGames(t *testing.T, c *peeragetest.Cluster[*scores]) uint64 {
	t.Helper()
	return peeragetest.WaitConverged(c, 5*time.Second, "the number of games", func(n *peeragetest.Node[*scores]) (uint64, error) {
		v, err := ddata.Get(t.Context(), n.Data(""), games(), ddata.Local)
		return v.Count(), err
	})
}

// Replicated data of the service's own becomes equal on all nodes after a cut.
func TestReplicatedDataConverges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := peeragetest.Start(t, 3, startScores)
		c.Node("c").Cut()
		addGame(t, c.Node("a"))
		c.Heal()
		if count := waitGames(t, c); count != 1 {
			t.Errorf("%d games", count)
		}
	})
}

// Replicated data on disk is back after all nodes have lost power.
func TestDurableDataSurvivesAnOutage(t *testing.T) {
	dirs := map[string]string{"a": t.TempDir(), "b": t.TempDir(), "c": t.TempDir()}
	synctest.Test(t, func(t *testing.T) {
		c := peeragetest.Start(t, 3, func(ctx context.Context, cfg peerage.Config) (*peerage.Node, *scores, error) {
			cfg.DataDir = dirs[cfg.Name]
			cfg.Data = map[string]peerage.DataConfig{"": {Durable: []string{""}}}
			return startScores(ctx, cfg)
		})
		addGame(t, c.Node("a"))
		for _, n := range c.Nodes() {
			n.Crash()
		}
		for _, name := range []string{"a", "b", "c"} {
			c.Node(name).Restart()
		}
		c.WaitReady()
		if count := waitGames(t, c); count != 1 {
			t.Errorf("%d games", count)
		}
	})
}

// The same kit in real time: for services that open real sockets or files.
func TestScoresInRealTime(t *testing.T) {
	c := peeragetest.Start(t, 3, startScores)
	addPoints(t, c.Node("a"), "ada", 5)
	c.Node("a").Crash()
	if sum := addPoints(t, c.Node("c"), "ada", 1); sum != 6 {
		t.Errorf("ada has %d points after the crash, want 6", sum)
	}
}
