package sharding

import (
	"context"
	"sync"

	"github.com/peerage-go/peerage/gossip"
)

// calls is the table of asks that wait for their answer. A call has a number that
// names its slot and the slot's generation: an answer that comes late, doubled, or
// out of the blue finds another generation there and is counted, never given to
// somebody else. Slots are reused, so that an ask allocates nothing.
//
// The table is in parts, each under its own mutex; a shard's asks share a part.
type calls[Resp any] struct {
	parts [callParts]callPart[Resp]
}

const callParts = 16

type callPart[Resp any] struct {
	mu    sync.Mutex
	slots []*call[Resp]
	free  []*call[Resp]
	_     [64]byte
}

// call is one slot. Its fields belong to the part's mutex, apart from done, resp,
// late and err: those belong to the asker once done has delivered.
type call[Resp any] struct {
	// number is gen<<32 | slot<<4 | part. Invariant: no live call has number 0.
	number uint64
	open   bool
	// node is where the request is now: 0 while it waits in a buffer here.
	node gossip.NodeID
	done chan struct{}
	resp Resp
	// late is a large answer, which its asker decodes; nil: resp is set.
	late []byte
	err  error
}

func (t *calls[Resp]) part(number uint64) *callPart[Resp] { return &t.parts[number%callParts] }

// begin opens a call for a message to a shard.
func (t *calls[Resp]) begin(shard ShardID, node gossip.NodeID) *call[Resp] {
	p := t.part(uint64(shard))
	p.mu.Lock()
	defer p.mu.Unlock()
	var c *call[Resp]
	if n := len(p.free); n > 0 {
		c = p.free[n-1]
		p.free = p.free[:n-1]
	} else {
		c = &call[Resp]{
			number: uint64(len(p.slots))*callParts + uint64(shard)%callParts,
			done:   make(chan struct{}, 1),
		}
		p.slots = append(p.slots, c)
	}
	c.number += 1 << 32
	c.open, c.node = true, node
	return c
}

// find returns the open call of a number, nil if it is over; called with the
// part's mutex.
func (p *callPart[Resp]) find(number uint64) *call[Resp] {
	slot := number << 32 >> 36
	if slot >= uint64(len(p.slots)) {
		return nil
	}
	if c := p.slots[slot]; c.open && c.number == number {
		return c
	}
	return nil
}

// move notes where the request of a call is now; false means that nobody waits
// for it any more.
func (t *calls[Resp]) move(number uint64, node gossip.NodeID) bool {
	p := t.part(number)
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.find(number)
	if c != nil {
		c.node = node
	}
	return c != nil
}

// waits reports whether somebody waits for the answer.
func (t *calls[Resp]) waits(number uint64) bool {
	p := t.part(number)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.find(number) != nil
}

// finish gives a call its answer; false means that nobody waited.
func (t *calls[Resp]) finish(number uint64, resp Resp, err error) bool {
	return t.finishLate(number, resp, nil, err)
}

// finishLate is finish for an answer that is in resp or, if late is not nil, encoded there.
func (t *calls[Resp]) finishLate(number uint64, resp Resp, late []byte, err error) bool {
	p := t.part(number)
	p.mu.Lock()
	c := p.find(number)
	if c != nil {
		c.open = false
		c.resp, c.late, c.err = resp, late, err
	}
	p.mu.Unlock()
	if c == nil {
		return false
	}
	// Behind the mutex, which the asker takes as soon as it runs. The slot is not given
	// back before it has received this. No defer: what runs here is at the end of a young
	// goroutine's small stack.
	c.done <- struct{}{}
	return true
}

// await blocks until the call is over, or ctx has ended: then it reports false. A
// context that never ends needs no select, which costs as much as the rest.
func (c *call[Resp]) await(ctx context.Context) bool {
	ended := ctx.Done()
	if ended == nil {
		<-c.done
		return true
	}
	select {
	case <-c.done:
		return true
	case <-ended:
		return false
	}
}

// cancel closes a call whose asker has given up, and returns where its request
// is. If the answer came first, cancelled is false and done has delivered.
func (t *calls[Resp]) cancel(c *call[Resp]) (node gossip.NodeID, cancelled bool) {
	p := t.part(c.number)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !c.open {
		return 0, false
	}
	c.open = false
	return c.node, true
}

// release gives a slot back. The call is over: answered and received, or
// cancelled.
func (t *calls[Resp]) release(c *call[Resp]) {
	p := t.part(c.number)
	p.mu.Lock()
	defer p.mu.Unlock()
	var none Resp
	c.resp, c.late, c.err = none, nil, nil
	p.free = append(p.free, c)
}

// failNode fails all calls whose request is at node; 0 stands for all nodes.
// Requests in buffers stay.
func (t *calls[Resp]) failNode(node gossip.NodeID, err error) (failed int) {
	for i := range t.parts {
		p := &t.parts[i]
		p.mu.Lock()
		for _, c := range p.slots {
			if c.open && c.node != 0 && (node == 0 || c.node == node) {
				c.open, c.err = false, err
				c.done <- struct{}{}
				failed++
			}
		}
		p.mu.Unlock()
	}
	return failed
}

// count returns the number of calls that wait.
func (t *calls[Resp]) count() (n int) {
	for i := range t.parts {
		p := &t.parts[i]
		p.mu.Lock()
		n += len(p.slots) - len(p.free)
		p.mu.Unlock()
	}
	return n
}

// answerOf returns the result of a completed call. It decodes a large answer here, in the
// asker's goroutine. The call has a copy of its own, so an owner needs no second one.
func answerOf[Req, Resp any](p *path[Req, Resp], c *call[Resp]) (Resp, error) {
	if c.late == nil {
		return c.resp, c.err
	}
	if o := ownerOf(p.typ.RespCodec); o != nil {
		return o.own(c.late), nil
	}
	return decodeAnswer(p.typ.RespCodec, c.late)
}

func decodeAnswer[Resp any](codec Codec[Resp], payload []byte) (resp Resp, err error) {
	if resp, err = decode(codec, payload); err != nil {
		err = &codecError{err}
	}
	return resp, err
}
