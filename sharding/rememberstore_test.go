package sharding_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/sharding"
)

// TestRememberedEntitiesStandInTheDataOfTheirRole goes through the real store.
func TestRememberedEntitiesStandInTheDataOfTheirRole(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	node, err := peerage.Start(ctx, peerage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	r, err := sharding.Register(node.Registry(), sharding.Type[string, string]{
		Name: "ticker", Shards: 1, Remember: true,
		New: func(string) sharding.Entity[string, string] { return ticker{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 20 {
		id := fmt.Sprintf("t%02d", i)
		want = append(want, id)
		if _, err := r.Ask(ctx, id, "stay", sharding.Retry()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Ask(ctx, "t20", "retire"); err != nil {
		t.Fatal(err)
	}
	store := placement.DataStore(0, node.Data(""), node.Data(""), nil).(placement.Rememberer)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		got, err := store.Remembered(ctx, "ticker", 0)
		slices.Sort(got)
		if err == nil && slices.Equal(got, want) && r.Stats().Remembered.Waiting == 0 {
			if len(want) < 20 {
				return
			}
			// One that stands there already is taken away.
			if _, err := r.Ask(ctx, want[5], "retire"); err != nil {
				t.Fatal(err)
			}
			want = slices.Delete(want, 5, 6)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%v are remembered, %v; %+v", got, err, r.Stats().Remembered)
		}
	}
}
