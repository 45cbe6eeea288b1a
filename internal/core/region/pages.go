package region

import (
	"iter"

	"github.com/peerage-go/peerage/internal/core/protocol"
)

// pageShards is the number of shards in a page of a shardTable.
const pageShards = 64

// shardTable has an entry for each shard of a type. It makes a page of entries when one of them
// is first used, so a type of which this node uses nothing takes little memory. Entries of
// other pages are blank. The page of a type with few shards is made immediately.
type shardTable[T any] struct {
	shards int
	pages  []*[pageShards]T
}

func newShardTable[T any](shards int) shardTable[T] {
	t := shardTable[T]{shards, make([]*[pageShards]T, (shards+pageShards-1)/pageShards)}
	if len(t.pages) == 1 {
		t.pages[0] = new([pageShards]T)
	}
	return t
}

// hasShard reports whether the type has the shard.
func (t *shardTable[T]) hasShard(s protocol.ShardID) bool { return int(s) < t.shards }

// entryOf returns the entry of a shard, which the type must have.
func (t *shardTable[T]) entryOf(s protocol.ShardID) *T {
	page := &t.pages[s/pageShards]
	if *page == nil {
		*page = new([pageShards]T)
	}
	return &(*page)[s%pageShards]
}

// usedShards yields the shards of all pages, in order, with their entries. It yields every shard
// whose entry is not blank.
func (t *shardTable[T]) usedShards() iter.Seq2[protocol.ShardID, *T] {
	return func(yield func(protocol.ShardID, *T) bool) {
		for p, page := range t.pages {
			if page == nil {
				continue
			}
			for i := range page {
				s := protocol.ShardID(p*pageShards + i)
				if !t.hasShard(s) || !yield(s, &page[i]) {
					return
				}
			}
		}
	}
}

// hostList has the entries of the shards that live on this node. A node hosts few of the shards
// that it sends to, so each entry is made by itself. Other shards have the zero host.
type hostList struct{ entries shardTable[*host] }

func newHostList(shards int) hostList { return hostList{newShardTable[*host](shards)} }

func (l *hostList) hasShard(s protocol.ShardID) bool { return l.entries.hasShard(s) }

// copyOf returns a copy of the entry of a shard, which the type must have. It makes none.
func (l *hostList) copyOf(s protocol.ShardID) host {
	if h := *l.entries.entryOf(s); h != nil {
		return *h
	}
	return host{}
}

// entryOf returns the entry of a shard, which the type must have. It makes one that is missing.
func (l *hostList) entryOf(s protocol.ShardID) *host {
	h := l.entries.entryOf(s)
	if *h == nil {
		*h = new(host)
	}
	return *h
}

// drop drops the entry of a shard.
func (l *hostList) drop(s protocol.ShardID) { *l.entries.entryOf(s) = nil }

// usedShards yields the shards with an entry, in order.
func (l *hostList) usedShards() iter.Seq2[protocol.ShardID, *host] {
	return func(yield func(protocol.ShardID, *host) bool) {
		for s, h := range l.entries.usedShards() {
			if *h != nil && !yield(s, *h) {
				return
			}
		}
	}
}
