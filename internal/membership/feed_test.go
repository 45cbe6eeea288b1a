package membership

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// feedLines returns the events up to the one that ends with last.
func feedLines(ch chan gossip.Event, last string) (out []string) {
	for ev := range ch {
		line := fmt.Sprintf("%T", ev)
		switch ev := ev.(type) {
		case gossip.ViewChanged:
			line = fmt.Sprintf("view %d", ev.View.Epoch)
		case gossip.MemberJoined:
			line = fmt.Sprintf("+%d", ev.Member.ID)
		case gossip.MemberLeft:
			line = fmt.Sprintf("-%d", ev.Member.ID)
		case gossip.MemberRemoved:
			line = fmt.Sprintf("x%d", ev.Member.ID)
		case gossip.LeaderChanged:
			line = fmt.Sprintf("leader %d", ev.Leader)
		case gossip.LeaseChanged:
			line = fmt.Sprintf("lease %v", ev.Valid)
		case gossip.Missed:
			line = fmt.Sprintf("missed %d", ev.Events)
		}
		out = append(out, line)
		if line == last {
			break
		}
	}
	return out
}

func joined(id gossip.NodeID) gossip.MemberJoined {
	return gossip.MemberJoined{Member: gossip.Member{Node: gossip.Node{ID: id}}}
}

// listening returns a subscriber that never blocks.
func listening(f *Feed) (chan gossip.Event, func()) {
	ch := make(chan gossip.Event, 100_000)
	return ch, f.Subscribe(func(ev gossip.Event) { ch <- ev })
}

func closeFeed(t *testing.T, f *Feed) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := f.Close(ctx); err != nil {
		t.Error(err)
	}
}

func expect(t *testing.T, who string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s was told %q, want %q", who, got, want)
	}
}

// A feed continues over incarnations; a later subscriber receives the state, and no
// subscriber the events about connections.
func TestFeedDeliversTheStateThenChanges(t *testing.T) {
	f := new(Feed)
	first, _ := listening(f)
	for _, ev := range []Event{
		PeerUp{}, gossip.ViewChanged{View: &gossip.View{Epoch: 1}}, joined(1), joined(2), joined(3), gossip.LeaderChanged{Leader: 1},
		gossip.LeaseChanged{Valid: true}, PeerDead{}, gossip.ViewChanged{View: &gossip.View{Epoch: 2}},
		gossip.MemberRemoved{Member: gossip.Member{Node: gossip.Node{ID: 2}}},
	} {
		f.Put(ev)
	}
	second, _ := listening(f) // between a view and the events about it
	f.Put(gossip.MemberLeft{Member: gossip.Member{Node: gossip.Node{ID: 3}}})
	f.Put(gossip.LeaseChanged{Valid: false})
	f.Put(gossip.QuorumLost{})
	third, _ := listening(f)
	f.Put(Abandoned{})
	f.Put(gossip.Removed{})
	between, _ := listening(f)
	f.Put(gossip.LeaderChanged{Leader: 9})
	f.Put(gossip.ViewChanged{View: &gossip.View{Epoch: 7}})
	f.Put(joined(9))
	last, _ := listening(f)
	closeFeed(t, f)
	f.Put(joined(10))

	next := []string{"leader 9", "view 7", "+9"}
	expect(t, "the first", feedLines(first, "+9"), slices.Concat([]string{
		"view 1", "+1", "+2", "+3", "leader 1", "lease true", "view 2", "x2", "-3", "lease false", "gossip.QuorumLost", "gossip.Removed"}, next)...)
	expect(t, "the second", feedLines(second, "+9"), slices.Concat([]string{
		"view 2", "+1", "+3", "leader 1", "lease true", "-3", "lease false", "gossip.QuorumLost", "gossip.Removed"}, next)...)
	expect(t, "the third", feedLines(third, "+9"), slices.Concat([]string{
		"view 2", "+1", "leader 1", "lease false", "gossip.QuorumLost", "gossip.Removed"}, next)...)
	expect(t, "one between two incarnations", feedLines(between, "+9"), slices.Concat([]string{"gossip.Removed"}, next)...)
	expect(t, "the last", feedLines(last, "leader 9"), "view 7", "+9", "leader 9")
}

// The queue of a blocking subscriber is bounded and delays no other; the state replaces
// dropped events.
func TestASlowSubscriberDelaysNoOtherAndMissesCounted(t *testing.T) {
	const flaps = 3 * feedWaitingMax
	f := new(Feed)
	blocked, free := make(chan struct{}), make(chan struct{})
	slow := make(chan gossip.Event, 100_000)
	f.Subscribe(func(ev gossip.Event) {
		if len(slow) == 0 {
			close(blocked)
			<-free
		}
		slow <- ev
	})
	quick, _ := listening(f)
	put := func(ev gossip.Event) {
		f.Put(ev)
		<-quick // it receives the event even if the other subscriber blocks
	}
	put(gossip.ViewChanged{View: &gossip.View{Epoch: 1}})
	<-blocked
	put(joined(1))
	put(joined(2))
	for i := range flaps {
		put(gossip.LeaseChanged{Valid: i%2 == 1})
	}
	put(gossip.MemberLeft{Member: gossip.Member{Node: gossip.Node{ID: 2}}})
	if len(quick) > 0 {
		t.Errorf("the quick one was told %d events too many", len(quick))
	}
	f.mu.Lock()
	waiting := len(f.subs[0].queue)
	f.mu.Unlock()
	if waiting > feedWaitingMax+2 {
		t.Errorf("%d events wait for one who takes none", waiting)
	}
	close(free)
	f.Put(gossip.QuorumLost{})
	closeFeed(t, f)
	close(slow)
	got := feedLines(slow, "")
	// QuorumLost may have been missed as well, or be added.
	want := []string{"view 1", fmt.Sprintf("missed %d", flaps+3), "view 1", "+1", "lease true", "gossip.QuorumLost"}
	if len(got) > 1 && got[1] == fmt.Sprintf("missed %d", flaps+4) {
		want[1] = got[1]
	}
	expect(t, "the slow one", got, want...)
	if n := f.Missed(); n < flaps+3 || n > flaps+4 {
		t.Errorf("%d events were counted as missed, of %d", n, flaps+3)
	}
}

// Close waits for functions as long as its context allows, and they may cancel their
// subscription.
func TestFeedEnds(t *testing.T) {
	f := new(Feed)
	inside, leave := make(chan struct{}), make(chan struct{})
	var once sync.Once
	f.Subscribe(func(gossip.Event) {
		once.Do(func() { close(inside) })
		<-leave
	})
	var cancel func()
	ready, calls := make(chan struct{}), make(chan gossip.Event, 10)
	cancel = f.Subscribe(func(ev gossip.Event) {
		<-ready
		calls <- ev
		cancel()
	})
	follower := f.subs[1]
	close(ready)
	f.Put(joined(1))
	f.Put(joined(2))
	<-inside
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if err := f.Close(ctx); err != context.Canceled {
		t.Errorf("Close while a subscriber blocks: %v", err)
	}
	close(leave)
	closeFeed(t, f)
	<-follower.ended
	if len(calls) != 1 {
		t.Errorf("one that cancelled in its first call was called %d times", len(calls))
	}
	late, _ := listening(f)
	expect(t, "one after the end", feedLines(late, "+2"), "+1", "+2")
}
