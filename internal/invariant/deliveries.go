package invariant

import (
	"time"

	"github.com/peerage-go/peerage/internal/core/protocol"
)

// Deliveries checks the messages of reliable producers. Those to one entity run in their order,
// none is left out, and none runs twice, unless the memory of its shard was lost with its home; a
// message that was confirmed has run, and never runs again. One whose confirmation was still on the
// way when the memory was lost may: a copy may have been on its way to the next home by then.
type Deliveries struct {
	streams map[stream]*delivered
}

// stream is what one producer sends to one entity, whose messages are numbered from 1.
type stream struct {
	producer uint64
	entity   int
}

type delivered struct {
	shard protocol.ShardID
	// noted is the highest number that the memory of the shard has.
	noted uint64
	// aside are those that were put aside, and have not run to their end; ended are those that
	// have, and confirmed those for which the producer has an answer. unsure are those that had
	// ended when the memory was lost, and were not confirmed.
	aside, ended, confirmed, unsure map[uint64]bool
}

// NewDeliveries returns an empty checker.
func NewDeliveries() *Deliveries { return &Deliveries{streams: map[stream]*delivered{}} }

func (d *Deliveries) streamOf(producer uint64, entity int) *delivered {
	s := stream{producer, entity}
	if d.streams[s] == nil {
		d.streams[s] = &delivered{aside: map[uint64]bool{}, ended: map[uint64]bool{}, confirmed: map[uint64]bool{}, unsure: map[uint64]bool{}}
	}
	return d.streams[s]
}

// Runs records that a handler begins to work on a message.
func (d *Deliveries) Runs(at time.Duration, producer uint64, shard protocol.ShardID, entity int, n uint64) *Violation {
	s := d.streamOf(producer, entity)
	s.shard = shard
	switch {
	case s.aside[n]:
	case s.confirmed[n] && !s.unsure[n]:
		return broken("S2", at, "reliable message %d of producer %d to entity %d runs, although it was confirmed", n, producer, entity)
	case n <= s.noted:
		return broken("S2", at, "reliable message %d of producer %d to entity %d runs twice", n, producer, entity)
	}
	for missing := s.noted + 1; missing < n; missing++ {
		// Where a loss was possible, the memory may have arrived, with the messages that have ended.
		if !s.confirmed[missing] && !s.ended[missing] {
			return broken("S3", at, "reliable message %d of producer %d to entity %d runs before %d", n, producer, entity, missing)
		}
	}
	return nil
}

// Noted records that the memory of the shard has a message that was handled, or put aside.
func (d *Deliveries) Noted(producer uint64, entity int, n uint64, aside bool) {
	s := d.streamOf(producer, entity)
	s.noted = max(s.noted, n)
	if delete(s.aside, n); aside {
		s.aside[n] = true
	} else {
		s.ended[n] = true
	}
}

// EndedLate records that a message was handled at a home whose memory of the shard is lost: the
// next home had begun before the handler returned.
func (d *Deliveries) EndedLate(producer uint64, entity int, n uint64) {
	s := d.streamOf(producer, entity)
	s.ended[n], s.unsure[n] = true, !s.confirmed[n]
}

// Lost records that the memory of a shard was lost with its home.
func (d *Deliveries) Lost(shard protocol.ShardID) {
	for _, s := range d.streams { // order-free: each by itself
		if s.shard == shard {
			s.noted = 0
			clear(s.aside)
			for n := range s.ended { // order-free: each by itself
				s.unsure[n] = !s.confirmed[n]
			}
		}
	}
}

// Confirmed records that a producer has the answer that a message was handled.
func (d *Deliveries) Confirmed(at time.Duration, producer uint64, entity int, n uint64) *Violation {
	s := d.streamOf(producer, entity)
	switch {
	case !s.ended[n]:
		return broken("S10", at, "reliable message %d of producer %d to entity %d is confirmed, and has not run to its end", n, producer, entity)
	case s.confirmed[n]:
		return broken("S10", at, "reliable message %d of producer %d to entity %d is confirmed twice", n, producer, entity)
	}
	s.confirmed[n] = true
	return nil
}

// Flushed records that a producer has found its messages to an entity up to n confirmed.
func (d *Deliveries) Flushed(at time.Duration, producer uint64, entity int, n uint64) *Violation {
	s := d.streamOf(producer, entity)
	for k := uint64(1); k <= n; k++ {
		if !s.confirmed[k] {
			return broken("S10", at, "producer %d has flushed %d messages to entity %d, of which %d is not confirmed", producer, n, entity, k)
		}
	}
	return nil
}
