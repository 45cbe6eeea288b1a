package crdt

import (
	"math/bits"

	"github.com/zeebo/xxh3"
)

// Digests are sums of the hashes of the parts, modulo 2^64: each change adds
// or takes away its own part, and the order in which parts came plays no role.
const (
	hashKey0    = 0xa0761d6478bd642f
	hashKey1    = 0xe7037ed1a0b428db
	hashIntKey  = 0x8ebc6af09c88c6e3
	hashSpanKey = 0x589965cc75374cc3
)

// mix hashes two words into one.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^hashKey0, b^hashKey1)
	return hi ^ lo ^ a + b
}

func dotHash(node NodeID, seq, payload uint64) uint64 {
	return mix(mix(uint64(node), seq), payload)
}

func spanHash(node NodeID, from, to uint64) uint64 {
	return mix(mix(uint64(node), from)^hashSpanKey, to)
}

func stampHash(s Stamp) uint64 { return mix(mix(s.Time, s.Seq), uint64(s.Node)) }

// SaltedDigest returns a hash of the canonical encoding of v under a salt. It
// costs as much as encoding v. Two values with equal digests and unequal content,
// one pair in 2^64, can be distinguished by comparing salted digests from time to time.
func SaltedDigest(v Value, salt uint64) uint64 { return xxh3.HashSeed(v.Append(nil), salt) }
