package sharding

import (
	"bytes"
	"strconv"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/reliable"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/datapath"
	"github.com/peerage-go/peerage/internal/sim/statemove"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// Copies of reliable messages at the home of their shard, as the deduplicator of
// internal/activation handles them: the memory of the shard decides which of them run, and moves
// with the shard.

// copyOutcome is what a home reports of a copy.
type copyOutcome uint8

const (
	copyHandled copyOutcome = iota
	copyRepeated
	copyRefused
	copyGap
)

// confirmFrame carries the outcome of a copy to its producer.
type confirmFrame struct {
	typ      int
	producer reliable.Producer
	shard    protocol.ShardID
	seq      uint64
	try      uint32
	outcome  copyOutcome
	all      bool
}

func (f *confirmFrame) ofType() int { return f.typ }

// confirmCopy sends the outcome of a copy to its producer.
func (x *instances) confirmCopy(msg *datapath.Message, how copyOutcome, all bool) {
	s := &msg.Copy.Stamp
	f := &confirmFrame{typ: x.m.number, producer: s.Producer, shard: msg.Shard, seq: s.Seq, try: s.Try, outcome: how, all: all}
	if msg.Sender == x.m.p.Node.ID {
		x.onConfirm(msg.Sender, f)
		return
	}
	x.calls.outbox.sendInOrder(msg.Sender, f)
}

// admitCopy reports whether the copy of a reliable message must be handled, and confirms it if not.
func (x *instances) admitCopy(i *instance, msg *datapath.Message) bool {
	id, s := strconv.Itoa(msg.Entity), msg.Copy.Stamp
	verdict := i.memory.Check(id, s, i.resumes == msg)
	switch verdict {
	case reliable.Duplicate:
		x.m.run.Hit(coverage.Repeated)
		x.confirmCopy(msg, copyRepeated, i.memory.All(id, s.Producer))
	case reliable.Gap:
		x.confirmCopy(msg, copyGap, false)
	}
	return verdict == reliable.Run
}

// judgeCopy asks the checker whether a copy may run now.
func (x *instances) judgeCopy(i *instance, msg *datapath.Message) {
	if r := x.m.run; !r.Parts() {
		r.Judge(x.m.checks.deliveries.Runs(time.Duration(r.Now()), uint64(msg.Copy.Stamp.Producer), i.shard, msg.Entity, msg.Copy.Number))
	}
}

// putAside of so many copies is the one that is put aside when it is handled first.
const putAside = 12

// onCopyReturn notes that the handler of a copy has returned, and confirms it. A copy that the
// handler puts aside is handled again later.
func (x *instances) onCopyReturn(i *instance, msg *datapath.Message) {
	id, s := strconv.Itoa(msg.Entity), msg.Copy.Stamp
	if i.gone {
		i.memory.Undo(id, s)
		x.confirmCopy(msg, copyRefused, false)
		return
	}
	aside := i.resumes != msg && x.m.run.Rand.Line.IntN(putAside) == 0
	i.memory.Ran(id, s, aside)
	x.m.checks.noteCopy(i.key(), msg, aside)
	if !aside {
		x.confirmCopy(msg, copyHandled, i.memory.All(id, s.Producer))
		return
	}
	x.m.run.Hit(coverage.PutOff)
	i.aside = append(i.aside, msg)
	x.m.p.Later(x.m.run.Rand.Line.Duration(time.Millisecond, 60*time.Millisecond), func() { x.resumeCopy(i) })
}

// resumeCopy handles the first copy that was put aside, when the shard is idle.
func (x *instances) resumeCopy(i *instance) {
	switch {
	case !x.m.site.on || i.gone || len(i.aside) == 0:
	case i.busySince != virtual.Never || !x.mayAct():
		x.m.p.Later(5*time.Millisecond, func() { x.resumeCopy(i) })
	default:
		msg := i.aside[0]
		i.aside = i.aside[1:]
		i.resumes = msg
		if x.admitCopy(i, msg) {
			x.beginHandler(i, msg)
		}
	}
}

// refuseCopies refuses the copies that were put aside: their shard has ended.
func (x *instances) refuseCopies(i *instance) {
	for _, msg := range i.aside {
		i.memory.Undo(strconv.Itoa(msg.Entity), msg.Copy.Stamp)
		x.confirmCopy(msg, copyRefused, false)
	}
	i.aside = nil
}

// cargo returns what moves with a shard.
func (x *instances) cargo(i *instance) statemove.Cargo {
	c := statemove.Cargo{States: i.states, Memory: i.memory.Append(nil)}
	x.m.checks.memories[i.shard] = endedMemory{i.token, c.Memory}
	return c
}

// takeMemory fills the memory of a shard that starts with what its former home has sent.
func (x *instances) takeMemory(i *instance, memory []byte) {
	if err := i.memory.Restore(memory); err != nil {
		x.m.run.Fail("codec", "%s cannot read the memory of shard %d: %v", x.m.p.Label, i.shard, err)
	}
	x.m.checks.checkMemory(x.m, i.key(), memory)
}

// endedMemory is the memory with which an instance of a shard has ended in order.
type endedMemory struct {
	token  protocol.Token
	memory []byte
}

// checkMemory checks that a shard begins with the memory that it ended with, unless something
// happened in between that may cost it.
func (t *typeChecks) checkMemory(m *base, st protocol.ShardToken, memory []byte) {
	r, last, ended := t.run, t.endings[st.Shard], t.memories[st.Shard]
	if last.token.IsZero() {
		return
	}
	// An instance that was ordered to end may have been lost before it did: then no memory of it is noted.
	if last.token == ended.token && last.how == endedInOrder && bytes.Equal(memory, ended.memory) {
		return
	}
	if why := t.excuseLoss(m, last); why == "" {
		r.Fail("G9", "%s starts shard %d of type %s (%s) without the memory with which %s ended %s",
			m.p.Label, st.Shard, m.spec.Name, r.Names.Token(st.Token), r.Names.Name(last.node), last.how)
	}
	r.Hit(coverage.MemoryLost)
	t.deliveries.Lost(st.Shard)
}

// noteCopy notes that an instance of a shard has a message in its memory. The memory of an instance
// that outlives its lease is lost once the next one has begun.
func (t *typeChecks) noteCopy(st protocol.ShardToken, msg *datapath.Message, aside bool) {
	producer, n := uint64(msg.Copy.Stamp.Producer), msg.Copy.Number
	switch {
	case t.endings[st.Shard].token == st.Token:
		t.deliveries.Noted(producer, msg.Entity, n, aside)
	case !aside:
		t.deliveries.EndedLate(producer, msg.Entity, n)
	}
}

// checkConfirmed returns a process on the hosts in q whose producer has messages that are not
// confirmed, "" if there is none.
func (v *Invariants) checkConfirmed(q map[int]bool) string {
	for _, m := range v.modelsOn(q) {
		if v.mustReach(m, q) && m.producer.unconfirmed() > 0 {
			return m.p.Label
		}
	}
	return ""
}

// CopyRefused lets the producer of a copy send it again.
func (e pathEnv) CopyRefused(msg *datapath.Message) {
	s := &msg.Copy.Stamp
	e.instances.onConfirm(0, &confirmFrame{producer: s.Producer, shard: msg.Shard, seq: s.Seq, try: s.Try, outcome: copyRefused})
}

// Freed informs the producer that messages may leave.
func (e pathEnv) Freed(shard protocol.ShardID, id string) {
	e.instances.onFreed(reliable.Freed{Shard: shard, ID: id})
}

// lostAt informs the producer that what is in flight to a node may not have arrived.
func (p *producer) lostAt(node gossip.NodeID) { p.noteEvent(reliable.Lost{Node: node}) }
