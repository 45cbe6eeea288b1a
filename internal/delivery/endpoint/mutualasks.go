package endpoint

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/loglimit"
)

// mutualAsks are the asks of entities on this node that have no reply yet, of all types, as
// pairs of hashes: asker, asked. An ask of the reverse pair most probably waits for the open
// one, and the open one for it. This is not certain, since a handler need not wait for its
// ask. So the ask is logged and counted, and continues.
type mutualAsks struct {
	log *slog.Logger
	// count is the number of pairs; messages read it without the mutex.
	count atomic.Int32
	mu    sync.Mutex
	pairs map[[2]uint64]int
	// lines folds the lines of the log.
	lines loglimit.Folder
}

// beginAsk records an ask, and returns the function that ends it.
func (m *mutualAsks) beginAsk(asker uint64, typ, id string) (end func()) {
	pair := [2]uint64{asker, activation.EntityHash(typ, id)}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pairs == nil {
		m.pairs = map[[2]uint64]int{}
	}
	m.pairs[pair]++
	m.count.Store(int32(len(m.pairs)))
	return func() { m.endAsk(pair) }
}

func (m *mutualAsks) endAsk(pair [2]uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pairs[pair]--; m.pairs[pair] == 0 {
		delete(m.pairs, pair)
	}
	m.count.Store(int32(len(m.pairs)))
}

// noteArrival reports whether an ask of asker, 0 for none, has arrived at an entity here that
// waits for a reply of asker, and logs it.
func (m *mutualAsks) noteArrival(asker uint64, typ, id string) (mutual bool) {
	if asker == 0 || m.count.Load() == 0 {
		return false
	}
	m.mu.Lock()
	mutual = m.pairs[[2]uint64{activation.EntityHash(typ, id), asker}] > 0
	m.mu.Unlock()
	if !mutual {
		return false
	}
	m.lines.Log(m.log, slog.LevelWarn, typ, "sharding: two entities ask each other: both wait until the deadlines of their asks; let one of them tell, or answer before it asks",
		"type", typ, "entity", id)
	return true
}
