package reliable

import (
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/failure"
)

// Event is what happens to a Sender.
type Event interface{ isEvent() }

// These are the events.
type (
	// Offer is a new message; Effects.Taken reports whether there was room for it. If so,
	// Data belongs to the Sender.
	Offer struct {
		Shard protocol.ShardID
		ID    string
		Data  []byte
	}
	// Sent: the message that Next last returned is in flight to a node.
	Sent struct {
		Shard protocol.ShardID
		Seq   uint64
		At    gossip.NodeID
	}
	// Blocked: there is no route, or no room, for the message that Next last returned. ID, if
	// set, restricts this to its entity.
	Blocked struct {
		Shard protocol.ShardID
		ID    string
	}
	// Freed: there may be a route to a shard now, or, if ID is set, to an entity.
	Freed struct {
		Shard protocol.ShardID
		ID    string
	}
	// Confirmed: a node reports that a message was handled, or will never be. Result is
	// returned in Done. All: every earlier message for the same entity was handled too, with
	// failure.ResultLost. It counts only from the node that has the last copy, and only while
	// that copy is not lost. Otherwise a crashed home could confirm the newer of two messages
	// of which the older is about to run a second time.
	Confirmed struct {
		Shard  protocol.ShardID
		Seq    uint64
		From   gossip.NodeID
		All    bool
		Result error
	}
	// Refused: a copy came and was not handled. Gap: an earlier message is missing.
	Refused struct {
		Shard protocol.ShardID
		Seq   uint64
		Try   uint32
		Gap   bool
	}
	// Lost: messages in flight to a node, or to all nodes if Node is 0, may not have
	// arrived.
	Lost struct{ Node gossip.NodeID }
	// Released: the owner no longer needs the message it got as Done; only with KeepDone.
	Released struct{ Messages, Bytes int }
	// Tick: the time of Deadline has come.
	Tick struct{}
)

func (Offer) isEvent()     {}
func (Sent) isEvent()      {}
func (Blocked) isEvent()   {}
func (Freed) isEvent()     {}
func (Confirmed) isEvent() {}
func (Refused) isEvent()   {}
func (Lost) isEvent()      {}
func (Released) isEvent()  {}
func (Tick) isEvent()      {}

// Transmit is one copy to send.
type Transmit struct {
	Shard protocol.ShardID
	ID    string
	Stamp Stamp
	// Data is the Sender's: it is not changed and not kept.
	Data []byte
}

// Done is a message that is confirmed.
type Done struct {
	Shard  protocol.ShardID
	ID     string
	Data   []byte
	Result error
}

// Effects lists what a Step asks for. Reset it between steps.
type Effects struct {
	Taken bool
	Done  []Done
}

// Reset empties e and keeps its memory.
func (e *Effects) Reset() {
	clear(e.Done)
	e.Taken, e.Done = false, e.Done[:0]
}

func (s *Sender) onSent(now clock.Instant, ev Sent) {
	it, at := s.findMessage(ev.Shard, ev.Seq)
	if it == nil {
		// The answer came first.
		return
	}
	c := it.chain
	it.at, it.sentAt = ev.At, now
	it.try++
	if at == 0 {
		c.again = false
	}
	if at == c.sent {
		c.sent++
	}
	c.stream.pause = 0
}

func (s *Sender) block(now clock.Instant, ev Blocked) {
	st := s.streams[ev.Shard]
	if st == nil || st.blocked {
		return
	}
	if c := st.chains[ev.ID]; c != nil {
		s.pauseChain(c, now, blockedMin, blockedMax)
		return
	}
	st.pause = min(max(2*st.pause, blockedMin), blockedMax)
	st.blocked, st.until = true, now.Add(st.pause)
	s.blocked = append(s.blocked, st)
}

// unblock lets the chains of a stream continue, in the order of their messages.
func (s *Sender) unblock(st *stream) {
	st.blocked = false
	s.blocked = slices.DeleteFunc(s.blocked, func(o *stream) bool { return o == st })
	for _, it := range st.items {
		if !it.confirmed && it.chain.due() >= 0 {
			s.enqueue(it.chain)
		}
	}
}

func (s *Sender) confirm(ev Confirmed, out *Effects) {
	it, at := s.findMessage(ev.Shard, ev.Seq)
	if it == nil || it.at != ev.From {
		return
	}
	c := it.chain
	st := c.stream
	first := at
	if ev.All {
		first = 0
	}
	for i, it := range c.items[first : at+1] {
		var result error = failure.ResultLost
		if first+i == at {
			result = ev.Result
		}
		s.finishMessage(it, result, out)
	}
	c.items = slices.Delete(c.items, first, at+1)
	c.sent = max(c.sent-(at+1-first), min(c.sent, first))
	c.pause, c.until = 0, 0
	c.again = c.again && first > 0
	if len(c.items) == 0 {
		s.dropChain(c)
	} else if c.due() >= 0 {
		s.enqueue(c)
	}
	for len(st.items) > 0 && st.items[0].confirmed {
		st.items[0] = nil
		st.items = st.items[1:]
	}
	if len(st.items) == 0 {
		s.forget(st)
	}
}

// finishMessage returns a message as confirmed.
func (s *Sender) finishMessage(it *item, result error, out *Effects) {
	out.Done = append(out.Done, Done{Shard: it.chain.stream.shard, ID: it.chain.id, Data: it.data, Result: result})
	if !s.cfg.KeepDone {
		s.held--
		s.bytes -= len(it.data)
	}
	it.confirmed, it.data = true, nil
}

// forget ends a stream; the next one begins above it.
func (s *Sender) forget(st *stream) {
	s.top = max(s.top, st.next-1)
	delete(s.streams, st.shard)
	if st.blocked {
		s.blocked = slices.DeleteFunc(s.blocked, func(o *stream) bool { return o == st })
	}
}

// dropChain removes a chain without messages.
func (s *Sender) dropChain(c *chain) {
	last := s.active[len(s.active)-1]
	s.active[c.place], last.place = last, c.place
	s.active[len(s.active)-1] = nil
	s.active = s.active[:len(s.active)-1]
	delete(c.stream.chains, c.id)
	s.resting = slices.DeleteFunc(s.resting, func(o *chain) bool { return o == c })
	if len(s.active) == 0 {
		s.scan = clock.Never
	}
}

func (s *Sender) onRefused(now clock.Instant, ev Refused) {
	it, at := s.findMessage(ev.Shard, ev.Seq)
	if it == nil || it.try != ev.Try || at >= it.chain.sent {
		// Another copy is in flight, or will be.
		return
	}
	c := it.chain
	if ev.Gap {
		at = 0
	}
	c.sent = at
	s.pauseChain(c, now, refusedMin, refusedMax)
}

// pauseChain pauses a chain, twice as long as the time before.
func (s *Sender) pauseChain(c *chain, now clock.Instant, shortest, longest time.Duration) {
	c.pause = min(max(2*c.pause, shortest), longest)
	c.until = now.Add(c.pause)
	if !slices.Contains(s.resting, c) {
		s.resting = append(s.resting, c)
	}
}

// freed ends the pause of a stream, or of a chain of it.
func (s *Sender) freed(ev Freed) {
	st := s.streams[ev.Shard]
	switch {
	case st == nil:
	case ev.ID != "":
		if c := st.chains[ev.ID]; c != nil {
			c.until = 0
			s.enqueue(c)
		}
	case st.blocked:
		s.unblock(st)
	}
}

func (s *Sender) onLost(ev Lost) {
	for _, c := range s.active {
		from := slices.IndexFunc(c.items[:c.sent], func(it *item) bool { return it.at == ev.Node || ev.Node == 0 })
		if from < 0 {
			continue
		}
		c.sent = from
		for _, it := range c.items[from:] {
			it.at = 0
		}
		s.enqueue(c)
	}
}

func (s *Sender) onTick(now clock.Instant) {
	for i := 0; i < len(s.blocked); {
		if st := s.blocked[i]; !st.until.After(now) {
			s.unblock(st)
			continue
		}
		i++
	}
	s.resting = slices.DeleteFunc(s.resting, func(c *chain) bool {
		over := !c.until.After(now)
		if over {
			s.enqueue(c)
		}
		return over
	})
	if s.scan.After(now) {
		return
	}
	s.scan = now.Add(s.cfg.Resend / 2)
	for _, c := range s.active {
		if c.sent > 0 && now.Sub(c.items[0].sentAt) >= s.wait(c.items[0].try) {
			c.again = true
			s.enqueue(c)
		}
	}
}

// wait returns how long the copy of that number may stay unanswered.
func (s *Sender) wait(try uint32) time.Duration {
	return s.cfg.Resend << min(max(try, 1)-1, 3)
}

// Marks returns, for each shard with unconfirmed messages, the number above its
// newest one.
func (s *Sender) Marks() map[protocol.ShardID]uint64 {
	marks := make(map[protocol.ShardID]uint64, len(s.streams))
	for shard, st := range s.streams { // order-free: a map of it
		marks[shard] = st.next
	}
	return marks
}

// Past reports whether all messages below marks are confirmed.
func (s *Sender) Past(marks map[protocol.ShardID]uint64) bool {
	for shard, mark := range marks { // order-free: all must hold
		if st := s.streams[shard]; st != nil && st.items[0].seq < mark {
			return false
		}
	}
	return true
}
