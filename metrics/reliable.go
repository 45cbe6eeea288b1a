package metrics

import "github.com/peerage-go/peerage/sharding"

// reliableSeries are about at-least-once delivery, and remembered entities.
func reliableSeries() []series {
	return []series{
		counter("entity_activations_total", "Instances that began, by what woke them.", func(s *scrape, emit emitter) {
			for i := range s.types {
				t := &s.types[i]
				emit(float64(t.Activated-min(t.Remembered.Recalled, t.Activated)), t.Type, "message")
				emit(float64(t.Remembered.Recalled), t.Type, "remembered")
			}
		}, "type", "source"),
		gauge("remembered_updates_waiting", "Entities whose beginning or end is not in the store yet.",
			perType(func(t *sharding.Stats) float64 { return float64(t.Remembered.Waiting) }), "type"),
		counter("remembered_updates_dropped_total", "Beginnings and ends of entities that found no room to wait for the store.",
			perType(func(t *sharding.Stats) float64 { return float64(t.Remembered.Dropped) }), "type"),
		counter("remembered_store_errors_total", "Reads and writes of remembered entities that failed, and are made again.",
			perType(func(t *sharding.Stats) float64 { return float64(t.Remembered.Failed) }), "type"),
		gauge("reliable_unconfirmed_messages", "Messages of reliable producers here that are not confirmed.",
			perType(func(t *sharding.Stats) float64 { return float64(t.Reliable.Unconfirmed) }), "type"),
		counter("reliable_messages_total", "Messages of reliable producers here that are over, by result.", func(s *scrape, emit emitter) {
			for i := range s.types {
				t := &s.types[i]
				emit(float64(t.Reliable.Confirmed), t.Type, "confirmed")
				emit(float64(t.Reliable.GivenUp), t.Type, "given_up")
			}
		}, "type", "result"),
		counter("reliable_resends_total", "Copies that reliable producers here sent beyond the first.",
			perType(func(t *sharding.Stats) float64 { return float64(t.Reliable.Resends) }), "type"),
		counter("reliable_duplicates_total", "Copies of reliable messages that came here and had run before.",
			perType(func(t *sharding.Stats) float64 { return float64(t.Reliable.Repeated) }), "type"),
		counter("reliable_forgotten_producers_total", "Reliable producers whose memory a shard here gave up for lack of room.",
			perType(func(t *sharding.Stats) float64 { return float64(t.Reliable.Forgotten) }), "type"),
	}
}
