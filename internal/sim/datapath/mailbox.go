package datapath

import (
	"maps"
	"slices"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/flow"
)

// Mailboxes holds the messages that wait at one shard. Each entity has a mailbox. A message for
// which its mailbox has no room waits in a lane, as in package activation: parked for its
// sender, or with its caller on this process.
type Mailboxes struct {
	// Most is how many messages a mailbox holds, and as many control messages.
	Most int
	// ready are the messages in mailboxes, in the order in which they entered.
	ready     []Ready
	mailboxes map[int]*mailbox
}

// Ready is a message in a mailbox. An ask is not begun after it has expired.
type Ready struct {
	*Message
	Expires clock.Instant
}

// mailbox is that of one entity.
type mailbox struct {
	// messages and control are how many messages of each kind it holds.
	messages, control int
	lanes             [flow.Control + 1][]*Place
	// turn is the lane that is served next, of ordinary messages and those of handlers.
	turn flow.Class
}

// Place is the place of a message that waits for its mailbox.
type Place struct {
	// account is that of the sender of a message that is parked.
	account *account
	pooled  bool
	// entered informs a caller on this process: its message has entered the mailbox, or the
	// shard takes nothing more.
	entered func(entered bool)
	message Ready
	in      *mailbox
}

// Put adds a message to the mailbox of its entity, or to a lane. It returns false if the message
// must be rejected, since its sender has no right to a place. It counts with env.
func (b *Mailboxes) Put(r Ready, p *Place, count func(Event)) bool {
	mb := b.mailboxOf(r.Entity)
	if mb.hasRoomFor(r.Class, b.Most) {
		b.addReady(mb, r)
		if p.entered != nil {
			p.entered(true)
		}
		return true
	}
	if p.account != nil {
		may := false
		if p.pooled, may = p.account.parkMessage(r.Message); !may {
			return false
		}
	}
	count(MessageParked)
	p.message, p.in = r, mb
	mb.lanes[r.Class] = append(mb.lanes[r.Class], p)
	return true
}

func (b *Mailboxes) mailboxOf(entity int) *mailbox {
	if b.mailboxes == nil {
		b.mailboxes = map[int]*mailbox{}
	}
	if b.mailboxes[entity] == nil {
		b.mailboxes[entity] = &mailbox{}
	}
	return b.mailboxes[entity]
}

// hasRoomFor reports whether a message of a class may enter now: it must not overtake the messages in
// its lane. Messages of handlers have a reserve of a quarter of the mailbox.
func (b *mailbox) hasRoomFor(c flow.Class, most int) bool {
	switch {
	case len(b.lanes[c]) > 0:
		return false
	case c == flow.Control:
		return b.control < most
	case len(b.lanes[flow.Handler-c]) == 0 && b.messages < most:
		return true
	}
	return c == flow.Handler && b.messages < most+most/4
}

func (b *Mailboxes) addReady(mb *mailbox, r Ready) {
	if r.Class == flow.Control {
		mb.control++
	} else {
		mb.messages++
	}
	b.ready = append(b.ready, r)
}

// Take removes the message that is handled next.
func (b *Mailboxes) Take() (r Ready, ok bool) {
	if len(b.ready) == 0 {
		return r, false
	}
	r, b.ready = b.ready[0], b.ready[1:]
	mb := b.mailboxes[r.Entity]
	if r.Class == flow.Control {
		mb.control--
	} else {
		mb.messages--
	}
	b.admitWaiting(mb)
	return r, true
}

// admitWaiting lets messages from the lanes enter, as far as the mailbox has room.
func (b *Mailboxes) admitWaiting(mb *mailbox) {
	for len(mb.lanes[flow.Control]) > 0 && mb.control < b.Most {
		b.admitFirst(mb, flow.Control)
	}
	for mb.messages < b.Most {
		c := mb.turn
		if len(mb.lanes[c]) == 0 {
			c = flow.Handler - c
		}
		if len(mb.lanes[c]) == 0 {
			break
		}
		mb.turn = flow.Handler - c
		b.admitFirst(mb, c)
	}
	for len(mb.lanes[flow.Handler]) > 0 && mb.messages < b.Most+b.Most/4 {
		b.admitFirst(mb, flow.Handler)
	}
}

func (b *Mailboxes) admitFirst(mb *mailbox, c flow.Class) {
	p := mb.lanes[c][0]
	p.leaveLane()
	b.addReady(mb, p.message)
	p.endWait(true)
}

// endWait ends the wait of a message that has left its lane.
func (p *Place) endWait(entered bool) {
	if p.account != nil {
		p.account.unparkMessage(p.message.Message, p.pooled)
		return
	}
	p.entered(entered)
}

// leaveLane removes a message from its lane, if it waits there.
func (p *Place) leaveLane() {
	if p.in == nil {
		return
	}
	lane := &p.in.lanes[p.message.Class]
	*lane = slices.DeleteFunc(*lane, func(q *Place) bool { return q == p })
	p.in = nil
}

// Len returns how many messages are in mailboxes.
func (b *Mailboxes) Len() int { return len(b.ready) }

// Release empties the lanes, since the shard stops: a parked message was delivered, and enters
// the full mailbox; callers look for another home.
func (b *Mailboxes) Release() {
	for _, entity := range slices.Sorted(maps.Keys(b.mailboxes)) {
		mb := b.mailboxes[entity]
		for c := range mb.lanes {
			for len(mb.lanes[c]) > 0 {
				p := mb.lanes[c][0]
				p.leaveLane()
				if p.account != nil {
					b.addReady(mb, p.message)
				}
				p.endWait(false)
			}
		}
	}
}

// Clear ends the shard, and returns the messages that will not be handled.
func (b *Mailboxes) Clear() []Ready {
	b.Release()
	ready := b.ready
	b.ready = nil
	return ready
}
