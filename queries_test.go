package peerage_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/sharding"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Any node answers queries about the whole cluster: the shards of each node, the place of
// an entity, and why.
func TestPagesThatAskAllNodes(t *testing.T) {
	inBubble(t, 3, func(c *cluster) {
		ctx := context.Background()
		for i := range 50 {
			if _, err := c.nodes[0].counters.Ask(ctx, fmt.Sprint(i), add{1}); err != nil {
				t.Fatal(err)
			}
		}
		get := func(path string, into any) string {
			t.Helper()
			w := httptest.NewRecorder()
			c.nodes[2].Handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
			text := w.Body.String()
			if into != nil {
				if err := json.Unmarshal([]byte(text), into); err != nil {
					t.Errorf("%s: %v in %s", path, err, text)
				}
			}
			return fmt.Sprint(w.Code, " ", text)
		}
		var shards struct {
			Nodes []struct {
				Coordinating bool
				Shards       []struct{ Entities int }
			}
		}
		entities := 0
		text := get("/shards?type=counter", &shards)
		for _, n := range shards.Nodes {
			for _, s := range n.Shards {
				entities += s.Entities
			}
		}
		if len(shards.Nodes) != 3 || entities != 50 || !shards.Nodes[0].Coordinating {
			t.Errorf("%d entities in %s", entities, text)
		}
		for i, m := range c.nodes {
			if s, ok := m.Registry().Stats("counter"); !ok || s.Coordinating != (i == 0) {
				t.Errorf("node %d coordinates: %v, %v", i, s.Coordinating, ok)
			}
		}
		var where struct{ Name, Node string }
		if text := get("/where?type=counter&id=7", &where); where.Node == "" {
			t.Error(text)
		}
		var history struct {
			Events []struct{ Kind, Token string }
		}
		if text := get("/explain?type=counter&id=7", &history); !strings.Contains(text, `"kind": "shard hosted"`) || len(history.Events) < 5 {
			t.Error(text)
		}
		for path, want := range map[string]string{
			"/shards?type=nose":              "404",
			"/where?type=counter&id=":        "400",
			"/explain?type=counter&shard=x":  "400",
			"/explain?type=counter&shard=12": "404",
		} {
			if got := get(path, nil); !strings.HasPrefix(got, want) {
				t.Errorf("%s: %s, want %s", path, got, want)
			}
		}
	})
}

// The places that the application chose are in the role's replicated data, so every
// coordinator has them.
func TestPlacesOutliveTheCoordinator(t *testing.T) {
	inBubble(t, 0, func(c *cluster) {
		var regions []*sharding.Region[add, tally]
		for i := range 3 {
			m := c.add(i)
			r, err := sharding.Register(m.Registry(), sharding.Type[add, tally]{
				Name: "placed", Shards: 4, Strategy: strategy.External{},
				New: func(string) sharding.Entity[add, tally] { return &counter{node: m.Node} },
			})
			if err != nil {
				t.Fatal(err)
			}
			regions = append(regions, r)
		}
		c.ready(c.nodes...)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		wanted := map[sharding.ShardID]string{}
		for i := range sharding.ShardID(4) {
			wanted[i] = c.nodes[2].Self().Name
		}
		if err := c.nodes[1].Registry().Place(ctx, "placed", wanted); err != nil {
			t.Fatal(err)
		}
		if err := c.nodes[0].Close(); err != nil {
			t.Fatal(err)
		}
		for i := range 8 {
			id := fmt.Sprint(i)
			if _, err := regions[1].Ask(ctx, id, add{1}, sharding.Retry()); err != nil {
				t.Fatal(err)
			}
			// A shard that is requested before its target has registered with the new
			// coordinator starts at the requesting node, and moves at the next rebalance.
			c.until(20*time.Second, id+" is where the application wants it", func() bool {
				at, err := c.nodes[1].Registry().Where(ctx, "placed", id)
				return err == nil && at.Node == c.nodes[2].Self().ID
			})
		}
	})
}

func ExampleNode_Handler() {
	node, err := peerage.Start(context.Background(), peerage.Config{})
	if err != nil {
		panic(err)
	}
	defer node.Close()
	w := httptest.NewRecorder()
	node.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/shards?type=nose", nil))
	fmt.Print(w.Code, " ", w.Body)
	// Output: 404 sharding: entity type is not registered: "nose" on this node
}
