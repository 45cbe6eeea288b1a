package reliable

import (
	"cmp"
	"maps"
	"slices"

	"github.com/peerage-go/peerage/internal/wire"
)

const (
	idBytesMax = 4096
	// encodedMax keeps an encoded Memory well within a frame.
	encodedMax = 2 << 20
)

// Append appends m for its shard's next home, or nothing if m is empty. Messages put
// aside that have not run by now will not run here. Producers that find no room are
// evicted, the longest silent first, and counted.
func (m *Memory) Append(b []byte) []byte {
	byUse := slices.SortedFunc(maps.Keys(m.producers), func(x, y Producer) int {
		return cmp.Compare(m.producers[y].used, m.producers[x].used)
	})
	for i, n := range byUse {
		one := m.appendOne(nil, n)
		if len(b)+len(one) > encodedMax && i > 0 {
			m.Forgotten += uint64(len(byUse) - i)
			break
		}
		b = append(b, one...)
	}
	return b
}

// appendOne writes one producer:
//
//	producer 8 | floor 8 | count | count x (id | last | aside count | aside...)
func (m *Memory) appendOne(b []byte, n Producer) []byte {
	p := m.producers[n]
	b = wire.AppendU64(b, uint64(n))
	b = wire.AppendU64(b, p.floor)
	b = wire.AppendUvarint(b, uint64(len(p.last)))
	for _, id := range slices.Sorted(maps.Keys(p.last)) {
		r := p.last[id]
		b = wire.AppendString(b, id)
		b = wire.AppendUvarint(b, r.last)
		b = wire.AppendUvarint(b, uint64(len(r.aside)))
		for _, seq := range slices.Sorted(maps.Keys(r.aside)) {
			b = wire.AppendUvarint(b, seq)
		}
	}
	return b
}

// Restore fills an empty Memory with what Append encoded. If it fails with ErrMalformed,
// m is empty.
func (m *Memory) Restore(b []byte) error {
	in := wire.NewReader(b)
	for in.Err() == nil && in.Left() > 0 {
		m.restoreOne(in)
	}
	if in.Err() != nil {
		*m = Memory{}
		return ErrMalformed
	}
	return nil
}

func (m *Memory) restoreOne(in *wire.Reader) {
	n, floor := Producer(in.U64()), in.U64()
	p := &past{floor: floor, last: map[string]*record{}}
	for range in.Count("records", 3) {
		id := in.String("id", idBytesMax)
		r := &record{last: in.Uvarint()}
		for range in.Count("aside", 1) {
			if r.aside == nil {
				r.aside = map[uint64]bool{}
			}
			r.aside[in.Uvarint()] = false
		}
		if p.last[id] != nil || r.last == 0 {
			in.Fail(ErrMalformed)
			return
		}
		p.last[id] = r
		p.order = append(p.order, recorded{r.last, id})
	}
	if in.Err() != nil {
		return
	}
	if n == 0 || m.producers[n] != nil || len(m.producers) >= ProducersMax {
		in.Fail(ErrMalformed)
		return
	}
	// The records that ran first are evicted first. Producers come most used first.
	slices.SortFunc(p.order, func(x, y recorded) int { return cmp.Compare(x.seq, y.seq) })
	p.used = uint64(ProducersMax - len(m.producers))
	m.uses = ProducersMax
	if m.producers == nil {
		m.producers = map[Producer]*past{}
	}
	m.producers[n] = p
	m.records += len(p.last)
}
