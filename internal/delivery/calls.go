package delivery

import (
	"context"
	"sync"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Calls is the table of asks that wait for their reply. The number of a call contains its slot
// and the generation of the slot, so a reply that is late, repeated or forged finds another
// generation, and no other call receives it. Slots are reused, so that an ask allocates
// nothing. The zero table is ready.
//
// The table has parts, each under its own mutex; the asks of a shard share a part.
type Calls[Resp any] struct {
	parts [callParts]callPart[Resp]
}

const callParts = 16

type callPart[Resp any] struct {
	mu    sync.Mutex
	slots []*Call[Resp]
	free  []*Call[Resp]
	// limits ends the calls whose time limit passes.
	limits callLimits
	_      [64]byte
}

// Call is one slot. The mutex of its part guards its fields, apart from Done, Resp, Late and
// Err: these belong to the caller once Done has delivered.
type Call[Resp any] struct {
	// Number is gen<<32 | slot<<4 | part. Invariant: no live call has number 0.
	Number uint64
	open   bool
	// node is where the request is now: 0 while it waits in a buffer here.
	node gossip.NodeID
	// until is the time limit of the call, zero for none.
	until time.Time
	Done  chan struct{}
	Resp  Resp
	// Late is a large reply, which its caller decodes; nil means that Resp is set.
	Late []byte
	Err  error
}

func (t *Calls[Resp]) partOf(number uint64) *callPart[Resp] { return &t.parts[number%callParts] }

// Begin opens a call for a message to a shard. node is the node of the request. If until is not
// zero, the call ends with ErrLimit soon after it.
func (t *Calls[Resp]) Begin(shard strategy.ShardID, node gossip.NodeID, until time.Time) *Call[Resp] {
	p := t.partOf(uint64(shard))
	p.mu.Lock()
	defer p.mu.Unlock()
	var c *Call[Resp]
	if n := len(p.free); n > 0 {
		c = p.free[n-1]
		p.free = p.free[:n-1]
	} else {
		c = &Call[Resp]{
			Number: uint64(len(p.slots))*callParts + uint64(shard)%callParts,
			Done:   make(chan struct{}, 1),
		}
		p.slots = append(p.slots, c)
	}
	c.Number += 1 << 32
	c.open, c.node, c.until = true, node, until
	if !until.IsZero() {
		p.limitCall(until)
	}
	return c
}

// findOpen returns the open call of a number, nil if it is over; called with the
// part's mutex.
func (p *callPart[Resp]) findOpen(number uint64) *Call[Resp] {
	slot := number << 32 >> 36
	if slot >= uint64(len(p.slots)) {
		return nil
	}
	if c := p.slots[slot]; c.open && c.Number == number {
		return c
	}
	return nil
}

// Move records the node of a call's request, 0 for a buffer here. It reports whether the call
// is open.
func (t *Calls[Resp]) Move(number uint64, node gossip.NodeID) bool {
	p := t.partOf(number)
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.findOpen(number)
	if c != nil {
		c.node = node
	}
	return c != nil
}

// Waits reports whether a call is open.
func (t *Calls[Resp]) Waits(number uint64) bool {
	p := t.partOf(number)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.findOpen(number) != nil
}

// Finish completes a call, and reports whether it was open.
func (t *Calls[Resp]) Finish(number uint64, resp Resp, err error) bool {
	return t.FinishLate(number, resp, nil, err)
}

// FinishLate is Finish for a reply that is still encoded if late is not nil.
func (t *Calls[Resp]) FinishLate(number uint64, resp Resp, late []byte, err error) bool {
	p := t.partOf(number)
	p.mu.Lock()
	c := p.findOpen(number)
	if c != nil {
		c.open = false
		c.Resp, c.Late, c.Err = resp, late, err
	}
	p.mu.Unlock()
	if c == nil {
		return false
	}
	// Send without the mutex, which the caller takes as soon as it runs. It releases the slot
	// only after it has received this. No defer: this is often the end of a young goroutine's
	// small stack.
	c.Done <- struct{}{}
	return true
}

// Await blocks until the call is over, or ctx has ended: then it reports false. A
// context that never ends needs no select, which costs as much as the rest.
func (c *Call[Resp]) Await(ctx context.Context) bool {
	ended := ctx.Done()
	if ended == nil {
		<-c.Done
		return true
	}
	select {
	case <-c.Done:
		return true
	case <-ended:
		return false
	}
}

// Cancel closes a call whose caller has given up, and returns the node of its request. If the
// call was over before, cancelled is false and Done has delivered.
func (t *Calls[Resp]) Cancel(c *Call[Resp]) (node gossip.NodeID, cancelled bool) {
	p := t.partOf(c.Number)
	p.mu.Lock()
	defer p.mu.Unlock()
	cancelled = c.open
	c.open = false
	return c.node, cancelled
}

// Release frees the slot of a call that is over: completed and received, or cancelled.
func (t *Calls[Resp]) Release(c *Call[Resp]) {
	p := t.partOf(c.Number)
	p.mu.Lock()
	defer p.mu.Unlock()
	var none Resp
	c.Resp, c.Late, c.Err = none, nil, nil
	p.free = append(p.free, c)
}

// FailNode fails all calls whose request is at node; 0 stands for all nodes.
// Requests in buffers stay.
func (t *Calls[Resp]) FailNode(node gossip.NodeID, err error) (failed int) {
	for i := range t.parts {
		p := &t.parts[i]
		p.mu.Lock()
		for _, c := range p.slots {
			if c.open && c.node != 0 && (node == 0 || c.node == node) {
				c.open, c.Err = false, err
				c.Done <- struct{}{}
				failed++
			}
		}
		p.mu.Unlock()
	}
	return failed
}

// Count returns the number of open calls.
func (t *Calls[Resp]) Count() (n int) {
	for i := range t.parts {
		p := &t.parts[i]
		p.mu.Lock()
		n += len(p.slots) - len(p.free)
		p.mu.Unlock()
	}
	return n
}
