package peerage_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/ddata"
)

// A subscription lives as long as the node: after a removal and a return it delivers the
// changes and deletions of the meantime.
func TestSubscriptionsSurviveARejoin(t *testing.T) {
	inBubble(t, 3, func(c *cluster) {
		t, one, two := c.t, c.nodes[1], c.nodes[2]
		data := two.Data("")
		set := func(m *member, key, v string) {
			t.Helper()
			if err := ddata.Update(t.Context(), m.Data(""), ddata.LWWRegisterKey[string](key), ddata.Majority,
				func(r *ddata.LWWRegisterTx[string]) error { r.Set(v); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		var mu sync.Mutex
		seen := map[string]string{}
		cancel := ddata.SubscribePrefix(data, ddata.LWWRegisterKey[string]("k/"), func(name string, r ddata.LWWRegister[string]) {
			mu.Lock()
			defer mu.Unlock()
			if v, ok := r.Value(); ok {
				seen[name] = v
			} else {
				delete(seen, name)
			}
		})
		defer cancel()
		shows := func(key, v string) func() bool {
			return func() bool {
				mu.Lock()
				defer mu.Unlock()
				return seen[key] == v
			}
		}
		set(one, "k/a", "before")
		set(one, "k/gone", "before")
		c.until(time.Minute, "the first values", func() bool { return shows("k/a", "before")() && shows("k/gone", "before")() })
		former := two.Self().ID
		c.net.Split(peerage.CutDropped, []string{c.nodes[0].addr, one.addr}, []string{two.addr})
		c.until(5*time.Minute, "the removal", func() bool { return one.View().Member(former) == nil })
		set(one, "k/a", "meanwhile")
		if err := one.Data("").Update(t.Context(), ddata.Majority, ddata.Delete("k/gone")); err != nil {
			t.Fatal(err)
		}
		c.net.Heal()
		c.until(5*time.Minute, "the return", func() bool { return two.Self().ID != former && two.Ready() })
		if two.Data("") != data {
			t.Error("another Data")
		}
		c.until(time.Minute, "what has changed meanwhile", shows("k/a", "meanwhile"))
		c.until(time.Minute, "what is gone", shows("k/gone", ""))
		set(one, "k/b", "after")
		c.until(time.Minute, "a change in the new incarnation", shows("k/b", "after"))
	})
}

// Data is there before the node is in a cluster, and after its end.
func TestDataOfANodeWithoutAClusterIsNotReady(t *testing.T) {
	cfg := peerage.TestConfig()
	cfg.Network = peerage.NewNetwork(1)
	n, err := peerage.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	key := ddata.GCounterKey("k")
	add := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return ddata.Update(ctx, n.Data(""), key, ddata.Local, func(c *ddata.GCounterTx) error { c.Add(1); return nil })
	}
	cancel := ddata.Subscribe(n.Data(""), key, func(ddata.GCounter) {})
	defer cancel()
	if err := add(); !errors.Is(err, peerage.ErrNotReady) {
		t.Errorf("before it starts: %v", err)
	}
	if _, err := ddata.Get(t.Context(), n.Data(""), key, ddata.Majority); !errors.Is(err, peerage.ErrNotReady) {
		t.Errorf("before it starts: %v", err)
	}
	if _, err := n.Data("").Keys(t.Context(), ""); !errors.Is(err, peerage.ErrNotReady) {
		t.Errorf("before it starts: %v", err)
	}
	if _, err := n.Data("").Status(t.Context()); !errors.Is(err, peerage.ErrNotReady) {
		t.Errorf("before it starts: %v", err)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if err := add(); !errors.Is(err, peerage.ErrClosed) {
		t.Errorf("after its end: %v", err)
	}
}
