package region

import (
	"slices"
	"testing"

	"github.com/peerage-go/peerage/internal/core/protocol"
)

// Pages are made at the first use of one of their shards, and all used shards are found in order.
func TestShardTableMakesPagesThatAreUsed(t *testing.T) {
	table := newShardTable[int](2*pageShards + 3)
	for _, s := range []protocol.ShardID{2*pageShards + 2, 5} {
		*table.entryOf(s) = int(s)
	}
	if table.pages[0] == nil || table.pages[1] != nil || table.pages[2] == nil {
		t.Errorf("pages %v", table.pages)
	}
	var used []protocol.ShardID
	for s, v := range table.usedShards() {
		if *v != 0 {
			used = append(used, s)
		}
		if v != table.entryOf(s) {
			t.Errorf("shard %d: not its entry", s)
		}
	}
	if !slices.Equal(used, []protocol.ShardID{5, 2*pageShards + 2}) || !table.hasShard(2*pageShards+2) || table.hasShard(2*pageShards+3) {
		t.Errorf("used %v", used)
	}
	for range table.usedShards() {
		break
	}
}

// A type that a node does not run costs little there, however many shards it has.
func TestAForeignTypeTakesNoMemoryForItsShards(t *testing.T) {
	c := New(Config{Self: 1, Type: "foreign", Shards: protocol.ShardsMax, Foreign: true}, &Floors{})
	for _, page := range c.routes.list.pages {
		if page != nil {
			t.Fatal("a page of routes without a use")
		}
	}
	for _, page := range c.hosts.list.pages {
		if page != nil {
			t.Fatal("a page of hosts without a use")
		}
	}
}
