package sharding

import (
	"fmt"

	"github.com/zeebo/xxh3"
)

// extractor maps an id to its shard: a pure function, equal on all nodes.
type extractor struct {
	shards uint32
	// custom is the application's, nil for the hash.
	custom func(id string) ShardID
}

// noShard is where an id belongs that the application's function has no answer for.
const noShard = ^ShardID(0)

func (e *extractor) of(id string) ShardID { return e.ofHashed(id, xxh3.HashString(id)) }

// locate is of, and false for an id without a shard.
func (e *extractor) locate(id string) (s ShardID, ok bool) {
	s = e.of(id)
	return s, s != noShard
}

// ofHashed is of for an id whose hash has been computed.
func (e *extractor) ofHashed(id string, hash uint64) ShardID {
	if e.custom == nil {
		return ShardID(hash % uint64(e.shards))
	}
	return e.ask(id)
}

// ofBytes is ofHashed for an id in someone else's buffer.
func (e *extractor) ofBytes(id []byte, hash uint64) ShardID {
	if e.custom == nil {
		return ShardID(hash % uint64(e.shards))
	}
	return e.ask(string(id))
}

// ask calls the application's function, which may be wrong: a panic must not take
// the reader of a connection down.
func (e *extractor) ask(id string) (s ShardID) {
	defer func() {
		if recover() != nil {
			s = noShard
		}
	}()
	if s = e.custom(id); uint32(s) >= e.shards {
		return noShard
	}
	return s
}

// probes is how many ids a fingerprint asks about.
const probes = 1024

// fingerprint tells functions apart that answer differently, as far as asking for
// some ids can: nodes compare it. That of the hash is zero.
func (e *extractor) fingerprint() uint64 {
	if e.custom == nil {
		return 0
	}
	var h xxh3.Hasher
	for i := range probes {
		s := e.of(fmt.Sprint(i))
		_, _ = h.Write([]byte{byte(s >> 24), byte(s >> 16), byte(s >> 8), byte(s)})
	}
	return max(h.Sum64(), 1)
}
