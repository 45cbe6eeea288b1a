package activation

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation/evict"
	"github.com/peerage-go/peerage/internal/core/reliable"
	"github.com/zeebo/xxh3"
)

// Shard is a hosted shard: a map of instances under one mutex, which is also the
// mutex of all their mailboxes. It is held for the length of a look-up and an
// append, never while user code runs.
//
// An instance is in one of five states, and only these transitions exist:
//
//	resting --mail, stop--> running --mailbox empty--> resting (or gone)
//	running --no lease--> parked --Resume--> running
//	running --OnStop too slow--> loose (gone, and a new one takes its place)
//	running --panic, with back-off--> holding --time, stop--> running
//
// A running instance waits in a run queue or is in the hands of a goroutine. The
// goroutine takes the whole mailbox (a box) at once and works it off without the mutex; what arrives meanwhile
// gathers in the next box. So the mutex is taken once per batch on the receiving
// side, and order is that of the appends.
//
// Ordering duties. `gone` is set under the mutex before the mailboxes are
// emptied, and a runner reads it before each dispatch: so after abandon returns
// no handler begins. `stopping` is set under the mutex: a message is either in a
// mailbox before it, and will be handled, or is refused.
//
// A mutex per entity was tried on paper first: it costs 8 bytes per entity and a
// second lock per message, and buys nothing, since hundreds of shards spread the load.
type Shard[C, Req, Resp any] struct {
	info   shardInfo
	host   *Host[C, Req, Resp]
	cancel context.CancelFunc
	// gone: abandoned or ended. Invariant: once set, entities is nil.
	gone atomic.Bool

	mu       sync.Mutex
	entities map[string]*instance[C, Req, Resp]
	// recent are some of entities, for find.
	recent [recentMost]*instance[C, Req, Resp]
	// busy counts instances that run, are parked or are holding.
	busy   int
	parked []*instance[C, Req, Resp]
	spare  []*box[Req]
	// waiters are those of full mailboxes; see waitQueue. Invariant: an instance that is a
	// key has flagWaited.
	waiters map[*instance[C, Req, Resp]]*waitQueue[Req]
	// order is nil without a limit; room is the share of it that order was told.
	order evict.Policy[*instance[C, Req, Resp]]
	room  int
	// carry holds the states that came with the shard, until their entities wake.
	carry map[string][]byte
	// memory knows which reliable messages ran here, and in the homes before this one.
	memory reliable.Memory
	// stopping is set while an orderly stop is under way.
	stopping *stopping[C, Req, Resp]
}

func newShard[C, Req, Resp any](h *Host[C, Req, Resp], number ShardID, token Token) *Shard[C, Req, Resp] {
	s := &Shard[C, Req, Resp]{host: h, entities: map[string]*instance[C, Req, Resp]{}}
	if h.cfg.Passivation.Limit > 0 {
		s.room = h.share()
		s.order = evict.New[*instance[C, Req, Resp]](h.cfg.Passivation.Eviction, s.room)
	}
	base, cancel := context.WithCancel(h.base)
	s.cancel = cancel
	s.info = shardInfo{typ: h.cfg.Type, number: number, token: token, node: h.cfg.Node, logger: h.cfg.Logger, base: base, ops: s}
	return s
}

// Number returns the shard's number.
func (s *Shard[C, Req, Resp]) Number() ShardID { return s.info.number }

// Token returns the token under which it is hosted.
func (s *Shard[C, Req, Resp]) Token() Token { return s.info.token }

// Open reports whether the shard takes messages.
func (s *Shard[C, Req, Resp]) Open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entities != nil && s.stopping == nil
}

// Node returns the incarnation of the node that hosts it.
func (s *Shard[C, Req, Resp]) Node() gossip.NodeID { return s.info.node }

// Entities returns the number of instances, running or at rest.
func (s *Shard[C, Req, Resp]) Entities() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.entities)
}

// Lives reports whether the entity has an instance, running, at rest or stopping.
func (s *Shard[C, Req, Resp]) Lives(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entities[id] != nil
}

// IDs returns the ids of the instances, in no order.
func (s *Shard[C, Req, Resp]) IDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]string, 0, len(s.entities))
	for id := range s.entities {
		ids = append(ids, id)
	}
	return ids
}

// Hash is the hash of an id that PlaceOf wants.
func Hash(id []byte) uint64 { return xxh3.Hash(id) }

// Place is where Deliver and DeliverTo look for an instance before they look in the map:
// where messages are spread over many entities a map costs as much as the mailbox. Ids
// that share a place only meet there.
type Place uint8

// recentMost is how many instances a shard finds without its map.
const recentMost = 16

// PlaceOf returns the Place of the id with the hash. Shards are chosen by the hash's low
// bits, as a rule.
func PlaceOf(hash uint64) Place { return Place(hash >> 32 % recentMost) }

// drop takes an instance out of the map; called with the mutex.
func (s *Shard[C, Req, Resp]) drop(in *instance[C, Req, Resp]) {
	delete(s.entities, in.id)
	if at := PlaceOf(xxh3.HashString(in.id)); s.recent[at] == in {
		s.recent[at] = nil
	}
}

// Deliver appends m to the mailbox of the entity id, whose Place is at, and never blocks.
// It keeps nothing of m but a copy. It fails with ErrNotHosted when the shard takes nothing
// more, and with ErrMailboxFull when the mailbox is full or others wait for room in it: see
// Await. Control messages stand before all others.
func (s *Shard[C, Req, Resp]) Deliver(id string, at Place, m *Message[Req]) error {
	control := s.host.cfg.Control != nil && s.isControl(m)
	s.mu.Lock()
	in := s.recent[at%recentMost]
	if in == nil || in.id != id {
		if in = s.entities[id]; in != nil {
			s.recent[at%recentMost] = in
		}
	}
	if in == nil || s.stopping != nil {
		return s.deliverNew(nil, id, m, control)
	}
	return s.put(nil, in, m, control)
}

// DeliverTo is Deliver for an id that lies in someone else's buffer: it is copied only
// when the instance is new. Unless by is nil, the entity begins only when by is flushed.
// Unless ledger is nil, a message of so many bytes for which there is no room is parked:
// it waits behind those that wait already, and enters the mailbox later. DeliverTo fails
// with ErrMailboxFull only when ledger has no place for it.
func (s *Shard[C, Req, Resp]) DeliverTo(by *Inlet[C, Req, Resp], id []byte, at Place, m *Message[Req], ledger Ledger, bytes int) error {
	control := s.host.cfg.Control != nil && s.isControl(m)
	s.mu.Lock()
	in := s.recent[at%recentMost]
	if in == nil || in.id != string(id) {
		if in = s.entities[string(id)]; in != nil {
			s.recent[at%recentMost] = in
		}
	}
	var err error
	if in == nil || s.stopping != nil {
		err = s.deliverNew(by, string(id), m, control)
	} else if room := s.findRoom(in, m, control); room != noRoom {
		s.enter(by, in, m, control, room)
	} else {
		err = s.park(by, in, m, control, ledger, bytes)
	}
	if by != nil {
		by.took()
	}
	return err
}

// deliverNew is called with the mutex and gives it back.
func (s *Shard[C, Req, Resp]) deliverNew(by *Inlet[C, Req, Resp], id string, m *Message[Req], control bool) error {
	if s.entities == nil || s.stopping != nil {
		s.mu.Unlock()
		return ErrNotHosted
	}
	in := &instance[C, Req, Resp]{id: strings.Clone(id)}
	s.entities[in.id] = in
	s.host.cfg.Counters.Entities.Add(1)
	return s.put(by, in, m, control)
}

// put is called with the mutex and gives it back.
func (s *Shard[C, Req, Resp]) put(by *Inlet[C, Req, Resp], in *instance[C, Req, Resp], m *Message[Req], control bool) error {
	room := s.findRoom(in, m, control)
	if room == noRoom {
		s.mu.Unlock()
		return ErrMailboxFull
	}
	s.enter(by, in, m, control, room)
	return nil
}

// enter puts a message into a mailbox that has room; called with the mutex, which it
// gives back.
func (s *Shard[C, Req, Resp]) enter(by *Inlet[C, Req, Resp], in *instance[C, Req, Resp], m *Message[Req], control bool, found room) {
	if in.state == resting {
		in.taken = 1
		if control {
			in.taken = 0
		}
		in.left.Store(1)
		s.beginBy(by, in, m, control)
	} else {
		s.add(in, m, control)
		if found == reserved {
			in.box.reserved++
		}
	}
	if s.order != nil {
		s.touch(in)
	}
	s.mu.Unlock()
}

// add puts a message into the mailbox of an instance that is not at rest; called with
// the mutex.
func (s *Shard[C, Req, Resp]) add(in *instance[C, Req, Resp], m *Message[Req], control bool) {
	if in.box == nil {
		in.box = s.takeBox()
	}
	if control {
		in.box.insertControl(0, *m)
		in.flags.Or(flagControl)
	} else {
		in.box.msgs = append(in.box.msgs, *m)
	}
}

// begin turns a resting instance into a running one; called with the mutex.
func (s *Shard[C, Req, Resp]) begin(in *instance[C, Req, Resp]) {
	s.beginBy(nil, in, nil, false)
}

// beginBy is begin with a message, which may be nil. Unless by is nil it lets the
// instance begin, later. Called with the mutex.
func (s *Shard[C, Req, Resp]) beginBy(by *Inlet[C, Req, Resp], in *instance[C, Req, Resp], m *Message[Req], control bool) {
	in.state = running
	s.busy++
	if by == nil {
		s.queue().push(s, in, m, control)
	} else {
		by.keep(s, in, m, control)
	}
}

func (s *Shard[C, Req, Resp]) queue() *runQueue[C, Req, Resp] {
	return &s.host.queues[s.info.number%queues]
}
