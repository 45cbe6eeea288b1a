package replica

import (
	"fmt"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/internal/sim/process"
)

// The words are an application that writes and reads a set at majority, for S4.

const keyWords = "client"

// wordClient writes and reads words by one replicator.
type wordClient struct {
	d       *Driver
	checker *invariant.Durable
	// written counts the words that were written here.
	written uint64
}

// useWords writes and reads words until the run's faults end.
func (c *wordClient) useWords() {
	r := c.d.p.Run
	if !r.Config.ClientWrites {
		return
	}
	c.repeat(func() {
		if r.Rand.Setup.Coin() {
			c.writeWord()
		} else {
			c.readWords()
		}
	})
}

// repeat calls do on the thread until the run's faults end, if the process has a view.
func (c *wordClient) repeat(do func()) {
	d, r := c.d, c.d.p.Run
	r.After(r.Rand.Setup.Duration(50*time.Millisecond, 600*time.Millisecond), func() {
		if !d.shared.on || r.Calm {
			return
		}
		d.p.Thread.Run(func() {
			if d.shared.on && d.shared.view != nil {
				do()
			}
		})
		c.repeat(do)
	})
}

func (c *wordClient) writeWord() {
	d, p, r := c.d, c.d.p, c.d.p.Run
	c.written++
	word := fmt.Sprintf("%s/%d", p.Label, c.written)
	op := replication.Mutate(keyWords, crdt.KindORSet, 64, func(v crdt.Value) crdt.Value {
		return v.(*crdt.ORSet[string]).Add(crdt.NodeID(p.Node.ID), word)
	})
	d.Update(replication.Update{Ops: []operation.Op{op}, Level: d.WriteLevel(), Deadline: d.Deadline()}, func(a replication.Reply) {
		if a.Err == nil {
			d.checkMajority()
			p.Event("word acknowledged", c.written, func() string { return word + " in " + r.Names.View(d.shared.view) })
			d.noteAcked(c.checker, word)
		}
	})
}

func (c *wordClient) readWords() {
	d, p, r := c.d, c.d.p, c.d.p.Run
	begun := c.checker.Begin()
	d.Read(replication.Read{Keys: []string{keyWords}, Deadline: d.Deadline()}, func(a replication.Reply) {
		if a.Err != nil {
			return
		}
		d.checkMajority()
		s, _ := a.Values[0].(*crdt.ORSet[string])
		has := func(word string) bool { return s != nil && s.Contains(word) }
		p.Event("words read", uint64(begun), func() string { return "in " + r.Names.View(d.shared.view) })
		d.judgeRead(c.checker, begun, has)
	})
}

// heldWords returns which of the client's words a replica has.
func (d *Driver) heldWords() func(string) bool {
	it, ok := d.core.State(keyWords)
	if !ok {
		return func(string) bool { return false }
	}
	return decodeWords(d.p, it).Contains
}

// decodeWords returns the set of words that an item has, which is empty if they were deleted.
func decodeWords(p *process.Process, it replication.Item) *crdt.ORSet[string] {
	if it.Bytes == nil {
		return &crdt.ORSet[string]{}
	}
	v, err := crdt.Decode(crdt.KindORSet, it.Bytes)
	if err != nil {
		p.Run.Fail("disk", "%s holds a value that cannot be read: %v", p.Label, err)
	}
	return v.(*crdt.ORSet[string])
}
