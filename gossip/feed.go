package gossip

import (
	"context"
	"slices"
	"sync"

	"github.com/peerage-go/peerage/gossip/view"
)

// feedWaitingMax bounds the events that wait for one subscriber of a Feed, beside
// one for each member.
const feedWaitingMax = 4096

// Feed passes events on to subscribers that may be slow, or block: each is called
// from a goroutine of its own, and what waits for it is bounded. It takes what
// Node.Subscribe tells, of one incarnation after the other,
//
//	feed := new(gossip.Feed)
//	node.Subscribe(feed.Put)
//
// and passes on what happens to the cluster and to this node's part in it, in order:
// ViewChanged, MemberJoined, MemberLeft, MemberRemoved, LeaderChanged, LeaseChanged,
// QuorumLost, QuorumRegained and Removed, after which the next incarnation begins anew.
// It leaves out the events about connections, and Abandoned, for which the lease waits:
// who runs something that a lease guards takes them from Node.Subscribe, without delay.
//
// The zero Feed is ready. All methods are safe for concurrent use, and none but Close
// blocks. A Feed has one goroutine for each subscriber, until its cancellation or Close.
type Feed struct {
	mu     sync.Mutex
	told   standing
	subs   []*follower
	missed uint64
	closed bool
}

// follower is a subscriber of a Feed, guarded by the Feed's mutex.
type follower struct {
	fn func(Event)
	// queue waits. Invariant: empty while missed > 0.
	queue []Event
	// missed counts the events left out since the queue was full.
	missed    int
	cancelled bool
	wake      chan struct{}
	ended     chan struct{}
}

// standing is where a stream of events has come to: what subscribers that come later
// are told first.
type standing struct {
	view *ViewChanged
	// members were told and not taken back, in that order.
	members []MemberJoined
	leader  *LeaderChanged
	lease   *LeaseChanged
	lost    *QuorumLost
	over    *Removed
}

// Put takes an event. It does not block.
func (f *Feed) Put(ev Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || !f.told.note(ev) {
		return
	}
	for _, s := range f.subs {
		f.queue(s, ev)
	}
}

// queue appends to what waits for s; mu is held.
func (f *Feed) queue(s *follower, ev Event) {
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
	s.signal()
}

func (s *follower) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Subscribe calls fn for every event from now on, in order, from one goroutine. The
// state so far is told first: the view with a MemberJoined for each member, the leader,
// the lease, and what is wrong. A subscriber for which too much waits (4096 events and
// one for each member) is told Missed, and the state anew. After cancel no further call
// begins; one under way may still finish. cancel may be called from fn.
func (f *Feed) Subscribe(fn func(Event)) (cancel func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &follower{fn: fn, queue: f.told.story(), wake: make(chan struct{}, 1), ended: make(chan struct{})}
	f.subs = append(f.subs, s)
	go f.follow(s)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		s.cancelled = true
		f.subs = slices.DeleteFunc(f.subs, func(x *follower) bool { return x == s })
		s.signal()
	}
}

// follow is a subscriber's goroutine.
func (f *Feed) follow(s *follower) {
	defer close(s.ended)
	for {
		ev, more := f.next(s)
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

// next takes the event that s is told next, nil if none waits, and reports whether
// more may come.
func (f *Feed) next(s *follower) (ev Event, more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case s.cancelled:
		return nil, false
	case s.missed > 0:
		ev = Missed{Events: s.missed}
		s.missed, s.queue = 0, f.told.story()
	case len(s.queue) > 0:
		ev = s.queue[0]
		s.queue[0] = nil
		s.queue = s.queue[1:]
	default:
		return nil, !f.closed
	}
	return ev, true
}

// Missed returns how many events were left out, over all subscribers.
func (f *Feed) Missed() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.missed
}

// Close ends the feed: nothing is put into it any more. It returns when the subscribers
// have been told what waited for them and their goroutines have ended, or with the
// context's error, and those that still run end when their functions return. Idempotent.
func (f *Feed) Close(ctx context.Context) error {
	f.mu.Lock()
	f.closed = true
	subs := slices.Clone(f.subs)
	for _, s := range subs {
		s.signal()
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

// note takes an event, and reports whether it is one to pass on.
func (s *standing) note(ev Event) bool {
	switch ev.(type) {
	case Abandoned, PeerUp, PeerLost, PeerDead, PeerAlive:
		return false
	}
	if s.over != nil {
		*s = standing{} // Removed was the last of its incarnation: this is another
	}
	switch ev := ev.(type) {
	case ViewChanged:
		s.view = &ev
	case MemberJoined:
		s.members = append(s.members, ev)
	case MemberLeft:
		s.gone(&ev.Member)
	case MemberRemoved:
		s.gone(&ev.Member)
	case LeaderChanged:
		s.leader = &ev
	case LeaseChanged:
		s.lease = &ev
	case QuorumLost:
		s.lost = &ev
	case QuorumRegained:
		s.lost = nil
	case Removed:
		*s = standing{over: &ev}
	}
	return true
}

func (s *standing) gone(m *view.Member) {
	s.members = slices.DeleteFunc(s.members, func(x MemberJoined) bool { return x.Member.ID == m.ID })
}

// story is the state as events.
func (s *standing) story() []Event {
	var out []Event
	if s.view != nil {
		out = append(out, *s.view)
	}
	for _, m := range s.members {
		out = append(out, m)
	}
	if s.view != nil {
		out = append(out, foreignStory(nil, s.view.View)...)
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
