package endpoint

import (
	"fmt"

	"github.com/peerage-go/peerage/sharding/strategy"
	"github.com/zeebo/xxh3"
)

// Extractor maps an id to its shard: a pure function, equal on all nodes.
type Extractor struct {
	Shards uint32
	// Custom is the application's function; nil means the hash.
	Custom func(id string) strategy.ShardID
}

// NoShard is the result for an id for which the application's function returns no shard.
const NoShard = ^strategy.ShardID(0)

// ShardOf returns the shard of an id.
func (e *Extractor) ShardOf(id string) strategy.ShardID {
	return e.ofHashed(id, xxh3.HashString(id))
}

// Locate is ShardOf, and reports whether the id has a shard.
func (e *Extractor) Locate(id string) (s strategy.ShardID, ok bool) {
	s = e.ShardOf(id)
	return s, s != NoShard
}

// ofHashed is ShardOf for an id whose hash has been computed.
func (e *Extractor) ofHashed(id string, hash uint64) strategy.ShardID {
	if e.Custom == nil {
		return strategy.ShardID(hash % uint64(e.Shards))
	}
	return e.callCustom(id)
}

// ofBytes is ofHashed for an id in a buffer that is reused.
func (e *Extractor) ofBytes(id []byte, hash uint64) strategy.ShardID {
	if e.Custom == nil {
		return strategy.ShardID(hash % uint64(e.Shards))
	}
	return e.callCustom(string(id))
}

// callCustom calls the application's function, which may be wrong: a panic must not end the
// reader of the connection.
func (e *Extractor) callCustom(id string) (s strategy.ShardID) {
	defer func() {
		if recover() != nil {
			s = NoShard
		}
	}()
	if s = e.Custom(id); uint32(s) >= e.Shards {
		return NoShard
	}
	return s
}

// probes is the number of ids for which a fingerprint calls the function.
const probes = 1024

// Fingerprint distinguishes functions with different results, as far as calls for some ids
// can. Nodes compare fingerprints. That of the hash is zero.
func (e *Extractor) Fingerprint() uint64 {
	if e.Custom == nil {
		return 0
	}
	var h xxh3.Hasher
	for i := range probes {
		s := e.ShardOf(fmt.Sprint(i))
		_, _ = h.Write([]byte{byte(s >> 24), byte(s >> 16), byte(s >> 8), byte(s)})
	}
	return max(h.Sum64(), 1)
}
