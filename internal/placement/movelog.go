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

// The causes and phases of the durations that moveLog reports.
const (
	causeFailure  = "failure"
	causeTakeover = "takeover"
	causeHandoff  = "handoff"

	phaseStop  = "stop"
	phaseWrite = "write"
	phaseStart = "start"
	phaseTotal = "total"
)

// moveLog collects Moves from the trace of a coordinator. Its methods are safe for
// concurrent use.
type moveLog struct {
	mu     sync.Mutex
	groups []*Moves
	// open are the shards that do not run at their new homes yet.
	open map[strategy.ShardID]*openMove
	// office is when the coordinator took over.
	office time.Time
	// observe receives the durations of phases, unless it is nil.
	observe func(cause, phase string, took time.Duration)
	// report receives sums of moves for the log, unless it is nil: sum since lineAt, when it has
	// received the last one. line is set while the next one is due.
	report func(moveSum)
	sum    moveSum
	lineAt time.Time
	line   *time.Timer
}

// moveSum counts shards that run at a new home.
type moveSum struct {
	failure, takeover, handoff int
	// longest is the duration of the longest move.
	longest time.Duration
}

const (
	// sumAfter is how long moves are summed up before the log has a line about them.
	sumAfter = 2 * time.Second
	// sumApart is the shortest time between two of these lines.
	sumApart = time.Minute
)

// addToSum counts a move that has ended, and has it reported.
func (l *moveLog) addToSum(m *openMove, at time.Time) {
	switch m.cause {
	case causeFailure:
		l.sum.failure++
	case causeTakeover:
		l.sum.takeover++
	case causeHandoff:
		l.sum.handoff++
	default:
		return // a shard's first home is no news
	}
	l.sum.longest = max(l.sum.longest, at.Sub(m.began))
	if l.report != nil && l.line == nil {
		l.line = time.AfterFunc(max(sumAfter, time.Until(l.lineAt.Add(sumApart))), l.reportSum)
	}
}

// reportSum reports the moves since the last report, if there are any.
func (l *moveLog) reportSum() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.line == nil {
		return
	}
	l.line.Stop()
	l.report(l.sum)
	l.sum, l.line, l.lineAt = moveSum{}, nil, time.Now()
}

// openMove is one shard on its way to a new home.
type openMove struct {
	*Moves
	// cause is "" for a shard that had no home before: its duration is not reported.
	cause string
	// began is when the shard began to move, phase when its present phase did.
	began, phase time.Time
}

// endPhase reports the duration of a phase that has ended.
func (l *moveLog) endPhase(m *openMove, phase string, at time.Time) {
	if m.cause != "" && l.observe != nil {
		l.observe(m.cause, phase, at.Sub(m.phase))
	}
	m.phase = at
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
		l.beginMove(t, openMove{Moves: &Moves{From: t.node, Why: t.detail, Began: t.at}, cause: causeFailure})
	case coordinator.TraceMove:
		l.beginMove(t, openMove{Moves: &Moves{Why: WhyRebalanced, Began: t.at}, cause: causeHandoff})
	case coordinator.TraceChosen:
		if l.open[t.shard] == nil {
			l.beginPlacing(t)
		}
		l.open[t.shard].Chosen = t.at
	default:
		if m := l.open[t.shard]; m != nil {
			l.advanceMove(m, t)
		}
	}
}

// advanceMove updates a shard on its way.
func (l *moveLog) advanceMove(m *openMove, t *traceLine) {
	switch t.kind {
	case coordinator.TraceHandOff:
		if m.From == 0 {
			m.From = t.node
		}
	case coordinator.TraceStopped:
		if m.cause == causeHandoff {
			l.endPhase(m, phaseStop, t.at)
		}
	case coordinator.TraceCancel:
		m.Shards--
		delete(l.open, t.shard)
	case coordinator.TraceWritten:
		m.Written = t.at
		l.endPhase(m, phaseWrite, t.at)
	case coordinator.TraceHosted:
		m.Hosted, m.Done = m.Hosted+1, t.at
		l.endPhase(m, phaseStart, t.at)
		m.phase = m.began
		l.endPhase(m, phaseTotal, t.at)
		l.addToSum(m, t.at)
		delete(l.open, t.shard)
	}
}

// beginPlacing begins the move of a shard without a home: a new one, or one whose home was lost with
// the former coordinator.
func (l *moveLog) beginPlacing(t *traceLine) {
	m := openMove{Moves: &Moves{Why: WhyFirst, Began: t.at}}
	if t.detail == coordinator.AllocatedBefore && t.at.Sub(l.office) < movesApart {
		m.Why, m.Began, m.cause = WhyTakeover, l.office, causeTakeover
	}
	l.beginMove(t, m)
}

// beginMove adds a shard to the Moves of the same reason, or to those of m. A shard of earlier
// Moves leaves them.
func (l *moveLog) beginMove(t *traceLine, m openMove) {
	if former := l.open[t.shard]; former != nil {
		former.Shards--
	}
	i := slices.IndexFunc(l.groups, func(g *Moves) bool {
		return g.Why == m.Why && g.From == m.From && m.Began.Sub(g.Began) < movesApart
	})
	m.began, m.phase = m.Began, m.Began
	if i < 0 {
		l.groups = append(l.groups[max(0, len(l.groups)-movesMax+1):], m.Moves)
	} else {
		m.Moves = l.groups[i]
	}
	if l.open == nil {
		l.open = map[strategy.ShardID]*openMove{}
	}
	m.Shards++
	l.open[t.shard] = &m
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

// countOpen returns the shards that had a home and have none now, and those that a handoff moves.
func (l *moveLog) countOpen() (homeless, moving int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.open { // order-free: counted
		if m.cause == causeHandoff {
			moving++
		} else {
			homeless++
		}
	}
	return homeless, moving
}

// OpenShards returns, on the coordinator's node, how many shards had a home and have none now, and
// how many a handoff moves.
func (d *TypeDriver) OpenShards() (homeless, moving int) { return d.moves.countOpen() }
