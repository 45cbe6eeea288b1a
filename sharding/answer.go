package sharding

import (
	"sync"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/transport"
)

// queries are the queries of this node in flight, and those of other nodes that are being
// answered.
type queries struct {
	mu   sync.Mutex
	last uint64
	open map[uint64]chan answered
	// answering counts goroutines. Invariant: at most answeringMax.
	answering int
}

// answered is one node's answer to a question of ours.
type answered struct {
	from gossip.NodeID
	*protocol.Answer
}

// answeringMax bounds the questions answered side by side; what comes beyond them
// is dropped, and asked again.
const answeringMax = 4

// begin opens a question to so many nodes.
func (q *queries) begin(nodes int) (id uint64, answers <-chan answered, end func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last++
	id = q.last
	// Room for every node's answer, and for one doubled by a resend: an answer without room
	// is a duplicate.
	ch := make(chan answered, 2*nodes)
	if q.open == nil {
		q.open = map[uint64]chan answered{}
	}
	q.open[id] = ch
	return id, ch, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.open, id)
	}
}

func (q *queries) settle(from gossip.NodeID, m *protocol.Answer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if ch := q.open[m.ID]; ch != nil {
		select {
		case ch <- answered{from, m}:
		default:
		}
	}
}

// may takes one of the places for answering.
func (q *queries) may() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.answering >= answeringMax {
		return false
	}
	q.answering++
	return true
}

func (q *queries) done() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.answering--
}

// handleQuery takes a question or an answer. Answers are made in goroutines of
// their own: a type may have many shards, and the reader of the connection has
// more urgent things to do.
func (s *service) handleQuery(from gossip.NodeID, m protocol.Message) {
	switch m := m.(type) {
	case *protocol.Answer:
		s.queries.settle(from, m)
	case *protocol.Query:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closed || !s.queries.may() {
			s.overrun.Add(1)
			return
		}
		s.work.Go(func() {
			defer s.queries.done()
			// Lost, it is asked for again.
			_ = s.cfg.Links.Send(from, transport.Control, transport.KindCoordinator, protocol.Append(nil, s.answer(m)))
		})
	}
}

// answer answers a query from the state of this node.
func (s *service) answer(q *protocol.Query) *protocol.Answer {
	a := &protocol.Answer{Head: protocol.Head{Type: q.Type}, ID: q.ID}
	s.mu.Lock()
	sh := s.shells[q.Type]
	s.mu.Unlock()
	if sh == nil {
		return a
	}
	if q.HasShard {
		a.Events = sh.trace.events(q.Shard)
	}
	if sh.path == nil {
		return a
	}
	stats := sh.path.stats()
	a.Known, a.Hosts, a.Office = true, s.hosts(&sh.info), sh.office() != 0
	a.Settings = protocol.Settings{Shards: sh.info.shards, Role: sh.info.role, Capacity: s.cfg.Capacity, ShardOf: sh.info.print, Keeps: sh.info.keeps, Messages: sh.info.messages}
	a.Buffered = uint64(stats.Buffered)
	a.Lives = q.HasShard && q.Entity != "" && sh.path.lives(q.Shard, q.Entity)
	for i := range sh.info.shards {
		shard := ShardID(i)
		if q.HasShard && shard != q.Shard {
			continue
		}
		if token := sh.path.hosted(shard); !token.IsZero() {
			a.Shards = append(a.Shards, protocol.ShardLoad{
				Shard: shard, Token: token, Entities: uint32(sh.path.population(shard)),
			})
		}
	}
	return a
}
