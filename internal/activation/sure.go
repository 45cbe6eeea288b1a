package activation

import (
	"errors"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/reliable"
)

// Sure marks a message of a reliable producer: one that is sent again until it is
// confirmed, and runs once.
type Sure struct {
	Stamp reliable.Stamp
	// id is the entity's, once its turn had come.
	id string
	// resumed: it was put aside by its handler and has its turn again.
	resumed bool
}

// Outcome is what became of a copy of a reliable message.
type Outcome uint8

const (
	// SureHandled: the handler ran, now.
	SureHandled Outcome = iota
	// SureRepeated: the handler ran before.
	SureRepeated
	// SureRefused: it did not run, and may the next time.
	SureRefused
	// SureGap: one before it for the same entity has to come first.
	SureGap
)

// Confirm takes the outcome of a copy that came from a node. All: everything before
// it for the same entity ran too. It is called from goroutines that run handlers and
// must not block.
type Confirm func(from gossip.NodeID, shard ShardID, s *Sure, o Outcome, all bool, err error)

// memoryKey is where a shard's memory of its producers stands among the states that
// travel with it: no entity has an empty id.
const memoryKey = ""

// Travelling returns how many of the states that travel with a shard are those of
// entities.
func Travelling(states map[string][]byte) int {
	n := len(states)
	if _, ok := states[memoryKey]; ok {
		n--
	}
	return n
}

// remember takes the memory out of the states that came with the shard.
func (s *Shard[C, Req, Resp]) remember(states map[string][]byte) {
	b, ok := states[memoryKey]
	if !ok {
		return
	}
	delete(states, memoryKey)
	if err := s.memory.Restore(b); err != nil {
		s.host.cfg.Counters.StatesLost.Add(1)
		s.host.cfg.Logger.Error("sharding: the memory of reliable producers did not decode",
			"type", s.info.typ, "shard", s.info.number, "error", err)
	}
}

// handDown puts the memory among the states that leave with the shard; called with
// the mutex.
func (s *Shard[C, Req, Resp]) handDown(st *stopping[C, Req, Resp]) {
	if !st.keep {
		return
	}
	before := s.memory.Forgotten
	b := s.memory.Append(nil)
	s.host.cfg.Counters.Forgotten.Add(int(s.memory.Forgotten - before))
	if len(b) == 0 {
		return
	}
	if st.states == nil {
		st.states = map[string][]byte{}
	}
	st.states[memoryKey] = b
}

// admit reports whether a reliable message is to be handled, and answers it if not.
func (r *runner[C, Req, Resp]) admit(m *Message[Req]) bool {
	s, sure := r.shard, m.reliableMark()
	sure.id = r.in.id
	s.mu.Lock()
	if s.gone.Load() {
		s.mu.Unlock()
		s.confirm(m, SureRefused, false, nil)
		return false
	}
	before := s.memory.Forgotten
	verdict := s.memory.Check(r.in.id, sure.Stamp, sure.resumed)
	all := s.memory.All(r.in.id, sure.Stamp.Producer)
	s.host.cfg.Counters.Forgotten.Add(int(s.memory.Forgotten - before))
	s.mu.Unlock()
	switch verdict {
	case reliable.Run:
		return true
	case reliable.Duplicate:
		s.host.cfg.Counters.Repeated.Add(1)
		s.confirm(m, SureRepeated, all, nil)
	case reliable.Waiting:
		s.host.cfg.Counters.Repeated.Add(1)
	case reliable.Gap:
		s.confirm(m, SureGap, false, nil)
	}
	return false
}

// ran notes that a reliable message was handled or put aside, and answers it. One
// that did not reach its handler, since no instance could be made, may come again.
func (r *runner[C, Req, Resp]) ran(m *Message[Req], stashed bool, err error) {
	s, sure := r.shard, m.reliableMark()
	_, own := err.(*Said)
	failed := err != nil && !r.began && (own || !errors.Is(err, ErrState))
	s.mu.Lock()
	if s.gone.Load() || failed {
		s.memory.Undo(r.in.id, sure.Stamp)
		s.mu.Unlock()
		s.confirm(m, SureRefused, false, nil)
		return
	}
	before := s.memory.Forgotten
	s.memory.Ran(r.in.id, sure.Stamp, stashed)
	all := s.memory.All(r.in.id, sure.Stamp.Producer)
	s.host.cfg.Counters.Forgotten.Add(int(s.memory.Forgotten - before))
	s.mu.Unlock()
	if stashed {
		sure.resumed = true
		return
	}
	s.confirm(m, SureHandled, all, err)
}

// refuse answers a reliable message that will not be handled here, in this round.
func (s *Shard[C, Req, Resp]) refuse(m *Message[Req]) {
	sure := m.reliableMark()
	s.mu.Lock()
	s.memory.Undo(sure.id, sure.Stamp)
	s.mu.Unlock()
	s.confirm(m, SureRefused, false, nil)
}

func (s *Shard[C, Req, Resp]) confirm(m *Message[Req], o Outcome, all bool, err error) {
	s.host.cfg.Confirm(m.Reply.Node, s.info.number, m.reliableMark(), o, all, err)
}
