package placement

import (
	"cmp"
	"slices"
	"sync"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/sharding/strategy"
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

// answered is one node's answer to a query of this node.
type answered struct {
	from gossip.NodeID
	*protocol.Answer
}

// answeringMax bounds the queries answered side by side. More are dropped, and sent again by
// their nodes.
const answeringMax = 4

// beginQuery opens a query to so many nodes.
func (q *queries) beginQuery(nodes int) (id uint64, answers <-chan answered, end func()) {
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

// addAnswer adds an answer to its query, if that is open.
func (q *queries) addAnswer(from gossip.NodeID, m *protocol.Answer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if ch := q.open[m.ID]; ch != nil {
		select {
		case ch <- answered{from, m}:
		default:
		}
	}
}

// takePlace takes one of the places for answering, and reports false if there is none.
func (q *queries) takePlace() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.answering >= answeringMax {
		return false
	}
	q.answering++
	return true
}

func (q *queries) freePlace() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.answering--
}

// handleQuery handles a query or an answer. Answers are made in goroutines of their own: a
// type may have many shards, and the reader of the connection has more urgent work.
func (ds *Drivers) handleQuery(from gossip.NodeID, m protocol.Message) {
	switch m := m.(type) {
	case *protocol.Answer:
		ds.queries.addAnswer(from, m)
	case *protocol.Query:
		ds.mu.Lock()
		defer ds.mu.Unlock()
		if ds.closed || !ds.queries.takePlace() {
			ds.overrun.Add(1)
			return
		}
		ds.env.Work.Go(func() {
			defer ds.queries.freePlace()
			// Ignore a send error: the query is sent again until it is answered.
			_ = ds.cfg.Links.Send(from, transport.Control, transport.KindCoordinator, protocol.Append(nil, ds.Answer(m)))
		})
	}
}

// Answer answers a query from the state of this node.
func (ds *Drivers) Answer(q *protocol.Query) *protocol.Answer {
	a := &protocol.Answer{Head: protocol.Head{Type: q.Type}, ID: q.ID}
	if q.Figures && ds.cfg.Figures != nil {
		if f := ds.cfg.Figures(); len(f) <= protocol.FiguresBytesMax {
			a.Figures = string(f)
		}
	}
	d := ds.driverOf(q.Type)
	if d == nil {
		return a
	}
	if q.HasShard {
		a.Events = d.trace.shardEvents(q.Shard)
	}
	if d.endpoint == nil {
		return a
	}
	t := &d.typ
	a.Known, a.Hosts, a.Office = true, ds.Hosts(t), d.OfficeTerm() != 0
	a.Settings = protocol.Settings{Shards: t.Shards, Role: t.Role, Capacity: ds.cfg.Capacity, ShardOf: t.ShardOf, Keeps: t.Keeps, Messages: t.Messages}
	a.Buffered = uint64(d.endpoint.Buffered())
	if q.Search {
		a.Entities = d.searchEntities(q.Entity)
		return a
	}
	if q.HasShard && q.Entity != "" {
		a.Entities = d.describeEntity(q.Shard, q.Entity)
		a.Lives = a.Entities != nil
	}
	for i := range t.Shards {
		shard := strategy.ShardID(i)
		if q.HasShard && shard != q.Shard {
			continue
		}
		if token := d.endpoint.HostedUnder(shard); !token.IsZero() {
			a.Shards = append(a.Shards, protocol.ShardLoad{
				Shard: shard, Token: token, Entities: uint32(d.endpoint.Population(shard)),
			})
		}
	}
	return a
}

// describeEntity returns the state of an entity's instance here, nil if there is none.
func (d *TypeDriver) describeEntity(shard strategy.ShardID, id string) []protocol.EntityState {
	e, ok := d.endpoint.Describe(shard, id)
	if !ok {
		return nil
	}
	return d.addStateBytes([]protocol.EntityState{e})
}

// searchEntities returns the states of the instances here whose id contains text, sorted by
// id: the first EntitiesMax of them.
func (d *TypeDriver) searchEntities(text string) (found []protocol.EntityState) {
	for i := range d.typ.Shards {
		found = append(found, d.endpoint.Search(strategy.ShardID(i), text, protocol.EntitiesMax)...)
		if len(found) > 2*protocol.EntitiesMax {
			found = firstByID(found)
		}
	}
	return d.addStateBytes(firstByID(found))
}

func firstByID(found []protocol.EntityState) []protocol.EntityState {
	slices.SortFunc(found, func(a, b protocol.EntityState) int { return cmp.Compare(a.ID, b.ID) })
	return found[:min(len(found), protocol.EntitiesMax)]
}

// addStateBytes sets the sizes of replicated states.
func (d *TypeDriver) addStateBytes(all []protocol.EntityState) []protocol.EntityState {
	states := d.States()
	if states == nil {
		return all
	}
	for i := range all {
		e := &all[i]
		e.StateBytes = uint64(states.StateSize(e.Shard, d.endpoint.HostedUnder(e.Shard), e.ID))
	}
	return all
}
