package sharding

import (
	"context"
	"fmt"

	"github.com/peerage-go/peerage/ddata"
	"github.com/peerage-go/peerage/replicator"
	"github.com/zeebo/xxh3"
)

// RememberedPrefix is the prefix of the keys that hold remembered entities, in the
// distributed data of the type's role. Make it durable if these entities must return after
// all nodes were down at the same time. "remembered/", the type, the shard and one of five
// parts follow.
const RememberedPrefix = "peerage/remembered/"

// rememberedParts is into how many OR-sets the ids of a shard are split: a change
// costs what it changes, but a repair sends a whole value.
const rememberedParts = 5

// rememberedPart says in which an id stands. Shards are chosen by the rest of the hash by
// their number: the part must not follow from that.
func rememberedPart(id string) uint64 { return (xxh3.HashString(id) >> 32) % rememberedParts }

func rememberedKey(typ string, shard ShardID, part uint64) ddata.ORSetKey[string] {
	return ddata.ORSetKey[string](fmt.Sprintf("%s%s/%d/%d", RememberedPrefix, typ, shard, part))
}

// Remember implements Rememberer.
func (s dataStore) Remember(ctx context.Context, typ string, shard ShardID, add, remove []string) error {
	var adds, removes [rememberedParts][]string
	for _, id := range add {
		part := rememberedPart(id)
		adds[part] = append(adds[part], id)
	}
	for _, id := range remove {
		part := rememberedPart(id)
		removes[part] = append(removes[part], id)
	}
	var ops []replicator.Op
	for part := range uint64(rememberedParts) {
		if len(adds[part])+len(removes[part]) == 0 {
			continue
		}
		ops = append(ops, ddata.Change(s.remembered, rememberedKey(typ, shard, part), func(set *ddata.ORSetTx[string]) error {
			for _, id := range adds[part] {
				if !set.Contains(id) {
					set.Add(id)
				}
			}
			for _, id := range removes[part] {
				set.Remove(id)
			}
			return nil
		}))
	}
	return s.remembered.Update(ctx, ddata.Majority, ops)
}

// Remembered implements Rememberer.
func (s dataStore) Remembered(ctx context.Context, typ string, shard ShardID) ([]string, error) {
	var ids []string
	for part := range uint64(rememberedParts) {
		set, err := ddata.Get(ctx, s.remembered, rememberedKey(typ, shard, part), ddata.Majority)
		if err != nil {
			return nil, err
		}
		for id := range set.All() {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
