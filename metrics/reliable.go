package metrics

import "github.com/peerage-go/peerage/sharding"

// reliableSeries returns the series of at-least-once delivery and of remembered entities.
func reliableSeries() []series {
	return []series{
		counter("entity_activations_total", "Entity instances started, by cause.", func(s *scrape, emit emitter) {
			s.eachType(anyType, func(t *sharding.Stats) {
				emit(float64(t.Activated-min(t.Remembered.Recalled, t.Activated)), t.Type, "message")
			})
			s.eachType(remembers, func(t *sharding.Stats) { emit(float64(t.Remembered.Recalled), t.Type, "remembered") })
		}, "type", "source"),
		gauge("remembered_updates_waiting", "Remembered entities whose start or end is not yet stored.",
			perTypeIf(remembers, func(t *sharding.Stats) float64 { return float64(t.Remembered.Waiting) }), "type"),
		counter("remembered_updates_dropped_total", "Updates of remembered entities given up because too many waited for the store: ends, and starts in shards that had left.",
			perTypeIf(remembers, func(t *sharding.Stats) float64 { return float64(t.Remembered.Dropped) }), "type"),
		counter("remembered_store_errors_total", "Failed reads and writes of the store of remembered entities; each is retried.",
			perTypeIf(remembers, func(t *sharding.Stats) float64 { return float64(t.Remembered.Failed) }), "type"),
		gauge("reliable_unconfirmed_messages", "Unacknowledged messages of this node's reliable producers.",
			perTypeIf(producesReliably, func(t *sharding.Stats) float64 { return float64(t.Reliable.Unconfirmed) }), "type"),
		counter("reliable_messages_total", "Finished messages of this node's reliable producers, by result.", func(s *scrape, emit emitter) {
			s.eachType(producesReliably, func(t *sharding.Stats) {
				emit(float64(t.Reliable.Confirmed), t.Type, "confirmed")
				emit(float64(t.Reliable.GivenUp), t.Type, "given_up")
			})
		}, "type", "result"),
		counter("reliable_resends_total", "Retransmissions by this node's reliable producers.",
			perTypeIf(producesReliably, func(t *sharding.Stats) float64 { return float64(t.Reliable.Resends) }), "type"),
		rare(counterPerType("reliable_duplicates_total", "Duplicates of reliable messages that this node received after the message had run.",
			func(t *sharding.Stats) float64 { return float64(t.Reliable.Repeated) })),
		rare(counterPerType("reliable_forgotten_producers_total", "Reliable producers whose deduplication state a shard of this node evicted for lack of room.",
			func(t *sharding.Stats) float64 { return float64(t.Reliable.Forgotten) })),
	}
}

// producesReliably reports whether a reliable producer of this node has sent a message.
func producesReliably(t *sharding.Stats) bool {
	return t.Reliable.Unconfirmed > 0 || t.Reliable.Confirmed+t.Reliable.GivenUp+t.Reliable.Resends > 0
}
