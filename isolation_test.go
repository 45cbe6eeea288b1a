package peerage_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/ddata"
	"github.com/peerage-go/peerage/replicator"
)

// No use of an application's data leaves a shard without a home: the records of
// coordinators have a replicator of their own.
func TestApplicationDataKeepsNoShardWithoutAHome(t *testing.T) {
	words := ddata.ORSetKey[string]("keep/words")
	put := func(s *ddata.ORSetTx[string]) error { s.Add("w"); return nil }
	for name, harm := range map[string]func(*testing.T, *cluster){
		"a disk that fails": func(t *testing.T, c *cluster) {
			for _, m := range c.nodes {
				m.BreakFiles()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				if err := ddata.Update(ctx, m.Data(""), words, ddata.Local, put); err == nil {
					t.Error("confirmed without a disk")
				}
				cancel()
				if m.Ready() {
					t.Error("ready, with a disk that fails")
				}
			}
		},
		"a slow function": func(t *testing.T, c *cluster) {
			for _, m := range c.nodes {
				d := m.Data("")
				go func() {
					_ = ddata.Update(t.Context(), d, words, ddata.Local, func(*ddata.ORSetTx[string]) error { pass(time.Minute); return nil })
				}()
			}
		},
		"a slow subscriber": func(t *testing.T, c *cluster) {
			for _, m := range c.nodes {
				ddata.SubscribePrefix(m.Data(""), ddata.ORSetKey[string](""), func(string, ddata.ORSet[string]) { pass(time.Minute) })
				if err := ddata.Update(t.Context(), m.Data(""), ddata.ORSetKey[string]("words"), ddata.Local, put); err != nil {
					t.Error(err)
				}
			}
		},
		"all terms of fences": func(t *testing.T, c *cluster) {
			for i := range 1100 {
				_ = ddata.Update(t.Context(), c.nodes[0].Data(""), ddata.ORSetKey[string]("words"), ddata.Majority, put,
					replicator.WithFence(replicator.Fence{Group: fmt.Sprint("group ", i), Term: 1}))
			}
		},
		"many keys": func(t *testing.T, c *cluster) {
			for i := range 10 {
				var ops []ddata.Op
				for j := range 4000 {
					ops = append(ops, ddata.Change(c.nodes[1].Data(""), ddata.ORSetKey[string](fmt.Sprint(i, "/", j)), put))
				}
				if err := c.nodes[1].Data("").Update(t.Context(), ddata.Local, ops); err != nil {
					t.Error(err)
				}
			}
		},
		"a flood": func(t *testing.T, c *cluster) {
			for _, m := range c.nodes {
				d := m.Data("")
				for i := range 50 {
					go func() {
						for range 200 {
							_ = ddata.Update(t.Context(), d, ddata.GCounterKey(fmt.Sprint(i)), ddata.Majority, func(c *ddata.GCounterTx) error { c.Add(1); return nil })
						}
					}()
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 0, func(c *cluster) {
				for i := range 3 {
					c.addWith(i, func(c *peerage.Config) {
						c.Name, c.DataDir = fmt.Sprint("n", i), t.TempDir()
						c.Data = map[string]peerage.DataConfig{"": {Durable: []string{"keep/"}}}
					}, nil)
				}
				c.ready(c.nodes...)
				harm(c.t, c)
				for i, m := range c.nodes {
					for id := range 8 {
						ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Second)
						if _, err := m.counters.Ask(ctx, fmt.Sprint("new ", i, id), add{1}); err != nil {
							t.Errorf("%s: an ask to a new id: %v", m.addr, err)
						}
						cancel()
					}
				}
			})
		})
	}
}
