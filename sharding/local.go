package sharding

import (
	"fmt"
	"slices"
)

// Local returns the shards that run on this node now, by number, with the ids of their
// entities. It returns nil on a proxy, and while the node is in no cluster. It sends no
// message, and takes time and memory in proportion to the number of entities.
// Registry.Cluster queries all nodes, for numbers only.
func (r *Region[Req, Resp]) Local() []ShardStats {
	h := r.p.host.Load()
	if h == nil {
		return nil
	}
	var all []ShardStats
	for i := range ShardID(r.p.shards) {
		if s := h.Shard(i); s != nil {
			ids := s.IDs()
			slices.Sort(ids)
			all = append(all, ShardStats{Shard: i, Token: s.Token(), Entities: len(ids), IDs: ids})
		}
	}
	return all
}

// SetEntityLimit changes Passivation.Limit of the type on this node, for as long as the
// process lives. Instances above a lower limit begin to end within a second. It fails with
// *TypeError if the type has no limit, or if limit is not positive.
func (r *Region[Req, Resp]) SetEntityLimit(limit int) error {
	if r.p.typ.Passivation.Limit == 0 || limit < 1 {
		return &TypeError{Type: r.p.name, Wrong: []string{fmt.Sprintf("limit of %d instances: it must be positive, and the type must have one (Passivation)", limit)}}
	}
	r.p.limit.Store(int64(limit))
	return nil
}
