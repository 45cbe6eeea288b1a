package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/ddata"
)

const times = 8

// performed returns a cluster after an operation was performed so many times.
func performed(t *testing.T, name string) (context.Context, *cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	c := &cluster{shards: times}
	t.Cleanup(c.closeNodes)
	perform, err := operations()[name](ctx, c, times)
	if err == nil {
		err = perform()
	}
	if err != nil {
		t.Fatal(err)
	}
	return ctx, c
}

// shardsOf returns how many shards a node hosts.
func shardsOf(t *testing.T, n *peerage.Node) int {
	t.Helper()
	s, ok := n.Registry().Stats("counter")
	if !ok {
		t.Fatal("the type is not registered")
	}
	return s.Shards
}

func TestAsksGoToTheNodeOfTheirName(t *testing.T) {
	for name, home := range map[string]func(*cluster) *peerage.Node{
		"ask-local":  func(c *cluster) *peerage.Node { return c.second },
		"ask-remote": func(c *cluster) *peerage.Node { return c.first },
	} {
		ctx, c := performed(t, name)
		id, err := c.findID(ctx, home(c))
		if err != nil {
			t.Fatal(err)
		}
		// Two asks to find the id, and times between them.
		if got, err := c.counters.Ask(ctx, id, struct{}{}); err != nil || got != times+3 {
			t.Errorf("%s: the entity has handled %d asks, %v; want %d", name, got, err, times+3)
		}
		at, err := c.second.Registry().Where(ctx, "counter", id)
		if err != nil || at.Node != home(c).Self().ID {
			t.Errorf("%s: the entity is on %v, %v", name, at.Node, err)
		}
	}
}

func TestFirstAsksPlaceAShardEach(t *testing.T) {
	_, c := performed(t, "first-ask")
	if got := shardsOf(t, c.first) + shardsOf(t, c.second); got != times {
		t.Errorf("%d shards are placed, want %d", got, times)
	}
}

func TestAHandoffMovesAllShards(t *testing.T) {
	ctx, c := performed(t, "handoff")
	if a, b := shardsOf(t, c.first), shardsOf(t, c.second); a != 0 || b != times {
		t.Errorf("%d and %d shards after the drain, want 0 and %d", a, b, times)
	}
	if got, err := c.counters.Ask(ctx, "1", struct{}{}); err != nil || got != 2 {
		t.Errorf("the entity counts %d, %v; want 2, with what moved", got, err)
	}
}

func TestMajorityWritesAreReadOnTheOtherNode(t *testing.T) {
	ctx, c := performed(t, "majority-write")
	got, err := ddata.Get(ctx, c.first.Data(""), ddata.ORSetKey[string]("k"), ddata.Majority)
	if err != nil || got.Contains("ada") {
		t.Errorf("%v, %v; the last write has removed the element", got, err)
	}
}

func TestAViewChangeForEachMemberThatEnds(t *testing.T) {
	_, c := performed(t, "view-change")
	if v := c.second.View(); len(v.Members) != 2 || len(c.leavers) != times {
		t.Errorf("%d members are left of %d that ended and 2", len(v.Members), len(c.leavers))
	}
}

func TestUnknownOperationsAreRefused(t *testing.T) {
	if err := countOperation(t.Context(), "none", 1, t.TempDir()); err == nil || !strings.Contains(err.Error(), `"none"`) {
		t.Errorf("%v, want that there is no such operation", err)
	}
}
