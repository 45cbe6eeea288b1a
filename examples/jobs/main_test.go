package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/peeragetest"
	"github.com/peerage-go/peerage/sharding"
)

// sink records what all nodes execute. It rejects runs with a token below one it has seen.
type sink struct {
	mu   sync.Mutex
	runs map[string][]int
	last map[string]sharding.Token
	fail error
}

func (s *sink) execute(e execution) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Token.Compare(s.last[e.Job]) < 0 {
		return errors.New("an instance that was replaced")
	}
	if s.fail != nil {
		return s.fail
	}
	s.last[e.Job] = e.Token
	s.runs[e.Job] = append(s.runs[e.Job], e.Number)
	return nil
}

// numbers returns the numbers of the runs of a job so far.
func (s *sink) numbers(job string) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.runs[job])
}

// startCluster starts three nodes that execute jobs in one sink.
func startCluster(t *testing.T) (*peeragetest.Cluster[*jobs], *sink) {
	s := &sink{runs: map[string][]int{}, last: map[string]sharding.Token{}}
	c := peeragetest.Start(t, 3, func(ctx context.Context, cfg peerage.Config) (*peerage.Node, *jobs, error) {
		return startJobs(ctx, cfg, s.execute)
	})
	return c, s
}

// giveOrder sends an order to a job from a node.
func giveOrder(t *testing.T, n *peeragetest.Node[*jobs], name string, o order) {
	t.Helper()
	if _, err := n.Service.Ask(t.Context(), name, o); err != nil {
		t.Fatal(err)
	}
}

// Jobs go on after the crash of any node, without a message, and no run is left out or
// repeated: the crash is between two runs.
func TestJobsGoOnAfterACrash(t *testing.T) {
	for _, victim := range []string{"a", "b", "c"} {
		synctest.Test(t, func(t *testing.T) {
			c, s := startCluster(t)
			for i := range 20 {
				giveOrder(t, c.Node("a"), fmt.Sprint("job", i), order{Every: time.Second})
			}
			<-time.After(2500 * time.Millisecond) // virtual
			c.Node(victim).Crash()
			c.WaitUntil(4*time.Second, "each job has run five times", func() bool {
				for i := range 20 {
					if len(s.numbers(fmt.Sprint("job", i))) < 5 {
						return false
					}
				}
				return true
			})
			for i := range 20 {
				if got := s.numbers(fmt.Sprint("job", i)); !slices.Equal(got[:5], []int{1, 2, 3, 4, 5}) {
					t.Errorf("job%d ran %v after the crash of %s", i, got, victim)
				}
			}
			c.AssertSingleInstance()
		})
	}
}

// A job that was cancelled stays so, also after crashes; a run that fails is tried again.
func TestCancelledAndFailedRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := startCluster(t)
		giveOrder(t, c.Node("a"), "x", order{Every: time.Second})
		s.mu.Lock()
		s.fail = errors.New("the printer is out of paper")
		s.mu.Unlock()
		<-time.After(3500 * time.Millisecond) // virtual
		s.mu.Lock()
		s.fail = nil
		s.mu.Unlock()
		c.WaitUntil(2*time.Second, "the first run is done", func() bool { return len(s.numbers("x")) == 1 })
		giveOrder(t, c.Node("b"), "x", order{Cancel: true})
		c.Node("a").Crash()
		<-time.After(3 * time.Second) // virtual
		if got := s.numbers("x"); !slices.Equal(got, []int{1}) {
			t.Errorf("runs %v, want the first one alone", got)
		}
	})
}

// The program itself, on real connections: each run is printed once, in order.
func Example() {
	runExample()
	// Output:
	// run 1 of report
	// run 2 of report
	// its node crashes
	// run 3 of report
	// run 4 of report
}
