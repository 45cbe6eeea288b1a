package placement

import (
	"context"
	"encoding/binary"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/ddata"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/wire"
	"github.com/peerage-go/peerage/replicator"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// DataStore returns a Store in the distributed data of a role. The records of a type are
// one LWWMap from shard to home, ordered by token, and two ORSets of nodes, so a write
// costs as much as it changes. Remembered entities are in separate data, which may be
// durable: its failures delay no shard's home. lost returns what the replicator of the records
// knows of lost ones (Records.Lost).
func DataStore(self gossip.NodeID, records, remembered *ddata.Data, lost func() gossip.Epoch) Store {
	return dataStore{self, records, remembered, lost}
}

type dataStore struct {
	self          gossip.NodeID
	d, remembered *ddata.Data
	lost          func() gossip.Epoch
}

// StorePrefix is the prefix of the keys that hold the coordinators' records. The records
// are valid for one life of a cluster: they must neither outlive it on a disk nor expire.
const StorePrefix = "peerage/sharding/"

// tableKey and setKey are the types of the keys that hold records.
type (
	tableKey = ddata.Key[ddata.LWWMap[string, string], *ddata.LWWMapTx[string, string]]
	setKey   = ddata.Key[ddata.ORSet[string], *ddata.ORSetTx[string]]
)

func shardsKey(typ string) tableKey {
	return ddata.LWWMapKey[string, string](StorePrefix + typ + "/shards")
}

func regionsKey(typ string) setKey {
	return ddata.ORSetKey[string](StorePrefix + typ + "/regions")
}

func proxiesKey(typ string) setKey {
	return ddata.ORSetKey[string](StorePrefix + typ + "/proxies")
}

func placesKey(typ string) tableKey {
	return ddata.LWWMapKey[string, string](StorePrefix + typ + "/places")
}

func fenceOption(typ string, term gossip.Epoch) replicator.Option {
	return replicator.WithFence(replicator.Fence{Group: StorePrefix + typ, Term: uint64(term)})
}

// Write implements Store.
func (s dataStore) Write(ctx context.Context, typ string, w coordinator.Write) error {
	var ops []ddata.Op
	if len(w.Records) > 0 {
		ops = append(ops, ddata.Change(s.d, shardsKey(typ), func(m *ddata.LWWMapTx[string, string]) error {
			for _, r := range w.Records {
				at := crdt.Stamp{Time: uint64(r.Token.Term), Node: crdt.NodeID(s.self), Seq: r.Token.Seq}
				m.OfferAt(shardKey(r.Shard), appendRecord(r), at)
			}
			return nil
		}))
	}
	sets := func(key setKey, add []gossip.NodeID) {
		if len(add)+len(w.Gone) == 0 {
			return
		}
		ops = append(ops, ddata.Change(s.d, key, func(set *ddata.ORSetTx[string]) error {
			for _, n := range add {
				if e := nodeKey(n); !set.Contains(e) {
					set.Add(e)
				}
			}
			for _, n := range w.Gone {
				set.Remove(nodeKey(n))
			}
			return nil
		}))
	}
	sets(regionsKey(typ), w.Regions)
	sets(proxiesKey(typ), w.Proxies)
	return s.d.Update(ctx, ddata.Majority, ops, fenceOption(typ, w.Term))
}

// Read implements Store.
func (s dataStore) Read(ctx context.Context, typ string, term gossip.Epoch) (Records, error) {
	var found Records
	m, err := ddata.Get(ctx, s.d, shardsKey(typ), ddata.Majority, fenceOption(typ, term))
	if err != nil {
		return found, err
	}
	for k, v := range m.All() {
		if r, ok := readRecord(k, v); ok {
			found.Shards = append(found.Shards, r)
		}
	}
	if found.Regions, err = s.nodes(ctx, regionsKey(typ), fenceOption(typ, term)); err != nil {
		return found, err
	}
	found.Proxies, err = s.nodes(ctx, proxiesKey(typ), fenceOption(typ, term))
	found.Lost = s.lost()
	return found, err
}

func (s dataStore) nodes(ctx context.Context, key setKey, opt replicator.Option) ([]gossip.NodeID, error) {
	set, err := ddata.Get(ctx, s.d, key, ddata.Majority, opt)
	if err != nil {
		return nil, err
	}
	var nodes []gossip.NodeID
	for e := range set.All() {
		if len(e) == 8 {
			nodes = append(nodes, gossip.NodeID(binary.BigEndian.Uint64([]byte(e))))
		}
	}
	return nodes, nil
}

// Place implements Placer.
func (s dataStore) Place(ctx context.Context, typ string, wanted map[strategy.ShardID]string) error {
	return ddata.Update(ctx, s.d, placesKey(typ), ddata.Majority, func(m *ddata.LWWMapTx[string, string]) error {
		for shard, name := range wanted {
			if name == "" {
				m.Delete(shardKey(shard))
				continue
			}
			m.Set(shardKey(shard), name)
		}
		return nil
	})
}

// WatchPlaces implements Placer.
func (s dataStore) WatchPlaces(typ string, fn func(map[strategy.ShardID]string)) (cancel func()) {
	return ddata.Subscribe(s.d, placesKey(typ), func(m ddata.LWWMap[string, string]) {
		wanted := map[strategy.ShardID]string{}
		for k, name := range m.All() {
			if len(k) == 4 {
				wanted[strategy.ShardID(binary.BigEndian.Uint32([]byte(k)))] = name
			}
		}
		fn(wanted)
	})
}

func shardKey(s strategy.ShardID) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(s)))
}

func nodeKey(n gossip.NodeID) string { return string(wire.AppendU64(nil, uint64(n))) }

func appendRecord(r protocol.Record) string {
	b := wire.AppendU64(nil, uint64(r.Home))
	b = wire.AppendU64(b, uint64(r.Token.Term))
	b = wire.AppendUvarint(b, r.Token.Seq)
	b = wire.AppendU64(append(b, byte(r.State)), uint64(r.From))
	if r.From != 0 {
		b = wire.AppendUvarint(wire.AppendU64(b, uint64(r.Ended.Term)), r.Ended.Seq)
	}
	if r.Moves > 0 {
		b = wire.AppendU64(append(b, r.Moves), uint64(r.Since))
	}
	return string(b)
}

// readRecord reads one entry; one that is none of ours is left out.
func readRecord(key, value string) (protocol.Record, bool) {
	if len(key) != 4 {
		return protocol.Record{}, false
	}
	in := wire.NewReader([]byte(value))
	r := protocol.Record{
		Shard: strategy.ShardID(binary.BigEndian.Uint32([]byte(key))),
		Home:  gossip.NodeID(in.U64()),
		Token: protocol.Token{Term: gossip.Epoch(in.U64()), Seq: in.Uvarint()},
		State: protocol.RecordState(in.Byte()),
		From:  gossip.NodeID(in.U64()),
	}
	if r.From != 0 {
		r.Ended = protocol.Token{Term: gossip.Epoch(in.U64()), Seq: in.Uvarint()}
	}
	if in.Left() > 0 {
		r.Moves, r.Since = in.Byte(), gossip.Epoch(in.U64())
	}
	return r, in.Err() == nil
}
