package placement

import (
	"context"
	"fmt"

	"github.com/peerage-go/peerage/ddata"
	"github.com/peerage-go/peerage/sharding/strategy"
	"github.com/zeebo/xxh3"
)

// RememberedPrefix is sharding.RememberedPrefix.
const RememberedPrefix = "peerage/remembered/"

// RememberedParts is into how many OR-sets the ids of a shard are split: a change
// costs what it changes, but a repair sends a whole value.
const RememberedParts = 5

// RememberedPart returns the part of an id. The shard of an id follows from the other bits of
// the hash: the part must not follow from the shard.
func RememberedPart(id string) uint64 { return (xxh3.HashString(id) >> 32) % RememberedParts }

func rememberedKey(typ string, shard strategy.ShardID, part uint64) setKey {
	return ddata.ORSetKey[string](fmt.Sprintf("%s%s/%d/%d", RememberedPrefix, typ, shard, part))
}

// Remember implements Rememberer.
func (s dataStore) Remember(ctx context.Context, typ string, shard strategy.ShardID, add, remove []string) error {
	var adds, removes [RememberedParts][]string
	for _, id := range add {
		part := RememberedPart(id)
		adds[part] = append(adds[part], id)
	}
	for _, id := range remove {
		part := RememberedPart(id)
		removes[part] = append(removes[part], id)
	}
	var ops []ddata.Op
	for part := range uint64(RememberedParts) {
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
func (s dataStore) Remembered(ctx context.Context, typ string, shard strategy.ShardID) ([]string, error) {
	var ids []string
	for part := range uint64(RememberedParts) {
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
