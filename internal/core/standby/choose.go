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
// copies move when members join and leave. Members on hosts without a copy go
// first. It returns as many holders as replicas, or all that exist.
func Choose(v *gossip.View, role, typ string, shard protocol.ShardID, owner gossip.NodeID, replicas int) []gossip.NodeID {
	type candidate struct {
		id     gossip.NodeID
		host   string
		weight uint64
	}
	var all []candidate
	used := map[string]bool{}
	for _, m := range v.WithRole(role) {
		switch {
		case m.ID == owner:
			used[hostOf(m.Addr)] = true
		case m.Status == gossip.Up:
			all = append(all, candidate{m.ID, hostOf(m.Addr), weigh(typ, shard, m.ID)})
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.id, b.id))
	})
	chosen := []gossip.NodeID{owner}
	var rest []gossip.NodeID
	for _, c := range all {
		if len(chosen) < replicas && !used[c.host] {
			used[c.host] = c.host != ""
			chosen = append(chosen, c.id)
			continue
		}
		rest = append(rest, c.id)
	}
	return append(chosen, rest[:max(0, min(replicas-len(chosen), len(rest)))]...)
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
