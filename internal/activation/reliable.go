package activation

import (
	"errors"
	"sync"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/reliable"
	"github.com/peerage-go/peerage/internal/failure"
)

// memoryKey is the key of a shard's memory of its producers among the transferred states:
// no entity has an empty id.
const memoryKey = ""

// Travelling returns the number of entities' states among the states of a transferred
// shard.
func Travelling(states map[string][]byte) int {
	n := len(states)
	if _, ok := states[memoryKey]; ok {
		n--
	}
	return n
}

// deduplicator records which reliable messages ran on a shard, here and at its former
// owners, so that each runs once. Its fields but mu belong to mu, the shard's mutex.
type deduplicator struct {
	mu     *sync.Mutex
	memory reliable.Memory
	shard  ShardID
	// closed is set when the shard has ended.
	closed   bool
	counters *Counters
	confirm  Confirm
}

// restoreFrom takes the memory out of the states that were transferred with the shard; called
// before the shard is used.
func (d *deduplicator) restoreFrom(states map[string][]byte) error {
	b, ok := states[memoryKey]
	if !ok {
		return nil
	}
	delete(states, memoryKey)
	return d.memory.Restore(b)
}

// encodeMemory returns the memory, for the transfer of the shard; called with the mutex.
func (d *deduplicator) encodeMemory() []byte {
	defer d.countForgotten(d.memory.Forgotten)
	return d.memory.Append(nil)
}

// dropMemory drops the memory: the shard has ended. Called with the mutex.
func (d *deduplicator) dropMemory() { d.memory, d.closed = reliable.Memory{}, true }

// countForgotten counts the producers that were evicted since there were before.
func (d *deduplicator) countForgotten(before uint64) {
	d.counters.Forgotten.Add(int(d.memory.Forgotten - before))
}

// admitCopy reports whether a reliable message to the entity id must be handled, and confirms
// it if not.
func (d *deduplicator) admitCopy(from gossip.NodeID, id string, mark *ReliableMark) bool {
	mark.id = id
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		d.confirm(from, d.shard, mark, ReliableRefused, false, nil)
		return false
	}
	before := d.memory.Forgotten
	verdict := d.memory.Check(id, mark.Stamp, mark.resumed)
	all := d.memory.All(id, mark.Stamp.Producer)
	d.countForgotten(before)
	d.mu.Unlock()
	switch verdict {
	case reliable.Run:
		return true
	case reliable.Duplicate:
		d.counters.Repeated.Add(1)
		d.confirm(from, d.shard, mark, ReliableRepeated, all, nil)
	case reliable.Waiting:
		d.counters.Repeated.Add(1)
	case reliable.Gap:
		d.confirm(from, d.shard, mark, ReliableGap, false, nil)
	}
	return false
}

// onHandled records that a reliable message was handled, with its error, or stashed, and
// confirms it.
func (d *deduplicator) onHandled(from gossip.NodeID, mark *ReliableMark, stashed bool, err error) {
	d.mu.Lock()
	if d.closed {
		d.memory.Undo(mark.id, mark.Stamp)
		d.mu.Unlock()
		d.confirm(from, d.shard, mark, ReliableRefused, false, nil)
		return
	}
	before := d.memory.Forgotten
	d.memory.Ran(mark.id, mark.Stamp, stashed)
	all := d.memory.All(mark.id, mark.Stamp.Producer)
	d.countForgotten(before)
	d.mu.Unlock()
	if stashed {
		mark.resumed = true
		return
	}
	d.confirm(from, d.shard, mark, ReliableHandled, all, err)
}

// refuseCopy confirms that a copy of a reliable message was not handled here.
func (d *deduplicator) refuseCopy(from gossip.NodeID, mark *ReliableMark) {
	d.mu.Lock()
	d.memory.Undo(mark.id, mark.Stamp)
	d.mu.Unlock()
	d.confirm(from, d.shard, mark, ReliableRefused, false, nil)
}

// deduplicatorOf returns the deduplicator of a shard, which the first reliable message makes.
func deduplicatorOf[C, Req, Resp any](s *Shard[C, Req, Resp]) *deduplicator {
	if d := s.dedup.Load(); d != nil {
		return d
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return makeDeduplicator(s)
}

// makeDeduplicator is deduplicatorOf with the mutex, or before the shard is used.
func makeDeduplicator[C, Req, Resp any](s *Shard[C, Req, Resp]) *deduplicator {
	d := s.dedup.Load()
	if d == nil {
		d = &deduplicator{mu: &s.mu, shard: s.info.number, closed: s.gone.Load(), counters: s.host.cfg.Counters, confirm: s.host.cfg.Confirm}
		s.dedup.Store(d)
	}
	return d
}

// onReliableHandled records the outcome of a reliable message. A message that did not
// reach its handler, since no instance could be made, may be retransmitted.
func (r *runner[C, Req, Resp]) onReliableHandled(m *Message[Req], stashed bool, err error) {
	_, own := err.(*Said)
	if err != nil && !r.began && (own || !errors.Is(err, failure.State)) {
		deduplicatorOf(r.shard).refuseCopy(m.Reply.Node, m.reliableMark())
		return
	}
	deduplicatorOf(r.shard).onHandled(m.Reply.Node, m.reliableMark(), stashed, err)
}
