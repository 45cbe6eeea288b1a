package region

import (
	"slices"
	"testing"
	"unsafe"

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
	for _, page := range c.hosts.list.entries.pages {
		if page != nil {
			t.Fatal("a page of hosts without a use")
		}
	}
}

// TestHostListForgetsDroppedShards checks that a hostList has entries of the shards that live here
// alone, that a look makes none, and that an entry begins anew when its shard comes back.
func TestHostListForgetsDroppedShards(t *testing.T) {
	list := newHostList(3 * pageShards)
	made := func() (n int) {
		for range list.usedShards() {
			n++
		}
		return n
	}
	if h := list.copyOf(pageShards); h != (host{}) || made() != 0 {
		t.Errorf("a look finds %+v, and there are %d entries", h, made())
	}
	list.entryOf(pageShards + 7).phase = running
	list.entryOf(2).phase = starting
	if list.copyOf(pageShards+7).phase != running || list.copyOf(2).phase != starting || made() != 2 {
		t.Errorf("there are %d entries, %+v and %+v", made(), list.copyOf(pageShards+7), list.copyOf(2))
	}
	list.drop(2)
	for s, h := range list.usedShards() {
		if s != pageShards+7 || h != list.entryOf(s) {
			t.Errorf("shard %d is left, with %+v", s, h)
		}
		break
	}
	if h := list.entryOf(2); *h != (host{}) || made() != 2 {
		t.Errorf("a dropped shard comes back as %+v", h)
	}
}

// A node has a route for each shard of a page in use, and a host for each shard that lives there.
func TestShardsAtRestAreSmall(t *testing.T) {
	if r, h := unsafe.Sizeof(route{}), unsafe.Sizeof(host{}); r > 64 || h > 48 {
		t.Errorf("a route has %d bytes, a host %d", r, h)
	}
}

// TestAShardTableHasAsManyPagesAsItNeeds checks the number of pages, and that the only page of a type with few shards is
// made immediately.
func TestAShardTableHasAsManyPagesAsItNeeds(t *testing.T) {
	for shards, want := range map[int]int{1: 1, pageShards - 1: 1, pageShards: 1, pageShards + 1: 2, 2 * pageShards: 2, 2*pageShards + 1: 3} {
		table := newShardTable[int](shards)
		if len(table.pages) != want || (table.pages[0] != nil) != (want == 1) {
			t.Errorf("%d shards have %d pages, want %d; the first is made: %v", shards, len(table.pages), want, table.pages[0] != nil)
		}
	}
}
