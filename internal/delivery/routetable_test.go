package delivery

import (
	"testing"
	"unsafe"

	"github.com/peerage-go/peerage/internal/core/route"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Events for all routes, and queries, take no memory for shards that the node does not use.
func TestUnusedRoutesTakeNoMemory(t *testing.T) {
	if size := unsafe.Sizeof(shardRoute{}); size > 120 {
		t.Errorf("a route has %d bytes", size)
	}
	r := NewRouter(RouterConfig{Type: "t", Shards: 100})
	passed := 0
	event := func(*route.Route[Message]) { passed++ }
	r.onRoutes(nil, event)
	if s := r.Status(99); passed != 0 || s.State != "unknown" || r.routes.usedRoute(99) != nil {
		t.Errorf("no route is used: an event was passed to %d of them, and one is %+v", passed, s)
	}
	rt := r.routes.routeTo(99)
	if rt.shard != 99 || rt != r.routes.routeTo(99) || rt != r.routes.usedRoute(99) || r.routes.usedRoute(95) != nil {
		t.Errorf("the route to shard 99 is that to %d, or not always the same", rt.shard)
	}
	shards := map[strategy.ShardID]bool{}
	for rt := range r.routes.usedRoutes() {
		shards[rt.shard] = true
	}
	if len(shards) != 4 || !shards[96] || !shards[99] {
		t.Errorf("the routes in use are %v", shards)
	}
}
