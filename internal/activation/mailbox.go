package activation

import (
	"slices"
	"sync"
)

// mailbox is a list of waiting messages. Mailboxes are passed from instance to instance,
// so that an instance at rest owns none.
type mailbox[Req any] struct {
	msgs []Message[Req]
	// control of the first msgs are control messages.
	control int
	// reserved is an upper bound of the messages that entered through the reserve for
	// messages of handlers.
	reserved int
}

const (
	// spareMailboxesMax mailboxes of at most spareRoomMax messages stay with a shard. All
	// further ones go to a pool that the garbage collector empties, so that the memory of
	// a burst is freed.
	spareMailboxesMax = 4
	spareRoomMax      = 64
)

// dropAll drops the messages.
func (b *mailbox[Req]) dropAll() {
	clear(b.msgs)
	b.msgs, b.control = b.msgs[:0], 0
	b.reserved = 0
}

func (b *mailbox[Req]) insertAt(at int, msgs []Message[Req]) {
	b.msgs = slices.Insert(b.msgs, at, msgs...)
}

// insertControl inserts control messages behind the present ones, not before position at.
func (b *mailbox[Req]) insertControl(at int, msgs ...Message[Req]) {
	at = max(at, b.control)
	b.insertAt(at, msgs)
	b.control = at + len(msgs)
}

// skip drops the first n messages.
func (b *mailbox[Req]) skip(n int) {
	kept := copy(b.msgs, b.msgs[n:])
	clear(b.msgs[kept:])
	b.msgs = b.msgs[:kept]
	b.control = max(b.control-n, 0)
}

// mailboxPool lends mailboxes to the instances of one shard; it belongs to the shard's
// mutex.
type mailboxPool[Req any] struct {
	spare  []*mailbox[Req]
	shared *sync.Pool
}

// borrow returns an empty mailbox.
func (p *mailboxPool[Req]) borrow() *mailbox[Req] {
	if n := len(p.spare); n > 0 {
		b := p.spare[n-1]
		p.spare = p.spare[:n-1]
		return b
	}
	return p.shared.Get().(*mailbox[Req])
}

// giveBack drops the messages of a mailbox and takes it back.
func (p *mailboxPool[Req]) giveBack(b *mailbox[Req]) {
	b.dropAll()
	if len(p.spare) < spareMailboxesMax && cap(b.msgs) <= spareRoomMax {
		p.spare = append(p.spare, b)
		return
	}
	p.shared.Put(b)
}
