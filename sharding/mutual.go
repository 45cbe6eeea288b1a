package sharding

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/loglimit"
)

// mutualAsks are the asks of entities on this node that have no answer yet, of all types,
// as pairs of hashes: asker, asked. An ask of the reverse pair most probably waits for the
// open one, and the open one for it. This is not certain, since a handler need not wait for
// its ask. So the ask is logged and counted, and continues.
type mutualAsks struct {
	// known is the number of pairs; messages read it without the mutex.
	known atomic.Int32
	mu    sync.Mutex
	pairs map[[2]uint64]int
	// said limits the rate of the log.
	said loglimit.Budget
}

// asking notes an ask, and returns the function that ends it.
func (p *path[Req, Resp]) asking(asker uint64, id string) (end func()) {
	inc := p.now.Load()
	if inc == nil {
		return func() {}
	}
	m, pair := inc.mutual, [2]uint64{asker, activation.EntityHash(p.name, id)}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pairs == nil {
		m.pairs = map[[2]uint64]int{}
	}
	m.pairs[pair]++
	m.known.Store(int32(len(m.pairs)))
	return func() { m.end(pair) }
}

func (m *mutualAsks) end(pair [2]uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pairs[pair]--; m.pairs[pair] == 0 {
		delete(m.pairs, pair)
	}
	m.known.Store(int32(len(m.pairs)))
}

// noteMutual counts an ask of asker, 0 for none, that has come to an entity here which
// waits for an answer of asker.
func (p *path[Req, Resp]) noteMutual(asker uint64, id string) {
	inc := p.now.Load()
	if asker == 0 || inc == nil || inc.mutual.known.Load() == 0 {
		return
	}
	m := inc.mutual
	m.mu.Lock()
	mutual := m.pairs[[2]uint64{activation.EntityHash(p.name, id), asker}] > 0
	m.mu.Unlock()
	if !mutual {
		return
	}
	p.counters.mutualAsks.Add(1)
	if unsaid, ok := m.said.Take(time.Now()); ok {
		inc.log.Warn("sharding: two entities ask each other: both wait until the deadlines of their asks; let one of them tell, or answer before it asks",
			"type", p.name, "entity", id, "unsaid", unsaid)
	}
}
