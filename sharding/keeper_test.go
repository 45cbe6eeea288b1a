package sharding

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/daemon"
	"github.com/peerage-go/peerage/internal/residency"
)

// askAll asks every worker from a node; the answers do not matter.
func (s *shop) askAll(t *testing.T, from, workers int) {
	for i := range workers {
		_, _ = s.daemons[from].Worker(i).Ask(within(t, 100*time.Millisecond), "hello")
	}
}

// nobodyAt asserts that no worker lives on a node.
func (s *shop) nobodyAt(t *testing.T, when string, node gossip.NodeID) {
	t.Helper()
	s.crew.mu.Lock()
	defer s.crew.mu.Unlock()
	for n, h := range s.crew.lives { // order-free: each is checked by itself
		if h.node == node {
			t.Errorf("%s: worker %d runs on %v, which nobody waits for", when, n, node)
		}
	}
}

// A node runs nothing, whatever it knows of plans and whoever asks its workers for
// something, until a majority knows that it is there: those who change the number of
// workers would not wait for it. That holds for each incarnation of a node.
func TestANodeRunsNoWorkersBeforeItIsKnown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShop(t, 2, 6)
		pass(2 * time.Second)
		watch := func(when string, node gossip.NodeID) {
			t.Helper()
			for range 30 {
				s.askAll(t, 0, 6)
				pass(time.Second)
				s.nobodyAt(t, when, node)
			}
		}
		s.cutStore(3, true)
		s.hire(t, "n3", 6)
		s.install(s.nodes...)
		watch("the third", 3)
		s.cutStore(3, false)
		pass(30 * time.Second)
		s.check(t, "when the third is known", 6, 3)
		// Another incarnation of the second.
		n := s.nodes[1]
		if err := n.s.Drain(within(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
		s.install(s.nodes[0], s.nodes[2])
		if err := n.s.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		again := s.add("n2")
		again.reg = n.reg
		s.cutStore(again.self.ID, true)
		again.start()
		s.install(s.nodes[0], s.nodes[2], again)
		watch("the second once more", again.self.ID)
	})
}

// Those who host say by which view they are members.
func TestHostsOfADaemonSaySinceWhen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShop(t, 3, 3)
		pass(2 * time.Second)
		s.store.plans.mu.Lock()
		defer s.store.plans.mu.Unlock()
		for _, n := range s.nodes {
			if a, ok := s.store.plans.state.Acked[n.self.ID]; !ok || a.Since != s.epoch {
				t.Errorf("%v says %+v, %v; the view is %v", n.self.ID, a, ok, s.epoch)
			}
		}
	})
}

// deaf is a store that tells of no changes.
type deaf struct{ *memStore }

func (deaf) WatchPlan(string, func(daemon.State)) (cancel func()) { return func() {} }

// The plan by which a node starts its workers is the one that it has read.
func TestADaemonGoesByThePlanThatItRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShop(t, 1, 6)
		pass(2 * time.Second)
		s.recordIn = deaf{s.store}
		s.hire(t, "n2", 6)
		s.install(s.nodes...)
		pass(time.Minute)
		s.check(t, "on two nodes", 6, 3)
		if n := s.daemons[1].Workers(); n != 6 {
			t.Errorf("the second knows of %d", n)
		}
	})
}

// Nothing of a change waits for a tick.
func TestDaemonScalesAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShop(t, 3, 3)
		pass(2*time.Second + 10*time.Millisecond)
		for _, n := range []int{7, 2} {
			begin := time.Now()
			if err := s.daemons[1].Scale(within(t, 10*time.Second), n); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begin); took > residency.CheckEvery/5 {
				t.Errorf("Scale to %d took %v", n, took)
			}
			pass(residency.CheckEvery / 5)
			s.check(t, fmt.Sprint("at once after scaling to ", n), n, n)
			pass(residency.CheckEvery/2 + 10*time.Millisecond)
		}
	})
}
