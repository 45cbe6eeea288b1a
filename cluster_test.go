package peerage_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/sharding"
)

// add is the request of the tests' counter; tally its response.
type add struct{ N int }

type tally struct {
	Sum  int
	Node gossip.NodeID
}

type counter struct {
	node *peerage.Node
	sum  int
}

func (c *counter) Handle(_ *sharding.Context, a add) (tally, error) {
	c.sum += a.N
	return tally{c.sum, c.node.Self().ID}, nil
}

// cluster is whole nodes on a network in memory, in a bubble of virtual time.
type cluster struct {
	t     *testing.T
	net   *peerage.Network
	nodes []*member
	// wall is the wall clock of the nodes that onDisk starts, nil for the bubble's.
	wall func() time.Time
}

type member struct {
	*peerage.Node
	counters *sharding.Region[add, tally]
	addr     string
}

func inBubble(t *testing.T, nodes int, test func(*cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t, net: peerage.NewNetwork(1)}
		c.net.SetUsual(peerage.NetworkPath{Latency: 100 * time.Microsecond})
		// memberlist's Shutdown does not wait for its probes.
		defer pass(time.Minute)
		defer c.close()
		for i := range nodes {
			c.add(i)
		}
		c.ready(c.nodes...)
		test(c)
	})
}

func pass(d time.Duration) {
	if d > 0 { // Go 1.26.8 with -race crashes at a timer in a bubble that is due immediately
		<-time.After(d)
	}
}

func (c *cluster) add(i int) *member { return c.addWith(i, nil, nil) }

// addWith starts a node with settings that own, if any, has changed, and more types.
func (c *cluster) addWith(i int, own func(*peerage.Config), more func(*peerage.Node)) *member {
	cfg := peerage.TestConfig()
	cfg.Network, cfg.Listen = c.net, fmt.Sprintf("10.0.0.%d:7101", i+1)
	cfg.Bootstrap = i == 0
	for _, m := range c.nodes {
		cfg.Join = append(cfg.Join, m.addr)
	}
	if len(cfg.Join) == 1 {
		cfg.BootstrapExpect = 1
	}
	if own != nil {
		own(&cfg)
	}
	n, err := peerage.New(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	m := &member{Node: n, addr: cfg.Listen}
	m.counters, err = sharding.Register(n.Registry(), sharding.Type[add, tally]{
		Name: "counter", Shards: 12,
		New: func(string) sharding.Entity[add, tally] { return &counter{node: n} },
	})
	if err != nil {
		c.t.Fatal(err)
	}
	if more != nil {
		more(n)
	}
	if err := n.Start(context.Background()); err != nil {
		c.t.Fatal(err)
	}
	c.nodes = append(c.nodes, m)
	return m
}

func (c *cluster) close() {
	for _, m := range c.nodes {
		if err := m.Close(); err != nil {
			c.t.Error(err)
		}
	}
}

// ready waits until the nodes stand in one view, and are ready.
func (c *cluster) ready(ms ...*member) {
	c.t.Helper()
	if len(ms) == 0 {
		return
	}
	c.until(20*time.Second, fmt.Sprintf("%d nodes are ready", len(ms)), func() bool {
		var first *gossip.View
		for i, m := range ms {
			v := m.View()
			if i == 0 {
				first = v
			}
			if v == nil || first == nil || len(v.WithRole("")) != len(ms) || !m.Ready() || v.Epoch != first.Epoch {
				return false
			}
		}
		return true
	})
}

func (c *cluster) until(most time.Duration, what string, ok func() bool) {
	c.t.Helper()
	for begin := time.Now(); !ok(); pass(time.Millisecond) {
		if time.Since(begin) > most {
			for _, m := range c.nodes {
				c.t.Logf("%s: %+v", m.addr, m.Status())
			}
			c.t.Fatalf("not after %v: %s", most, what)
		}
	}
}

func (m *member) ask(id string, n int) (tally, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return m.counters.Ask(ctx, id, add{n}, sharding.Retry())
}

func TestEveryNodeReachesTheOneInstance(t *testing.T) {
	inBubble(t, 3, func(c *cluster) {
		for i := range 20 {
			id := fmt.Sprint("id", i)
			var homes [3]gossip.NodeID
			for k, m := range c.nodes {
				got, err := m.ask(id, 1)
				if err != nil {
					t.Fatal(err)
				}
				if got.Sum != k+1 {
					t.Errorf("%s: sum %d after %d asks: there are several instances", id, got.Sum, k+1)
				}
				homes[k] = got.Node
			}
			if homes[0] != homes[1] || homes[1] != homes[2] {
				t.Errorf("%s answers from %v", id, homes)
			}
		}
	})
}

// A node that was cut off until it was removed comes back by itself as a new
// incarnation: at the same address, with the same Registry and Regions.
func TestRemovedNodeComesBackAsANewIncarnation(t *testing.T) {
	inBubble(t, 3, func(c *cluster) {
		out := c.nodes[2]
		before := out.Self()
		c.net.Split(peerage.CutDropped, []string{c.nodes[0].addr, c.nodes[1].addr}, []string{out.addr})
		c.until(20*time.Second, "the others removed it", func() bool { return len(c.nodes[0].View().Members) == 2 })
		if out.LeaseValid() {
			t.Error("a node outside the view holds a lease")
		}
		c.net.Heal()
		c.ready(c.nodes...)
		after := out.Self()
		if after.ID == before.ID || after.Addr != before.Addr || after.Name != before.Name {
			t.Errorf("came back as %+v, was %+v", after, before)
		}
		if _, err := out.ask("x", 1); err != nil {
			t.Errorf("its old Region does not work: %v", err)
		}
	})
}

// With a negative RejoinAfter a removed node stays out, its Regions return ErrNotReady, and
// it can be closed.
func TestARemovedNodeThatIsNotToComeBack(t *testing.T) {
	inBubble(t, 3, func(c *cluster) {
		out := c.addWith(3, func(c *peerage.Config) { c.RejoinAfter = -1 }, nil)
		c.ready(c.nodes...)
		before := out.Self()
		c.net.Split(peerage.CutDropped, []string{c.nodes[0].addr, c.nodes[1].addr, c.nodes[2].addr}, []string{out.addr})
		c.until(20*time.Second, "the others removed it", func() bool { return len(c.nodes[0].View().Members) == 3 })
		c.net.Heal()
		pass(time.Minute)
		if out.Self().ID != before.ID || out.View() != nil || out.LeaseValid() || out.Ready() || len(c.nodes[0].View().Members) != 3 {
			t.Errorf("%v was %v, view %v, of the others %v", out.Self().ID, before.ID, out.View(), c.nodes[0].View())
		}
		if _, err := out.ask("x", 1); !errors.Is(err, sharding.ErrNotReady) {
			t.Errorf("its Region says %v", err)
		}
	})
}

func TestCutOffNodeAnswersNotReadyAndNeverRuns(t *testing.T) {
	inBubble(t, 3, func(c *cluster) {
		out := c.nodes[2]
		c.net.Split(peerage.CutDropped, []string{c.nodes[0].addr, c.nodes[1].addr}, []string{out.addr})
		c.until(10*time.Second, "its lease has ended", func() bool { return !out.LeaseValid() })
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		for i := range 12 {
			if got, err := out.counters.Ask(ctx, fmt.Sprint("id", i), add{1}); err == nil {
				t.Errorf("answered %+v without a lease", got)
			}
		}
	})
}

func TestShutdownHandsEverythingOver(t *testing.T) {
	inBubble(t, 3, func(c *cluster) {
		for i := range 30 {
			if _, err := c.nodes[0].ask(fmt.Sprint("id", i), 1); err != nil {
				t.Fatal(err)
			}
		}
		// The coordinator and leader leaves while other nodes ask.
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		done := make(chan error)
		go func() { done <- c.nodes[0].Shutdown(ctx) }()
		for i := range 30 {
			one, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			if _, err := c.nodes[1+i%2].counters.Ask(one, fmt.Sprint("id", i), add{1}); err != nil {
				t.Errorf("ask without retries while a node leaves: %v", err)
			}
			cancel()
		}
		if err := <-done; err != nil {
			t.Errorf("shutdown: %v", err)
		}
		c.ready(c.nodes[1:]...)
		if err := c.nodes[0].Start(ctx); !errors.Is(err, peerage.ErrClosed) {
			t.Errorf("Start after Shutdown: %v", err)
		}
	})
}

func TestLastNodeShutsDownImmediately(t *testing.T) {
	inBubble(t, 1, func(c *cluster) {
		if _, err := c.nodes[0].ask("x", 1); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if err := c.nodes[0].Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("took %v of virtual time", took)
		}
	})
}

// ids of the counters that tests ask: they lie in all shards.
const ids = 60

// askAll adds one to every counter, from one node, and returns the answers.
func (c *cluster) askAll(from *member) (got [ids]tally) {
	c.t.Helper()
	for i := range ids {
		var err error
		if got[i], err = from.ask(fmt.Sprint("id", i), 1); err != nil {
			c.t.Fatalf("id%d from %s: %v", i, from.addr, err)
		}
	}
	return got
}

// A45: the survivor serves all shards.
func TestAllButOneCrashTogether(t *testing.T) {
	for n := 2; n <= 9; n++ {
		inBubble(t, n, func(c *cluster) {
			c.askAll(c.nodes[0])
			survivor := c.nodes[n-1]
			for _, m := range c.nodes[:n-1] {
				c.net.Crash(m.addr)
			}
			begin := time.Now()
			c.askAll(survivor)
			if took := time.Since(begin); took > 500*time.Millisecond {
				t.Errorf("%d nodes: all counters answered after %v of virtual time", n, took)
			}
			if s := survivor.counters.Stats(); s.Shards != 12 {
				t.Errorf("%d nodes: the survivor hosts %d of 12 shards", n, s.Shards)
			}
		})
	}
}

// A46: the most senior remaining node ends, again and again. Entities of other nodes
// continue there.
func TestAllButOneCrashOneAfterAnother(t *testing.T) {
	inBubble(t, 9, func(c *cluster) {
		left := c.nodes
		before := c.askAll(left[8])
		for len(left) > 1 {
			dead := left[0].Self().ID
			c.net.Crash(left[0].addr)
			left = left[1:]
			begin := time.Now()
			after := c.askAll(left[len(left)-1])
			if took := time.Since(begin); took > 500*time.Millisecond {
				t.Errorf("%d left: all counters answered after %v of virtual time", len(left), took)
			}
			for i := range ids {
				want := tally{before[i].Sum + 1, before[i].Node}
				if before[i].Node == dead {
					want = tally{1, after[i].Node}
				}
				if after[i] != want {
					t.Errorf("%d left: id%d answers %+v, want %+v", len(left), i, after[i], want)
				}
			}
			before = after
			c.ready(left...)
			pass(time.Second)
		}
		if s := left[0].counters.Stats(); s.Shards != 12 {
			t.Errorf("the survivor hosts %d of 12 shards", s.Shards)
		}
	})
}
