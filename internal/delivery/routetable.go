package delivery

import (
	"iter"
	"sync/atomic"

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
