package membership

import (
	"fmt"
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/view"
)

// collect returns a subscriber that writes its events to a channel.
func collect() (func(Event), chan string) {
	ch := make(chan string, 1024)
	return func(ev Event) {
		switch ev := ev.(type) {
		case gossip.ViewChanged:
			ch <- fmt.Sprintf("view %v", uint64(ev.View.Epoch))
		case gossip.LeaseChanged:
			ch <- fmt.Sprintf("lease %v", ev.Valid)
		default:
			ch <- fmt.Sprintf("%T", ev)
		}
	}, ch
}

func drainAll(ch chan string) (out []string) {
	close(ch)
	for s := range ch {
		out = append(out, s)
	}
	return out
}

func TestSubscribersSeeTheStateFirstAndNoStepBack(t *testing.T) {
	d := newDispatcher(new(departures).departureOf)
	early, earlyGot := collect()
	d.subscribe(early)
	d.putEvent(gossip.ViewChanged{View: &gossip.View{Epoch: 1}}, nil)
	d.putEvent(gossip.LeaseChanged{Valid: true}, nil)
	late, lateGot := collect()
	d.subscribe(late)
	d.putEvent(gossip.ViewChanged{View: &gossip.View{Epoch: 2}}, nil)
	d.putEvent(Abandoned{}, nil)
	d.closeQueue()
	if got, want := drainAll(earlyGot), []string{"view 1", "lease true", "view 2", "membership.Abandoned"}; !slices.Equal(got, want) {
		t.Errorf("the early one saw %q, want %q", got, want)
	}
	if got, want := drainAll(lateGot), []string{"view 1", "lease true", "view 2", "membership.Abandoned"}; !slices.Equal(got, want) {
		t.Errorf("the late one saw %q, want %q", got, want)
	}
}

func TestViewsAreCoalescedAbandonsAreNot(t *testing.T) {
	d := newDispatcher(new(departures).departureOf)
	gate := make(chan struct{})
	fn, got := collect()
	d.subscribe(func(ev Event) { <-gate; fn(ev) })
	d.putEvent(PeerUp{}, nil) // holds the goroutine while the rest queues up
	for e := range 10 {
		d.putEvent(gossip.ViewChanged{View: &gossip.View{Epoch: gossip.Epoch(e)}}, nil)
	}
	d.putEvent(Abandoned{}, nil)
	d.putEvent(Abandoned{}, nil)
	close(gate)
	d.closeQueue()
	all := drainAll(got)
	if n := len(all); all[n-1] != "membership.Abandoned" || all[n-2] != "membership.Abandoned" || all[n-3] != "view 9" {
		t.Errorf("saw %q", all)
	}
	if len(all) > 13 {
		t.Errorf("saw %d events", len(all))
	}
}

func TestCancelEndsDelivery(t *testing.T) {
	d := newDispatcher(new(departures).departureOf)
	n := 0
	var cancel func()
	ready := make(chan struct{})
	cancel = d.subscribe(func(Event) { <-ready; n++; cancel() })
	close(ready)
	for range 5 {
		d.putEvent(Abandoned{}, nil)
	}
	d.closeQueue()
	if n != 1 {
		t.Errorf("%d events were delivered after the first one cancelled", n-1)
	}
}

// A lease of another generation must not run instances of the old one, so it
// opens only when every subscriber has returned from Abandoned.
func TestLeaseOpensAfterAbandonedIsDelivered(t *testing.T) {
	d := newDispatcher(new(departures).departureOf)
	var cell publishedLease
	cell.setLease(view.Lease{Until: 100, Generation: 1}, 50)
	if !cell.validAt(60) || cell.validAt(100) {
		t.Fatal("a plain lease is wrong")
	}
	inside, leave := make(chan struct{}), make(chan struct{})
	d.subscribe(func(ev Event) {
		if _, ok := ev.(Abandoned); ok {
			close(inside)
			<-leave
		}
	})
	cell.withhold()
	cell.setLease(view.Lease{Until: 200, Generation: 2}, 110)
	d.putEvent(Abandoned{}, cell.endHold)
	<-inside
	if cell.validAt(120) {
		t.Error("the lease is open while a subscriber still abandons")
	}
	close(leave)
	d.closeQueue()
	if !cell.validAt(120) {
		t.Error("the lease did not open")
	}
}

func BenchmarkLeaseValid(b *testing.B) {
	cfg := Config{}.withDefaults()
	n := &Node{clock: cfg.Clock}
	n.lease.setLease(view.Lease{Until: n.clock.Now().Add(1 << 60)}, n.clock.Now())
	for b.Loop() {
		if !n.LeaseValid() {
			b.Fatal("not valid")
		}
	}
}
