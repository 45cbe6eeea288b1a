package membership

import (
	"slices"
	"sync"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/signal"
	"github.com/peerage-go/peerage/internal/transport"
)

// Event is an event of Node.Subscribe: a gossip.Event, or one of Abandoned, PeerUp, PeerLost,
// PeerDead and PeerAlive, which only the layers of a node receive.
type Event any

// Abandoned requires that every instance on this node be dropped without running user
// code. A lease of another generation becomes valid only after all subscribers have
// returned from it.
type Abandoned struct{}

// PeerUp reports that an outgoing connection to a peer was established.
type PeerUp struct {
	ID    gossip.NodeID
	Class transport.Class
}

// PeerLost reports that a connection with a peer broke. Frames that were queued or in
// flight may or may not have arrived. For class Message each failed attempt to connect is
// also reported: the frames queued for it are lost.
type PeerLost struct {
	ID    gossip.NodeID
	Class transport.Class
	// Incoming is set if it was the peer's connection to this node, which carries
	// answers.
	Incoming bool
	Err      error
}

// PeerDead reports a proof that a peer's process has ended. A later sign of life may
// withdraw the proof: PeerAlive.
type PeerDead struct {
	ID   gossip.NodeID
	Kind EvidenceKind
}

// PeerAlive withdraws PeerDead.
type PeerAlive struct{ ID gossip.NodeID }

// dispatcher delivers events in order from one goroutine to all subscribers. Its queue
// has no bound of its own: frequent events are coalesced, so it holds at most one
// ViewChanged and one LeaseChanged in a row, and events about connections, whose number
// the peers bound. putEvent never blocks.
type dispatcher struct {
	mu    sync.Mutex
	queue []item
	subs  []*subscription
	wake  signal.Wake
	done  chan struct{}
	ended chan struct{}
	// delivered and coalesced count events.
	delivered, coalesced uint64
	// The last delivered events, for later subscribers. Owned by the delivering
	// goroutine.
	view    *gossip.ViewChanged
	leader  *gossip.LeaderChanged
	lease   *gossip.LeaseChanged
	removed *gossip.Removed
	// why returns why a member was left out.
	why func(gossip.NodeID) gossip.Departure
}

// item is an event for all subscribers, or, with sub set, for one; do runs after all have
// handled the event.
type item struct {
	ev  Event
	sub *subscription
	do  func()
}

type subscription struct {
	fn        func(Event)
	cancelled bool
	// live is set by the delivering goroutine once the subscriber has received the
	// current state: from then on it receives the common events.
	live bool
}

func newDispatcher(why func(gossip.NodeID) gossip.Departure) *dispatcher {
	d := &dispatcher{why: why, wake: signal.NewWake(), done: make(chan struct{}), ended: make(chan struct{})}
	go d.runDelivery()
	return d
}

// putEvent queues an event for all; do, if set, runs in the delivering goroutine after
// all subscribers have returned from it.
func (d *dispatcher) putEvent(ev Event, do func()) {
	d.mu.Lock()
	if last := len(d.queue) - 1; last >= 0 && d.queue[last].do == nil && d.queue[last].sub == nil &&
		replaces(ev, d.queue[last].ev) {
		d.queue[last] = item{ev: ev, do: do}
		d.coalesced++
	} else {
		d.queue = append(d.queue, item{ev: ev, do: do})
	}
	d.mu.Unlock()
	d.wake.Set()
}

// replaces reports whether a supersedes b when it is queued right behind it.
func replaces(a, b Event) bool {
	switch a.(type) {
	case gossip.ViewChanged:
		_, same := b.(gossip.ViewChanged)
		return same
	case gossip.LeaderChanged:
		_, same := b.(gossip.LeaderChanged)
		return same
	case gossip.LeaseChanged:
		_, same := b.(gossip.LeaseChanged)
		return same
	}
	return false
}

// subscribe queues the current state for fn behind everything queued, and then the common
// events. The state is the one delivered last, not the newest, so that fn never receives
// an older state after a newer one.
func (d *dispatcher) subscribe(fn func(Event)) (cancel func()) {
	s := &subscription{fn: fn}
	d.mu.Lock()
	d.queue = append(d.queue, item{sub: s, do: func() { d.deliverState(s) }})
	d.subs = append(d.subs, s)
	d.mu.Unlock()
	d.wake.Set()
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		s.cancelled = true
		d.subs = slices.DeleteFunc(d.subs, func(x *subscription) bool { return x == s })
	}
}

// deliverState delivers the current state to a new subscriber.
func (d *dispatcher) deliverState(s *subscription) {
	if d.view != nil {
		d.callSubscriber(s, *d.view)
		for _, ev := range memberDiff(nil, d.view.View, d.why) {
			d.callSubscriber(s, ev)
		}
		for _, ev := range contestDiff(nil, d.view.View) {
			d.callSubscriber(s, ev)
		}
	}
	if d.leader != nil {
		d.callSubscriber(s, *d.leader)
	}
	if d.lease != nil {
		d.callSubscriber(s, *d.lease)
	}
	if d.removed != nil {
		d.callSubscriber(s, *d.removed)
	}
	s.live = true
}

// closeQueue delivers what is queued, ends the goroutine and waits for it.
func (d *dispatcher) closeQueue() {
	close(d.done)
	<-d.ended
}

func (d *dispatcher) runDelivery() {
	defer close(d.ended)
	for {
		select {
		case <-d.wake:
			d.drainQueue()
		case <-d.done:
			d.drainQueue()
			return
		}
	}
}

func (d *dispatcher) drainQueue() {
	for {
		d.mu.Lock()
		batch := d.queue
		d.queue = nil
		d.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		for _, it := range batch {
			d.deliverItem(it)
		}
	}
}

func (d *dispatcher) deliverItem(it item) {
	if v, is := it.ev.(gossip.ViewChanged); is {
		var before *gossip.View
		if d.view != nil {
			before = d.view.View
		}
		d.callSubscribers(v)
		for _, ev := range memberDiff(before, v.View, d.why) {
			d.callSubscribers(ev)
		}
	} else if it.ev != nil {
		d.callSubscribers(it.ev)
	}
	if it.do != nil {
		it.do()
	}
}

// callSubscribers delivers an event to all subscribers that have received the state before it.
func (d *dispatcher) callSubscribers(ev Event) {
	d.recordLast(ev)
	d.mu.Lock()
	subs := slices.Clone(d.subs)
	d.delivered++
	d.mu.Unlock()
	for _, s := range subs {
		if s.live {
			d.callSubscriber(s, ev)
		}
	}
}

func (d *dispatcher) recordLast(ev Event) {
	switch ev := ev.(type) {
	case gossip.ViewChanged:
		d.view = &ev
	case gossip.LeaderChanged:
		d.leader = &ev
	case gossip.LeaseChanged:
		d.lease = &ev
	case gossip.Removed:
		d.removed = &ev
	}
}

func (d *dispatcher) callSubscriber(s *subscription, ev Event) {
	d.mu.Lock()
	gone := s.cancelled
	d.mu.Unlock()
	if !gone {
		s.fn(ev)
	}
}

// queueCounts returns how many events were delivered, were coalesced, and wait.
func (d *dispatcher) queueCounts() (delivered, coalesced uint64, waiting int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.delivered, d.coalesced, len(d.queue)
}
