package invariant

import (
	"time"

	"github.com/peerage-go/peerage/gossip/view"
)

// Messages checks S2 (a message is processed by at most one incarnation, once)
// and S3 (per sender incarnation and entity, processed numbers strictly
// increase).
type Messages struct {
	last map[senderEntity]processed
}

type senderEntity struct {
	sender view.NodeID
	entity int
}

type processed struct {
	seq  uint64
	node view.NodeID
}

// NewMessages returns a checker that has seen nothing.
func NewMessages() *Messages { return &Messages{last: map[senderEntity]processed{}} }

// Processed tells that an instance at node handled message seq of sender.
func (m *Messages) Processed(at time.Duration, node, sender view.NodeID, entity int, seq uint64) *Violation {
	key := senderEntity{sender, entity}
	last := m.last[key]
	m.last[key] = processed{seq, node}
	switch {
	case seq == last.seq:
		return broken("S2", at, "message %d of %v to entity %d is processed at %v and again at %v", seq, sender, entity, last.node, node)
	case seq < last.seq:
		return broken("S3", at, "message %d of %v to entity %d is processed at %v after %d", seq, sender, entity, node, last.seq)
	}
	return nil
}
