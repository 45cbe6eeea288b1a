package delivery

import (
	"iter"
	"sync"
	"sync/atomic"

	"github.com/peerage-go/peerage/internal/core/route"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// routePage is the number of routes in a page of a routeTable.
const routePage = 16

// routeTable has the route to each shard of a type. It makes a page of routes when one of them is
// first used, so a type that this node does not use takes little memory. Routes of other pages
// have no home, and nothing waits on them. It is safe for concurrent use.
type routeTable struct {
	shards uint32
	pages  []atomic.Pointer[[routePage]shardRoute]
}

func newRouteTable(shards uint32) routeTable {
	return routeTable{shards, make([]atomic.Pointer[[routePage]shardRoute], (shards+routePage-1)/routePage)}
}

// routeTo returns the route to a shard, which the type must have.
func (t *routeTable) routeTo(shard strategy.ShardID) *shardRoute {
	at := &t.pages[shard/routePage]
	page := at.Load()
	if page == nil {
		page = newRoutePage(at, shard)
	}
	return &page[shard%routePage]
}

// usedRoute returns the route to a shard, nil if its page is not in use.
func (t *routeTable) usedRoute(shard strategy.ShardID) *shardRoute {
	if page := t.pages[shard/routePage].Load(); page != nil {
		return &page[shard%routePage]
	}
	return nil
}

// newRoutePage makes the page of a shard, unless another goroutine was faster.
func newRoutePage(at *atomic.Pointer[[routePage]shardRoute], shard strategy.ShardID) *[routePage]shardRoute {
	page := &[routePage]shardRoute{}
	for i := range page {
		page[i].shard = shard - shard%routePage + strategy.ShardID(i)
	}
	if !at.CompareAndSwap(nil, page) {
		return at.Load()
	}
	return page
}

// usedRoutes yields the routes of all pages. It yields every route that an event was passed to.
func (t *routeTable) usedRoutes() iter.Seq[*shardRoute] {
	return func(yield func(*shardRoute) bool) {
		for p := range t.pages {
			page := t.pages[p].Load()
			for i := 0; page != nil && i < routePage; i++ {
				if uint32(page[i].shard) >= t.shards || !yield(&page[i]) {
					return
				}
			}
		}
	}
}

// lookList has the routes that need a look. The mutex of a route may be held when that of the list
// is taken, not the reverse.
type lookList struct {
	mu     sync.Mutex
	routes []*shardRoute
}

// noteRoute lists a route that needs a look; called with the mutex of the route, after each event
// that may change that.
func (l *lookList) noteRoute(rt *shardRoute) {
	if rt.listed || !route.NeedsLook(&rt.core) {
		return
	}
	rt.listed = true
	l.mu.Lock()
	defer l.mu.Unlock()
	l.routes = append(l.routes, rt)
}

// lookAt calls look for each route in the list, with its mutex. Routes that need no further look
// leave the list.
func (l *lookList) lookAt(look func(*shardRoute)) {
	l.mu.Lock()
	all := l.routes
	l.routes = nil
	l.mu.Unlock()
	kept := all[:0]
	for _, rt := range all {
		rt.mu.Lock()
		look(rt)
		if rt.listed = route.NeedsLook(&rt.core); rt.listed {
			kept = append(kept, rt)
		}
		rt.mu.Unlock()
	}
	if len(kept) > 0 {
		l.mu.Lock()
		l.routes = append(kept, l.routes...)
		l.mu.Unlock()
	}
}
