package membership

import (
	"context"
	"slices"
	"sync"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/signal"
)

// feedWaitingMax bounds the events that wait for one subscriber of a Feed, in addition to
// one for each member.
const feedWaitingMax = 4096

// Feed delivers events to subscribers that may be slow, or block: each is called from a
// goroutine of its own, with a bounded queue. It takes the events of Node.Subscribe, of
// one incarnation after the other,
//
//	feed := new(membership.Feed)
//	node.Subscribe(feed.Put)
//
// and delivers those about the cluster and this node's part in it, in order: ViewChanged,
// MemberJoined, MemberLeft, MemberRemoved, LeaderChanged, LeaseChanged, QuorumLost,
// QuorumRegained and Removed, after which the events of the next incarnation follow. It
// drops the events about connections, and Abandoned, for which the lease waits: code that
// a lease guards must take them from Node.Subscribe, without delay.
//
// The zero Feed is ready. All methods are safe for concurrent use, and none but Close
// blocks. A Feed has one goroutine for each subscriber, until its cancellation or Close.
type Feed struct {
	mu     sync.Mutex
	told   feedState
	subs   []*follower
	missed uint64
	closed bool
}

// follower is a subscriber of a Feed, guarded by the Feed's mutex.
type follower struct {
	fn func(gossip.Event)
	// queue holds the waiting events. Invariant: empty while missed > 0.
	queue []gossip.Event
	// missed counts the events dropped since the queue was full.
	missed    int
	cancelled bool
	wake      signal.Wake
	ended     chan struct{}
}

// feedState is the state after a stream of events, which later subscribers receive first.
type feedState struct {
	view *gossip.ViewChanged
	// members holds the reported members that have not gone, in that order.
	members []gossip.MemberJoined
	leader  *gossip.LeaderChanged
	lease   *gossip.LeaseChanged
	lost    *gossip.QuorumLost
	over    *gossip.Removed
}

// Put adds an event, unless only the layers of a node receive it. It does not block.
func (f *Feed) Put(ev Event) {
	public, ok := ev.(gossip.Event)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || !ok {
		return
	}
	f.told.recordEvent(public)
	for _, s := range f.subs {
		f.queueEvent(s, public)
	}
}

// queueEvent appends an event to the queue of s; mu is held.
func (f *Feed) queueEvent(s *follower, ev gossip.Event) {
	switch full := len(s.queue) >= feedWaitingMax+len(f.told.members); {
	case full:
		f.missed += uint64(len(s.queue)) + 1
		s.missed, s.queue = len(s.queue)+1, nil
	case s.missed > 0:
		f.missed++
		s.missed++
	default:
		s.queue = append(s.queue, ev)
	}
	s.wake.Set()
}

// Subscribe calls fn for every event from now on, in order, from one goroutine. The
// current state is delivered first: the view with a MemberJoined for each member, the
// leader, the lease, and a lost quorum or the end. A subscriber whose queue is full (4096
// events and one for each member) receives Missed, and the state again. After cancel no
// further call begins; a running one may still finish. cancel may be called from fn.
func (f *Feed) Subscribe(fn func(gossip.Event)) (cancel func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &follower{fn: fn, queue: f.told.stateEvents(), wake: signal.NewWake(), ended: make(chan struct{})}
	f.subs = append(f.subs, s)
	go f.runFollower(s)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		s.cancelled = true
		f.subs = slices.DeleteFunc(f.subs, func(x *follower) bool { return x == s })
		s.wake.Set()
	}
}

// runFollower is a subscriber's goroutine.
func (f *Feed) runFollower(s *follower) {
	defer close(s.ended)
	for {
		ev, more := f.nextEvent(s)
		switch {
		case ev != nil:
			s.fn(ev)
		case !more:
			return
		default:
			<-s.wake
		}
	}
}

// nextEvent removes and returns the next event for s, nil if none waits, and reports whether
// more may follow.
func (f *Feed) nextEvent(s *follower) (ev gossip.Event, more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case s.cancelled:
		return nil, false
	case s.missed > 0:
		ev = gossip.Missed{Events: s.missed}
		s.missed, s.queue = 0, f.told.stateEvents()
	case len(s.queue) > 0:
		ev = s.queue[0]
		s.queue[0] = nil
		s.queue = s.queue[1:]
	default:
		return nil, !f.closed
	}
	return ev, true
}

// Missed returns how many events were dropped, over all subscribers.
func (f *Feed) Missed() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.missed
}

// Close ends the feed: Put is then a no-op. It returns when the subscribers have received
// their queued events and their goroutines have ended, or with the context's error;
// goroutines that still run end when their functions return. Idempotent.
func (f *Feed) Close(ctx context.Context) error {
	f.mu.Lock()
	f.closed = true
	subs := slices.Clone(f.subs)
	for _, s := range subs {
		s.wake.Set()
	}
	f.mu.Unlock()
	for _, s := range subs {
		select {
		case <-s.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// recordEvent records an event.
func (s *feedState) recordEvent(ev gossip.Event) {
	if s.over != nil {
		*s = feedState{} // Removed was the last event of its incarnation: this is the next one
	}
	switch ev := ev.(type) {
	case gossip.ViewChanged:
		s.view = &ev
	case gossip.MemberJoined:
		s.members = append(s.members, ev)
	case gossip.MemberLeft:
		s.removeMember(&ev.Member)
	case gossip.MemberRemoved:
		s.removeMember(&ev.Member)
	case gossip.LeaderChanged:
		s.leader = &ev
	case gossip.LeaseChanged:
		s.lease = &ev
	case gossip.QuorumLost:
		s.lost = &ev
	case gossip.QuorumRegained:
		s.lost = nil
	case gossip.Removed:
		*s = feedState{over: &ev}
	}
}

func (s *feedState) removeMember(m *gossip.Member) {
	s.members = slices.DeleteFunc(s.members, func(x gossip.MemberJoined) bool { return x.Member.ID == m.ID })
}

// stateEvents returns the state as events.
func (s *feedState) stateEvents() []gossip.Event {
	var out []gossip.Event
	if s.view != nil {
		out = append(out, *s.view)
	}
	for _, m := range s.members {
		out = append(out, m)
	}
	if s.view != nil {
		out = append(out, contestDiff(nil, s.view.View)...)
	}
	if s.leader != nil {
		out = append(out, *s.leader)
	}
	if s.lease != nil {
		out = append(out, *s.lease)
	}
	if s.lost != nil {
		out = append(out, *s.lost)
	}
	if s.over != nil {
		out = append(out, *s.over)
	}
	return out
}
