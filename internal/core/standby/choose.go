package standby

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/wire"
)

// Choose returns the holders of a shard's copies: the owner first, then members
// of the role that are up, in the order of their rendezvous hashes, so that few
// copies move when members join and leave. Members of zones without a copy go first,
// then members on hosts without a copy. A member without a zone is in none of those
// without a copy. It returns as many holders as replicas, or all that exist.
func Choose(v *gossip.View, role, typ string, shard protocol.ShardID, owner gossip.NodeID, replicas int) []gossip.NodeID {
	type candidate struct {
		id         gossip.NodeID
		zone, host string
		weight     uint64
	}
	var left []candidate
	zones, hosts := map[string]bool{"": true}, map[string]bool{}
	for _, m := range v.WithRole(role) {
		switch {
		case m.ID == owner:
			zones[m.Zone], hosts[hostOf(m.Addr)] = true, true
		case m.Status == gossip.Up:
			left = append(left, candidate{m.ID, m.Zone, hostOf(m.Addr), weigh(typ, shard, m.ID)})
		}
	}
	slices.SortFunc(left, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.id, b.id))
	})
	chosen := []gossip.NodeID{owner}
	choose := func(fits func(*candidate) bool) {
		left = slices.DeleteFunc(left, func(c candidate) bool {
			if len(chosen) >= replicas || !fits(&c) {
				return false
			}
			zones[c.zone], hosts[c.host] = true, c.host != ""
			chosen = append(chosen, c.id)
			return true
		})
	}
	choose(func(c *candidate) bool { return !zones[c.zone] && !hosts[c.host] })
	choose(func(c *candidate) bool { return !zones[c.zone] })
	choose(func(c *candidate) bool { return !hosts[c.host] })
	choose(func(*candidate) bool { return true })
	return chosen
}

// hostOf returns the host of an address, "" if the address has none.
func hostOf(addr string) string {
	h, _, ok := strings.Cut(addr, ":")
	if i := strings.LastIndexByte(addr, ':'); ok && i > 0 {
		h = addr[:i]
	}
	return h
}

func weigh(typ string, shard protocol.ShardID, id gossip.NodeID) uint64 {
	h := fnv.New64a()
	b := wire.AppendString(nil, typ)
	b = wire.AppendU64(b, uint64(shard))
	h.Write(wire.AppendU64(b, uint64(id)))
	x := h.Sum64()
	// FNV leaves the high bits of like inputs alike.
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
