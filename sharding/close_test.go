package sharding

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// ticker counts its ticks; it is stuck when it is told so.
type ticker struct {
	ticks *atomic.Int64
	gate  chan struct{}
}

func (k *ticker) OnStart(ctx *Context) error { return ctx.Every("tick", 10*time.Millisecond) }

func (k *ticker) OnTimer(*Context, string) error { k.ticks.Add(1); return nil }

func (k *ticker) Handle(_ *Context, stay bool) (int, error) {
	if stay {
		<-k.gate
	}
	return 0, nil
}

// Close drops the instances of all types at once. A handler that does not return holds
// up its end, and lets nothing of the other types go on meanwhile.
func TestCloseDropsAllTypesAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		n := c.add("n1")
		var ticks atomic.Int64
		gate := make(chan struct{})
		var regions []*Region[bool, int]
		for i := range 8 {
			r, err := Register(n.reg, Type[bool, int]{
				Name: fmt.Sprint("t", i), Shards: 4,
				New: func(string) Entity[bool, int] { return &ticker{&ticks, gate} },
			})
			if err != nil {
				t.Fatal(err)
			}
			regions = append(regions, r)
		}
		n.start()
		c.install(n)
		for _, r := range regions {
			if err := r.Start(within(t, time.Second), "a"); err != nil {
				t.Fatal(err)
			}
		}
		if err := regions[3].Tell(t.Context(), "a", true); err != nil {
			t.Fatal(err)
		}
		pass(100 * time.Millisecond)
		closed := make(chan error, 1)
		go func() { closed <- n.s.Close(context.Background()) }()
		synctest.Wait()
		before := ticks.Load()
		pass(time.Second)
		if after := ticks.Load(); before == 0 || after != before {
			t.Errorf("%d ticks before Close, and %d during it", before, after-before)
		}
		close(gate)
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}
