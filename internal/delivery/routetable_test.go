package delivery

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/route"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Events for all routes, and queries, take no memory for shards that the node does not use.
func TestUnusedRoutesTakeNoMemory(t *testing.T) {
	if size := unsafe.Sizeof(shardRoute{}); size > 112 {
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

// openRouter returns a router with an open route to node 2 for each of its shards.
func openRouter(shards uint32) (*Router, *Incarnation) {
	w := &world{there: map[gossip.NodeID][][]byte{}, down: map[gossip.NodeID]bool{}, full: map[gossip.NodeID]bool{}}
	inc := &Incarnation{Self: self, Links: w, Ctx: context.Background(), Work: &sync.WaitGroup{}, Need: func(strategy.ShardID) {}}
	r := NewRouter(RouterConfig{Type: "t", Shards: shards, Counters: &Counters{}, Local: w})
	r.now.Store(inc)
	for s := range strategy.ShardID(shards) {
		r.OpenRoute(inc, s, 2, protocol.Token{Term: 1, Seq: 1})
	}
	return r, inc
}

// TestLookVisitsRoutesThatWait checks that a look visits the suspended routes, each once, and none
// after they flow again.
func TestLookVisitsRoutesThatWait(t *testing.T) {
	r, inc := openRouter(64)
	visited := func() (n int) {
		r.looking.lookAt(func(*shardRoute) { n++ })
		return n
	}
	if n := visited(); n != 0 {
		t.Errorf("nothing waits, and a look visits %d routes", n)
	}
	for range 2 {
		r.OnPeerLost(inc, 2)
		r.OnPeerLost(inc, 2)
		if down := r.Look(inc); !slices.Equal(down, []gossip.NodeID{2}) {
			t.Errorf("the routes to node 2 are suspended, and a look finds %v", down)
		}
		if n := visited(); n != 64 {
			t.Errorf("64 routes are suspended, and a look visits %d", n)
		}
		r.OnPeerUp(inc, 2)
		visited() // routes leave the list when they are visited
		if n := visited(); n != 0 || r.looking.routes != nil {
			t.Errorf("all routes flow, and a look visits %d of %d", n, len(r.looking.routes))
		}
	}
}

// BenchmarkLook measures a look while nothing waits, at two numbers of shards.
func BenchmarkLook(b *testing.B) {
	for _, shards := range []uint32{1024, 32768} {
		b.Run(fmt.Sprint(shards), func(b *testing.B) {
			r, inc := openRouter(shards)
			for b.Loop() {
				r.Look(inc)
			}
		})
	}
}
