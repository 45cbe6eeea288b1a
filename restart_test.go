package peerage_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/sharding"
)

// resident is an entity whose place the test sees without a message.
type resident struct {
	id   string
	roll *roll
}

func (r *resident) OnStart(*sharding.Context) error { r.roll.enter(r.id); return nil }

func (r *resident) Handle(ctx *sharding.Context, req string) (string, error) {
	if req == "retire" {
		ctx.Passivate()
	}
	return req, nil
}

// roll counts the instances that began, by id, in one life of a cluster.
type roll struct {
	mu    sync.Mutex
	begun map[string]int
}

func (r *roll) enter(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun[id]++
}

func (r *roll) counts() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]int{}
	for id, n := range r.begun {
		all[id] = n
	}
	return all
}

// rememberers starts three nodes on the directories, whose residents are remembered
// for good.
func (c *cluster) rememberers(dirs []string, r *roll, minMembers int) (regions []*sharding.Region[string, string]) {
	for i, dir := range dirs {
		cfg := peerage.TestConfig()
		cfg.Network, cfg.DataDir, cfg.Data = c.net, dir, map[string]peerage.DataConfig{
			"": {Durable: []string{sharding.RememberedPrefix}},
		}
		cfg.Name, cfg.Listen = fmt.Sprint("n", i), fmt.Sprintf("10.0.0.%d:7101", i+1)
		cfg.Join, cfg.BootstrapExpect = []string{"10.0.0.1:7101"}, 1
		n, err := peerage.New(cfg)
		if err != nil {
			c.t.Fatal(err)
		}
		region, err := sharding.Register(n.Registry(), sharding.Type[string, string]{
			Name: "resident", Shards: 8, Remember: true, MinMembers: minMembers,
			New: func(id string) sharding.Entity[string, string] { return &resident{id, r} },
		})
		if err != nil {
			c.t.Fatal(err)
		}
		regions = append(regions, region)
		if err := n.Start(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
		c.nodes = append(c.nodes, &member{Node: n, addr: cfg.Listen})
		if minMembers == 0 {
			c.ready(c.nodes...) // each works alone before the next comes
			pass(3 * time.Second)
		}
	}
	c.ready(c.nodes...)
	return regions
}

// remembered waits until the store has the remembered entities of all nodes.
func (c *cluster) remembered() {
	c.t.Helper()
	c.until(20*time.Second, "all is remembered", func() bool {
		for _, m := range c.nodes {
			if st, _ := m.Registry().Stats("resident"); st.Remembered.Waiting > 0 {
				return false
			}
		}
		return true
	})
	pass(time.Second) // the last write may be under way
}

// The whole cluster stops, in order or all at the same time, and starts again on the same
// directories: every remembered entity runs again, once, without a message; retired ones do
// not; and those of a later life are remembered as well.
func TestRestartOfTheClusterStartsRememberedEntities(t *testing.T) {
	const each = 20
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	threeLives(t, func(t *testing.T, life int, c *cluster) {
		r := &roll{begun: map[string]int{}}
		regions := c.rememberers(dirs, r, 3)
		c.until(20*time.Second, fmt.Sprintf("%d residents of former lives run", life*each), func() bool { return len(r.counts()) >= life*each })
		pass(5 * time.Second) // for those that should not come
		for id, n := range r.counts() {
			if n != 1 {
				t.Errorf("life %d: %s began %d times", life, id, n)
			}
		}
		if got := len(r.counts()); got != life*each {
			t.Errorf("life %d: %d residents run, want %d: %v", life, got, life*each, r.counts())
		}
		for i := range each {
			if _, err := regions[i%3].Ask(t.Context(), fmt.Sprintf("l%d-%d", life, i), "stay"); err != nil {
				t.Fatal(err)
			}
			if _, err := regions[i%3].Ask(t.Context(), fmt.Sprintf("l%d-%d-gone", life, i), "retire"); err != nil {
				t.Fatal(err)
			}
		}
		c.remembered()
	})
}

// The node that starts first was down when entities began: it receives them from the other
// nodes, also for the shards that it has started before those joined.
func TestRestartFindsWhatTheFirstNodeMissed(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	const n = 40
	playLives(t, 2, func(t *testing.T, life int, c *cluster) {
		r := &roll{begun: map[string]int{}}
		regions := c.rememberers(dirs, r, 0)
		if life == 1 {
			c.until(30*time.Second, "all run again", func() bool { return len(r.counts()) == n })
			return
		}
		if err := c.nodes[0].Close(); err != nil {
			t.Error(err)
		}
		c.nodes = c.nodes[1:]
		c.until(20*time.Second, "it is removed", func() bool { return len(c.nodes[0].View().Members) == 2 })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for i := range n {
			if _, err := regions[1+i%2].Ask(ctx, fmt.Sprint("e", i), "stay", sharding.Retry()); err != nil {
				t.Fatal(err)
			}
		}
		c.remembered()
	})
}
