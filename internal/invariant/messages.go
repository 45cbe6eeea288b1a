package invariant

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// Messages checks S2 (a message is processed by at most one incarnation, once)
// and S3 (per sender incarnation and entity, processed numbers strictly increase; per
// sending process and entity, incarnations never decrease).
type Messages struct {
	last map[senderEntity]processed
	// senders holds process and incarnation number of each sender; newest holds, by
	// process and entity, the incarnation that was processed last.
	senders map[gossip.NodeID]incarnation
	newest  map[processEntity]incarnation
	// ran has the messages that were processed, if lineages are expected.
	ran map[senderEntity]map[uint64]gossip.NodeID
}

type incarnation struct {
	process, number uint64
	sender          gossip.NodeID
}

// processEntity and senderEntity have the home that handles the messages if lineages are
// expected, and 0 if not.
type processEntity struct {
	process uint64
	entity  int
	home    gossip.NodeID
}

type senderEntity struct {
	sender gossip.NodeID
	entity int
	home   gossip.NodeID
}

type processed struct {
	seq  uint64
	node gossip.NodeID
}

// NewMessages returns an empty checker.
func NewMessages() *Messages {
	return &Messages{
		last: map[senderEntity]processed{}, senders: map[gossip.NodeID]incarnation{}, newest: map[processEntity]incarnation{},
	}
}

// ExpectLineages makes the checker demand order of each home by itself: an entity may live
// twice, in two lineages of a cluster. It must be called before any fact.
func (m *Messages) ExpectLineages() { m.ran = map[senderEntity]map[uint64]gossip.NodeID{} }

// Sender records that a sender is incarnation number of a process.
func (m *Messages) Sender(sender gossip.NodeID, process, number uint64) {
	m.senders[sender] = incarnation{process, number, sender}
}

// Processed records that an instance at node handled message seq of sender.
func (m *Messages) Processed(at time.Duration, node, sender gossip.NodeID, entity int, seq uint64) *Violation {
	if b := m.noteRun(at, node, senderEntity{sender: sender, entity: entity}, seq); b != nil {
		return b
	}
	key := senderEntity{sender, entity, m.homeOf(node)}
	last := m.last[key]
	m.last[key] = processed{seq, node}
	switch {
	case seq == last.seq:
		return broken("S2", at, "message %d of %v to entity %d is processed at %v and again at %v", seq, sender, entity, last.node, node)
	case seq < last.seq:
		return broken("S3", at, "message %d of %v to entity %d is processed at %v after %d", seq, sender, entity, node, last.seq)
	}
	return m.incarnations(at, node, sender, entity)
}

// homeOf returns the home by which the order at a node is judged.
func (m *Messages) homeOf(node gossip.NodeID) gossip.NodeID {
	if m.ran == nil {
		return 0
	}
	return node
}

// noteRun checks, where lineages are expected, that no two homes process a message: the order
// of one home does not exclude that.
func (m *Messages) noteRun(at time.Duration, node gossip.NodeID, key senderEntity, seq uint64) *Violation {
	if m.ran == nil {
		return nil
	}
	if m.ran[key] == nil {
		m.ran[key] = map[uint64]gossip.NodeID{}
	}
	if other, twice := m.ran[key][seq]; twice {
		return broken("S2", at, "message %d of %v to entity %d is processed at %v and again at %v", seq, key.sender, key.entity, other, node)
	}
	m.ran[key][seq] = node
	return nil
}

// incarnations checks the order of a process's incarnations at an entity.
func (m *Messages) incarnations(at time.Duration, node, sender gossip.NodeID, entity int) *Violation {
	s, known := m.senders[sender]
	if !known {
		return nil
	}
	key := processEntity{s.process, entity, m.homeOf(node)}
	if newest := m.newest[key]; s.number < newest.number {
		return broken("S3", at, "a message of %v, incarnation %d of its process, to entity %d is processed at %v after one of %v, incarnation %d",
			sender, s.number, entity, node, newest.sender, newest.number)
	}
	m.newest[key] = s
	return nil
}
