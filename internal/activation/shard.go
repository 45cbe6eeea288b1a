package activation

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation/idtable"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/zeebo/xxh3"
)

// Shard is a hosted shard: a table of instances under one mutex, which also guards their
// mailboxes. The mutex is held for a look-up and an append, never while user code runs.
//
// An instance is in one of five states, and only these transitions exist:
//
//	resting --mail, stop--> running --mailbox empty--> resting (or gone)
//	running --no lease--> parked --Resume--> running
//	running --OnStop too slow--> detached (a new one takes its place)
//	running --panic, with back-off--> holding --time, stop--> running
//
// A running instance waits in a run queue or belongs to a worker. The worker takes the
// whole mailbox as one batch and handles it without the mutex; later messages gather in
// the next mailbox. So the mutex is taken once per batch on the receiving side, and
// messages are handled in the order of the appends.
//
// Ordering. gone is set under the mutex before the mailboxes are emptied, and a runner
// reads it before each message: so no handler begins after Abandon has returned. stopping
// is set under the mutex: a message either is in a mailbox before, and will be handled, or
// is refused.
//
// A mutex per entity was rejected: it costs 8 bytes per entity and a second lock per
// message, and gains nothing, since hundreds of shards spread the load.
type Shard[C, Req, Resp any] struct {
	info shardInfo
	host *Host[C, Req, Resp]
	// gone: abandoned or ended. Invariant: once set, entities is nil.
	gone atomic.Bool
	// busy counts instances that run, are parked or are holding. The mutex guards it.
	busy int32

	mu       sync.Mutex
	entities *idtable.Table[instance[C, Req, Resp]]
	// recent are some of entities, which Deliver finds without the table.
	recent recentList[C, Req, Resp]
	parked []*instance[C, Req, Resp]
	// mailboxes lends the mailboxes of entities.
	mailboxes mailboxPool[Req]
	// waiters are the messages that wait for room in mailboxes.
	waiters waitTable[C, Req, Resp]
	// order is the order of eviction.
	order *evictionOrder[C, Req, Resp]
	// states are the entities' states that are transferred with the shard, nil if it came with
	// none, until it leaves.
	states *stateTable
	// dedup deduplicates reliable messages. It is nil until the first one: see deduplicatorOf.
	dedup atomic.Pointer[deduplicator]
	// stopping is set while an orderly stop is in progress.
	stopping *stopping[C, Req, Resp]
}

func newShard[C, Req, Resp any](h *Host[C, Req, Resp], number ShardID, token Token, states map[string][]byte) *Shard[C, Req, Resp] {
	s := &Shard[C, Req, Resp]{host: h, entities: idtable.New(func(in *instance[C, Req, Resp]) string { return in.id })}
	s.mailboxes.shared = &h.mailboxes
	s.waiters = waitTable[C, Req, Resp]{cfg: &h.cfg, mailboxes: &s.mailboxes}
	if h.cfg.Passivation.Limit > 0 {
		s.order = newEvictionOrder[C, Req, Resp](h.cfg.Passivation.Eviction, h.share())
	}
	s.info = shardInfo{hostInfo: &h.info, number: number, token: token, ops: s}
	if _, ok := states[memoryKey]; ok {
		if err := makeDeduplicator(s).restoreFrom(states); err != nil {
			h.cfg.Counters.StatesLost.Add(1)
			h.cfg.Logger.Error("sharding: the memory of reliable producers did not decode; their messages may run twice",
				"type", h.cfg.Type, "shard", number, "error", err)
		}
	}
	if len(states) > 0 {
		s.states = &stateTable{arrived: states}
	}
	return s
}

// queueOf returns the queue of a shard's runnable instances.
func queueOf[C, Req, Resp any](s *Shard[C, Req, Resp]) *runQueue[C, Req, Resp] {
	return &s.host.queues[s.info.number%queues]
}

// Number returns the shard's number.
func (s *Shard[C, Req, Resp]) Number() ShardID { return s.info.number }

// Token returns the token under which it is hosted.
func (s *Shard[C, Req, Resp]) Token() Token { return s.info.token }

// Open reports whether the shard accepts messages.
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
	return s.entities.Len()
}

// Lives reports whether the entity has an instance, running, at rest or stopping.
func (s *Shard[C, Req, Resp]) Lives(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entities.Find(id) != nil
}

// IDs returns the ids of the instances, in no order.
func (s *Shard[C, Req, Resp]) IDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.AppendSeq(make([]string, 0, s.entities.Len()), idsOf(s.entities))
}

// idsOf yields the ids of instances, in no order; called with the mutex of their shard.
func idsOf[C, Req, Resp any](entities *idtable.Table[instance[C, Req, Resp]]) iter.Seq[string] {
	return func(yield func(string) bool) {
		for in := range entities.All() {
			if !yield(in.id) {
				return
			}
		}
	}
}

// Hash returns the hash of an id, for PlaceOf.
func Hash(id []byte) uint64 { return xxh3.Hash(id) }

// Place is the slot in which Deliver and DeliverTo look for an instance before they use
// the table: when messages are spread over many entities, a table costs as much as the
// mailbox. Ids may share a Place.
type Place uint8

// recentMost is the number of instances that a shard finds without its table.
const recentMost = 16

// PlaceOf returns the Place of the id with the hash. Shards are chosen by the hash's low
// bits, as a rule.
func PlaceOf(hash uint64) Place { return Place(hash >> 32 % recentMost) }

// removeInstance removes an instance from the table; called with the mutex.
func (s *Shard[C, Req, Resp]) removeInstance(in *instance[C, Req, Resp]) {
	s.entities.Remove(in.id)
	s.recent.dropFound(in)
}

// recentList has instances that were found in the table of a shard, by Place. The mutex of the
// shard guards it. It has no slots until the shard has two instances.
type recentList[C, Req, Resp any] struct {
	slots *[recentMost]*instance[C, Req, Resp]
}

// foundAt returns the instance that was last found at a Place, nil if there is none.
func (l *recentList[C, Req, Resp]) foundAt(place Place) *instance[C, Req, Resp] {
	if l.slots == nil {
		return nil
	}
	return l.slots[place%recentMost]
}

// noteFound notes the instance that was found at a Place, among so many.
func (l *recentList[C, Req, Resp]) noteFound(place Place, in *instance[C, Req, Resp], among int) {
	if l.slots == nil {
		if among < 2 {
			return
		}
		l.slots = new([recentMost]*instance[C, Req, Resp])
	}
	l.slots[place%recentMost] = in
}

// dropFound drops an instance.
func (l *recentList[C, Req, Resp]) dropFound(in *instance[C, Req, Resp]) {
	if l.slots == nil {
		return
	}
	if place := PlaceOf(xxh3.HashString(in.id)); l.slots[place] == in {
		l.slots[place] = nil
	}
}

// Deliver appends a copy of m to the mailbox of the entity id, whose Place is at, and
// never blocks. It fails with ErrNotHosted if the shard does not accept messages, and
// with failure.MailboxFull if the mailbox is full or messages wait for room in it: see Await.
// Control messages go before ordinary ones.
func (s *Shard[C, Req, Resp]) Deliver(id string, at Place, m *Message[Req]) error {
	control := s.host.cfg.Control != nil && s.host.cfg.isControl(m)
	s.mu.Lock()
	in := s.recent.foundAt(at)
	if in == nil || in.id != id {
		if in = s.entities.Find(id); in != nil {
			s.recent.noteFound(at, in, s.entities.Len())
		}
	}
	if in == nil || s.stopping != nil {
		return s.deliverNew(nil, id, m, control)
	}
	return s.tryEnter(nil, in, m, control)
}

// DeliverTo is Deliver for an id in a buffer of the caller: the id is copied only if the
// instance is new. Unless by is nil, the entity begins only when by is flushed. Unless
// ledger is nil, a message of so many bytes for which there is no room is parked: it
// waits behind the waiting messages, and enters the mailbox later. DeliverTo then fails
// with failure.MailboxFull only if ledger has no room for it.
func (s *Shard[C, Req, Resp]) DeliverTo(by *BatchInserter[C, Req, Resp], id []byte, at Place, m *Message[Req], ledger Ledger, bytes int) error {
	control := s.host.cfg.Control != nil && s.host.cfg.isControl(m)
	s.mu.Lock()
	in := s.recent.foundAt(at)
	if in == nil || in.id != string(id) {
		if in = s.entities.FindBytes(id); in != nil {
			s.recent.noteFound(at, in, s.entities.Len())
		}
	}
	var err error
	if in == nil || s.stopping != nil {
		err = s.deliverNew(by, string(id), m, control)
	} else if room := s.waiters.findRoom(in, m, control); room != noRoom {
		s.enter(by, in, m, control, room)
	} else {
		err = s.parkMessage(by, in, m, control, ledger, bytes)
	}
	if by != nil {
		by.countInsert()
	}
	return err
}

// deliverNew is called with the mutex and releases it.
func (s *Shard[C, Req, Resp]) deliverNew(by *BatchInserter[C, Req, Resp], id string, m *Message[Req], control bool) error {
	if s.entities == nil || s.stopping != nil {
		s.mu.Unlock()
		return ErrNotHosted
	}
	in := &instance[C, Req, Resp]{id: strings.Clone(id)}
	in.setBorn(time.Since(s.host.began))
	s.entities.Add(in)
	s.host.cfg.Counters.Entities.Add(1)
	return s.tryEnter(by, in, m, control)
}

// tryEnter is called with the mutex and releases it.
func (s *Shard[C, Req, Resp]) tryEnter(by *BatchInserter[C, Req, Resp], in *instance[C, Req, Resp], m *Message[Req], control bool) error {
	room := s.waiters.findRoom(in, m, control)
	if room == noRoom {
		s.mu.Unlock()
		return failure.MailboxFull
	}
	s.enter(by, in, m, control, room)
	return nil
}

// enter puts a message into a mailbox that has room; called with the mutex, which it
// releases.
func (s *Shard[C, Req, Resp]) enter(by *BatchInserter[C, Req, Resp], in *instance[C, Req, Resp], m *Message[Req], control bool, found room) {
	if in.state == resting {
		in.taken = 1
		if control {
			in.taken = 0
		}
		in.left.Store(1)
		s.startInstanceBy(by, in, m, control)
	} else {
		in.appendMail(&s.mailboxes, m, control)
		if found == reserved {
			in.mailbox.reserved++
		}
	}
	if s.order.limited() { // a call costs each message
		s.touch(in)
	}
	s.mu.Unlock()
}

// startInstance turns a resting instance into a running one; called with the mutex.
func (s *Shard[C, Req, Resp]) startInstance(in *instance[C, Req, Resp]) {
	s.startInstanceBy(nil, in, nil, false)
}

// startInstanceBy is startInstance with a message, which may be nil. Unless by is nil, the instance
// begins when by is flushed. Called with the mutex.
func (s *Shard[C, Req, Resp]) startInstanceBy(by *BatchInserter[C, Req, Resp], in *instance[C, Req, Resp], m *Message[Req], control bool) {
	in.state = running
	s.busy++
	if by == nil {
		queueOf(s).pushTask(s, in, m, control)
	} else {
		by.addTask(s, in, m, control)
	}
}

// Ensure starts the entity id if it has no instance, as a message would, and reports
// whether it does. It never blocks, and does nothing if the shard does not accept
// messages.
func (s *Shard[C, Req, Resp]) Ensure(id string) (starts bool) {
	s.mu.Lock()
	in := s.entities.Find(id)
	if in != nil {
		s.mu.Unlock()
		return false
	}
	m := Message[Req]{}.ForStart()
	return s.deliverNew(nil, id, &m, false) == nil
}

// Dismiss ends the instance of id in an orderly way, after the batch that it is handling,
// and reports whether an instance still exists. It does not wait: the caller repeats it.
// Messages that wait for an instance which Config.TryNew refuses are no instance: if TryNew
// refused before the call, false means that none will begin.
func (s *Shard[C, Req, Resp]) Dismiss(id string) (there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.entities.Find(id)
	if in == nil || !in.hasFlag(flagBegun) {
		return false
	}
	switch {
	case s.stopping != nil || !s.host.cfg.Alive():
	case in.state == resting:
		in.retire = true
		s.startInstance(in)
	default:
		in.needCold().dismissed = true
	}
	return true
}

// Await appends m to the mailbox of the entity id as Deliver does, and waits for room,
// behind the waiting messages, until ctx ends: then it returns the context's error. It
// fails with ErrNotHosted if the shard does not accept messages.
func (s *Shard[C, Req, Resp]) Await(ctx context.Context, id string, m *Message[Req]) error {
	control := s.host.cfg.Control != nil && s.host.cfg.isControl(m)
	s.mu.Lock()
	in := s.entities.Find(id)
	if in == nil || s.stopping != nil {
		return s.deliverNew(nil, id, m, control)
	}
	// The runner publishes left and then reads the flag, without the mutex. If the flag
	// were set after reading left, the beginning of the last message would be missed.
	in.flags.Or(flagWaited)
	if room := s.waiters.findRoom(in, m, control); room != noRoom {
		s.waiters.clearWaited(in)
		s.enter(nil, in, m, control, room)
		return nil
	}
	w := &waiter[Req]{m: *m, done: make(chan error, 1), class: classOf(m, s.info.typ, id, control)}
	s.waiters.enqueue(in, w)
	s.host.cfg.Counters.Waiting.Add(1)
	s.mu.Unlock()
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
	}
	s.mu.Lock()
	if w.lane == nil {
		s.mu.Unlock()
		return <-w.done
	}
	w.leaveLane()
	s.host.cfg.Counters.Waiting.Add(-1)
	s.mu.Unlock()
	return ctx.Err()
}

// parkMessage lets a message of another node wait for room, if its ledger has room for
// it; called with the mutex, which it releases.
func (s *Shard[C, Req, Resp]) parkMessage(by *BatchInserter[C, Req, Resp], in *instance[C, Req, Resp], m *Message[Req], control bool, ledger Ledger, bytes int) error {
	in.flags.Or(flagWaited) // see Await
	if room := s.waiters.findRoom(in, m, control); room != noRoom {
		s.waiters.clearWaited(in)
		s.enter(by, in, m, control, room)
		return nil
	}
	class, pooled, may := classOf(m, s.info.typ, in.id, control), false, false
	if ledger != nil {
		pooled, may = ledger.Park(in.id, class, bytes)
	}
	if !may {
		s.waiters.clearWaited(in)
		s.mu.Unlock()
		return failure.MailboxFull
	}
	s.waiters.enqueue(in, &waiter[Req]{m: *m, ledger: ledger, id: in.id, class: class, pooled: pooled, bytes: bytes})
	s.host.cfg.Counters.Parked.Add(1)
	s.mu.Unlock()
	return nil
}

// admitWaiters admits the waiters of a mailbox that has room; called with the mutex.
func (s *Shard[C, Req, Resp]) admitWaiters(in *instance[C, Req, Resp]) {
	for range s.waiters.admitAll(in) {
		s.touch(in)
	}
}
