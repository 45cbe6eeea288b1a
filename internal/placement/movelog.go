package placement

import (
	"slices"
	"sync"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Moves are shards that the coordinator of this node moved for one reason, at about the same
// time. All times are of this node's wall clock, and zero as long as no shard has got so far.
type Moves struct {
	// From is the former home, 0 if the coordinator does not have it.
	From gossip.NodeID
	Why  string
	// Shards is the number of shards, Hosted how many of them run at their new homes.
	Shards, Hosted int
	// Began is when the first of them began, with a coordinator that took over: when it did.
	// Chosen, Written and Done are when the last of them had a new home, the record of it
	// was replicated, and the shard ran there.
	Began, Chosen, Written, Done time.Time
}

const (
	// movesMax is how many Moves are kept.
	movesMax = 8
	// movesApart separates Moves: a shard joins those that began less than this ago.
	movesApart = 5 * time.Second
)

// The values of Moves.Why.
const (
	WhyFirst      = "placed first"
	WhyTakeover   = "a new coordinator placed them"
	WhyRebalanced = "moved in order"
)

// moveLog collects Moves from the trace of a coordinator. Its methods are safe for
// concurrent use.
type moveLog struct {
	mu     sync.Mutex
	groups []*Moves
	// open are the shards that do not run at their new homes yet.
	open map[strategy.ShardID]*Moves
	// office is when the coordinator took over.
	office time.Time
}

// addLine adds a trace event of the coordinator.
func (l *moveLog) addLine(t *traceLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch t.kind {
	case coordinator.TraceOffice:
		l.office = t.at
	case coordinator.TraceOfficeLeft:
		clear(l.open)
	case coordinator.TraceFreed:
		l.beginMove(t, t.node, t.detail, t.at)
	case coordinator.TraceMove:
		l.beginMove(t, 0, WhyRebalanced, t.at)
	case coordinator.TraceHandOff:
		if g := l.open[t.shard]; g != nil && g.From == 0 {
			g.From = t.node
		}
	case coordinator.TraceCancel:
		if g := l.open[t.shard]; g != nil {
			g.Shards--
			delete(l.open, t.shard)
		}
	case coordinator.TraceChosen:
		if l.open[t.shard] == nil {
			l.beginPlacing(t)
		}
		l.open[t.shard].Chosen = t.at
	case coordinator.TraceWritten:
		if g := l.open[t.shard]; g != nil {
			g.Written = t.at
		}
	case coordinator.TraceHosted:
		if g := l.open[t.shard]; g != nil {
			g.Hosted, g.Done = g.Hosted+1, t.at
			delete(l.open, t.shard)
		}
	}
}

// beginPlacing begins the move of a shard that had no home.
func (l *moveLog) beginPlacing(t *traceLine) {
	if t.at.Sub(l.office) < movesApart {
		l.beginMove(t, 0, WhyTakeover, l.office)
		return
	}
	l.beginMove(t, 0, WhyFirst, t.at)
}

// beginMove adds a shard to the Moves of the same reason, or to new ones. A shard of earlier
// Moves leaves them.
func (l *moveLog) beginMove(t *traceLine, from gossip.NodeID, why string, at time.Time) {
	if g := l.open[t.shard]; g != nil {
		g.Shards--
	}
	i := slices.IndexFunc(l.groups, func(g *Moves) bool {
		return g.Why == why && g.From == from && at.Sub(g.Began) < movesApart
	})
	if i < 0 {
		l.groups = append(l.groups[max(0, len(l.groups)-movesMax+1):], &Moves{From: from, Why: why, Began: at})
		i = len(l.groups) - 1
	}
	if l.open == nil {
		l.open = map[strategy.ShardID]*Moves{}
	}
	l.groups[i].Shards++
	l.open[t.shard] = l.groups[i]
}

// listMoves returns the newest Moves, the oldest first.
func (l *moveLog) listMoves() []Moves {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Moves
	for _, g := range l.groups {
		if g.Shards > 0 {
			out = append(out, *g)
		}
	}
	return out
}

// listOpen returns the shards that do not run at their new homes yet, sorted.
func (l *moveLog) listOpen() []strategy.ShardID {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]strategy.ShardID, 0, len(l.open))
	for shard := range l.open { // order-free: sorted below
		out = append(out, shard)
	}
	slices.Sort(out)
	return out
}
