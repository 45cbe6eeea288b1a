package reliable

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// Config holds the settings of a Sender; all fields must be positive.
type Config struct {
	Producer Producer
	// Window is how many numbers of one shard may lie between its oldest unconfirmed
	// message and its newest: at most WindowMax.
	Window int
	// Messages and Bytes bound the unconfirmed messages over all shards.
	Messages, Bytes int
	// Resend is how long the oldest message for an entity may stay unanswered
	// before it is retransmitted. Each retransmission doubles the wait, up to eight
	// times.
	Resend time.Duration
	// KeepDone: confirmed messages count as held until a Released.
	KeepDone bool
}

// The pauses after a refusal, and while a shard has no way to it. Each doubles up
// to its maximum; Freed ends the latter.
const (
	refusedMin, refusedMax = 2 * time.Millisecond, 200 * time.Millisecond
	blockedMin, blockedMax = 10 * time.Millisecond, 500 * time.Millisecond
)

// Sender is the core of one producer. It has no lock, clock or goroutine of its
// own:
//
//	Offer -> taken -> Next -> (the shell sends) -> Sent -> ... -> Confirmed -> Done
//	                    \-> Blocked ... Freed, or a pause -> Next
//
// Per entity the messages form a chain; the first `sent` of it are in flight, the rest
// wait to be sent, in order. A failure turns `sent` back, never the order.
type Sender struct {
	cfg     Config
	streams map[protocol.ShardID]*stream
	// top is the highest number given out in streams that were dropped.
	top uint64
	// ready are chains that may have something to send, each once.
	ready []*chain
	// active are all chains with messages.
	active []*chain
	// resting chains were refused; blocked streams have no route.
	resting []*chain
	blocked []*stream
	// scan is when to look for unanswered messages next.
	scan clock.Instant
	// Invariant: held and bytes are those of the items in the streams that are not
	// confirmed, and of the items that wait for Released.
	held, bytes int
}

// stream holds the unconfirmed messages of one shard, without holes.
type stream struct {
	shard protocol.ShardID
	next  uint64
	// items[i] has number items[0].seq + i. Invariant: items[0] is not confirmed.
	items   []*item
	chains  map[string]*chain
	blocked bool
	until   clock.Instant
	pause   time.Duration
}

type item struct {
	seq       uint64
	chain     *chain
	data      []byte
	at        gossip.NodeID
	sentAt    clock.Instant
	try       uint32
	confirmed bool
}

// chain holds the unconfirmed messages of one entity, oldest first.
type chain struct {
	stream *stream
	id     string
	items  []*item
	// sent of items are in flight. again: the first must be sent once more all the same.
	sent  int
	again bool
	ready bool
	until clock.Instant
	pause time.Duration
	// place is that in active.
	place int
}

// NewSender returns a Sender with nothing to send.
func NewSender(cfg Config) *Sender {
	return &Sender{cfg: cfg, streams: map[protocol.ShardID]*stream{}, scan: clock.Never}
}

// Held returns how many messages are unconfirmed, and their bytes.
func (s *Sender) Held() (messages, bytes int) { return s.held, s.bytes }

// Step handles one event.
func (s *Sender) Step(now clock.Instant, ev Event, out *Effects) {
	switch ev := ev.(type) {
	case Offer:
		out.Taken = s.offer(now, ev)
	case Sent:
		s.onSent(now, ev)
	case Blocked:
		s.block(now, ev)
	case Freed:
		s.freed(ev)
	case Confirmed:
		s.confirm(ev, out)
	case Refused:
		s.onRefused(now, ev)
	case Lost:
		s.onLost(ev)
	case Released:
		s.held -= ev.Messages
		s.bytes -= ev.Bytes
	case Tick:
		s.onTick(now)
	}
}

// Deadline returns when to send the next Tick.
func (s *Sender) Deadline() clock.Instant {
	next := s.scan
	for _, st := range s.blocked {
		next = clock.Min(next, st.until)
	}
	for _, c := range s.resting {
		next = clock.Min(next, c.until)
	}
	return next
}

func (s *Sender) offer(now clock.Instant, ev Offer) bool {
	st := s.streams[ev.Shard]
	if s.held >= s.cfg.Messages || s.held > 0 && s.bytes+len(ev.Data) > s.cfg.Bytes || st != nil && len(st.items) >= s.cfg.Window {
		return false
	}
	if st == nil {
		st = &stream{shard: ev.Shard, next: s.top + 1, chains: map[string]*chain{}}
		s.streams[ev.Shard] = st
	}
	c := st.chains[ev.ID]
	if c == nil {
		c = &chain{stream: st, id: ev.ID, place: len(s.active)}
		st.chains[ev.ID] = c
		s.active = append(s.active, c)
	}
	it := &item{seq: st.next, chain: c, data: ev.Data}
	st.next++
	st.items = append(st.items, it)
	c.items = append(c.items, it)
	s.held++
	s.bytes += len(ev.Data)
	if s.scan == clock.Never {
		s.scan = now.Add(s.cfg.Resend / 2)
	}
	s.enqueue(c)
	return true
}

// Next returns the message to send now, if any. Sent or Blocked must follow each message
// before the next call.
func (s *Sender) Next(now clock.Instant) (Transmit, bool) {
	for len(s.ready) > 0 {
		c := s.ready[0]
		if at := c.due(); at >= 0 && !c.stream.blocked && !c.until.After(now) {
			return s.transmit(c, at), true
		}
		c.ready = false
		s.ready[0] = nil
		s.ready = s.ready[1:]
	}
	s.ready = nil
	return Transmit{}, false
}

// due returns which message is to be sent, -1 if none is.
func (c *chain) due() int {
	switch {
	case len(c.items) == 0:
		return -1
	case c.again:
		return 0
	case c.sent < len(c.items):
		return c.sent
	}
	return -1
}

func (s *Sender) transmit(c *chain, at int) Transmit {
	it := c.items[at]
	stamp := Stamp{Producer: s.cfg.Producer, Seq: it.seq, Floor: c.stream.items[0].seq, Try: it.try + 1}
	if at > 0 {
		stamp.Prev = c.items[at-1].seq
	}
	return Transmit{Shard: c.stream.shard, ID: c.id, Stamp: stamp, Data: it.data}
}

func (s *Sender) enqueue(c *chain) {
	if !c.ready {
		c.ready = true
		s.ready = append(s.ready, c)
	}
}

// findMessage returns an unconfirmed message and its place in its chain, which has none that
// is confirmed.
func (s *Sender) findMessage(shard protocol.ShardID, seq uint64) (*item, int) {
	st := s.streams[shard]
	if st == nil || seq < st.items[0].seq || seq >= st.next {
		return nil, 0
	}
	it := st.items[seq-st.items[0].seq]
	c := it.chain
	if c.sent < len(c.items) && c.items[c.sent] == it {
		return it, c.sent
	}
	for i, other := range c.items {
		if other == it {
			return it, i
		}
	}
	return nil, 0
}
