package metrics

import "github.com/peerage-go/peerage/sharding"

// reliableSeries are about at-least-once delivery.
func reliableSeries() []series {
	return []series{
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
