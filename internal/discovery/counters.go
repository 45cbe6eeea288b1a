package discovery

import "sync/atomic"

// Counters are the counters of discovery.
type Counters struct {
	// Suspicions and Refutations are memberlist's; Undecryptable counts messages without
	// a fitting key.
	Suspicions, Refutations, Undecryptable atomic.Uint64
	// Discovered and SuspectedByGossip count nodes that memberlist considers alive, and no
	// longer considers alive.
	Discovered, SuspectedByGossip            atomic.Uint64
	PacketIn, PacketOut, StreamIn, StreamOut TrafficCounter
	// The datagrams, names, streams and hints that were refused or dropped, by reason.
	PacketsDropped, PacketsNotOurs atomic.Uint64
	PacketsForbidden, PacketsFlood atomic.Uint64
	NamesRefused, StreamsRefused   atomic.Uint64
	HintsDropped                   atomic.Uint64
}

// Traffic is a number of messages and of their bytes.
type Traffic struct{ Messages, Bytes uint64 }

// TrafficCounter counts messages and their bytes, safe for concurrent use.
type TrafficCounter struct{ messages, bytes atomic.Uint64 }

// Count counts a message of n bytes.
func (t *TrafficCounter) Count(n int) {
	t.messages.Add(1)
	t.bytes.Add(uint64(max(n, 0)))
}

// Load returns the present counts.
func (t *TrafficCounter) Load() Traffic {
	return Traffic{Messages: t.messages.Load(), Bytes: t.bytes.Load()}
}
