package reliable

import "github.com/peerage-go/peerage/internal/assert"

// Verdict is what a shard does with a copy.
type Verdict uint8

const (
	// Run means that the message is next. Run it, and call Ran.
	Run Verdict = iota
	// Duplicate means that the message ran before. Confirm it.
	Duplicate
	// Gap means that an earlier message for the same entity is missing. Refuse the copy.
	Gap
	// Waiting means that an earlier copy of the message was set aside and will run in its
	// turn. Do not reply.
	Waiting
)

// Memory is what one shard remembers of its producers. The zero Memory remembers
// nothing and is ready. Its owner guards it.
type Memory struct {
	producers map[Producer]*past
	// records counts those of all producers. Invariant: it is their sum, and at most
	// RecordsMax unless a single producer has more.
	records int
	uses    uint64
	// Forgotten counts producers that were evicted to make room.
	Forgotten uint64
}

const (
	// ProducersMax bounds the producers that a shard remembers.
	ProducersMax = 1024
	// RecordsMax bounds the records of a shard.
	RecordsMax = 16_384
)

// past is the record of one producer.
type past struct {
	floor uint64
	last  map[string]*record
	// order holds what was recorded, oldest first, for forgetting it.
	order []recorded
	used  uint64
}

type recorded struct {
	seq uint64
	id  string
}

// record is about one entity.
type record struct {
	// last is the highest number that ran or was put aside.
	last uint64
	// aside are numbers up to last that did not run to their end: true while they
	// wait, false when the wait has failed and they may come again.
	aside map[uint64]bool
}

// Check returns the verdict on a copy whose turn has come. resumed is set for a copy that
// had been put aside.
func (m *Memory) Check(id string, s Stamp, resumed bool) Verdict {
	if resumed {
		return Run
	}
	p := m.past(s.Producer)
	if s.Floor > p.floor {
		p.floor = s.Floor
		m.trim(p)
	}
	if s.Seq < p.floor {
		return Duplicate
	}
	r := p.last[id]
	if r == nil {
		r = &record{}
	}
	waits, aside := r.aside[s.Seq]
	switch {
	case aside && waits:
		return Waiting
	case aside:
		return Run
	case s.Seq <= r.last:
		return Duplicate
	case s.Prev > r.last && s.Prev >= p.floor:
		return Gap
	}
	return Run
}

// assertNext asserts that a message that runs has not run, and that its predecessor has.
func (p *past) assertNext(id string, r *record, s Stamp) {
	_, waited := r.aside[s.Seq]
	switch {
	case s.Seq <= r.last && !waited:
		assert.Broken("S2", "message %d of producer %v for %q runs after %d, and did not wait", s.Seq, s.Producer, id, r.last)
	case s.Seq > r.last && s.Prev > r.last && s.Prev >= p.floor:
		assert.Broken("S3", "message %d of producer %v for %q runs after %d, before %d", s.Seq, s.Producer, id, r.last, s.Prev)
	}
}

// Ran notes that a copy was handled, or put aside.
func (m *Memory) Ran(id string, s Stamp, aside bool) {
	p := m.past(s.Producer)
	if s.Seq < p.floor {
		return
	}
	r := p.last[id]
	if r == nil {
		r = &record{}
		if p.last == nil {
			p.last = map[string]*record{}
		}
		p.last[id] = r
		m.records++
	}
	if assert.Enabled {
		p.assertNext(id, r, s)
	}
	if s.Seq > r.last {
		r.last = s.Seq
		p.order = append(p.order, recorded{s.Seq, id})
	}
	delete(r.aside, s.Seq)
	if aside {
		if r.aside == nil {
			r.aside = map[uint64]bool{}
		}
		r.aside[s.Seq] = true
	}
	m.makeRoom(s.Producer)
}

// All reports whether every message of a producer, up to the last copy that ran for an
// entity, has run to its end.
func (m *Memory) All(id string, n Producer) bool {
	p := m.producers[n]
	return p != nil && (p.last[id] == nil || len(p.last[id].aside) == 0)
}

// Undo notes that a copy that was put aside will not be handled after all.
func (m *Memory) Undo(id string, s Stamp) {
	if p := m.producers[s.Producer]; p != nil {
		if r := p.last[id]; r != nil && r.aside[s.Seq] {
			r.aside[s.Seq] = false
		}
	}
}

// Size returns the number of producers and records.
func (m *Memory) Size() (producers, records int) { return len(m.producers), m.records }

func (m *Memory) past(n Producer) *past {
	p := m.producers[n]
	if p == nil {
		if m.producers == nil {
			m.producers = map[Producer]*past{}
		}
		p = &past{}
		m.producers[n] = p
		m.makeRoom(n)
	}
	m.uses++
	p.used = m.uses
	return p
}

// trim drops the records below the floor.
func (m *Memory) trim(p *past) {
	for len(p.order) > 0 && p.order[0].seq < p.floor {
		e := p.order[0]
		if r := p.last[e.id]; r != nil && r.last == e.seq {
			delete(p.last, e.id)
			m.records--
		}
		p.order[0] = recorded{}
		p.order = p.order[1:]
	}
}

// makeRoom evicts the producers that were silent longest until the bounds hold.
func (m *Memory) makeRoom(keep Producer) {
	for len(m.producers) > 1 && (len(m.producers) > ProducersMax || m.records > RecordsMax) {
		var oldest Producer
		for n, p := range m.producers { // order-free: the minimum of distinct numbers
			if n != keep && (oldest == 0 || p.used < m.producers[oldest].used) {
				oldest = n
			}
		}
		m.records -= len(m.producers[oldest].last)
		delete(m.producers, oldest)
		m.Forgotten++
	}
}
