package sharding

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// Callers that wait for room in one mailbox are served in the order of arrival, so none
// has many turns while another waits for its first.
func TestCallersOfAFullMailboxHaveEqualTurns(t *testing.T) {
	const callers, mailbox, most = 1000, 50, 20_000
	c := newCluster(t)
	n := c.add("n1")
	turns := make([]int, callers) // written by the one entity
	handled, arrived, ended := 0, make(chan struct{}), make(chan struct{})
	r, err := Register(n.reg, Type[int, int]{
		Name:   "busy",
		Limits: Limits{Mailbox: mailbox},
		New: func(string) Entity[int, int] {
			return Func(func(_ *Context, caller int) (int, error) {
				<-arrived
				runtime.Gosched()
				if handled++; handled <= most {
					turns[caller]++
				}
				if handled == most {
					close(ended)
				}
				return caller, nil
			})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.start()
	c.install(n)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var asking sync.WaitGroup
	for caller := range callers {
		asking.Go(func() {
			for ctx.Err() == nil {
				_, _ = r.Ask(ctx, "x", caller)
			}
		})
	}
	// The scheduler lets one caller and the entity go on among themselves for a time
	// slice, so the count begins when all callers are here.
	for r.Stats().Asks < callers && ctx.Err() == nil {
		runtime.Gosched()
	}
	close(arrived)
	select {
	case <-ended:
	case <-ctx.Done():
		t.Error("the entity did not get through in a minute")
	}
	cancel()
	asking.Wait()
	if err := n.s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	slices.Sort(turns)
	if median := turns[callers/2]; turns[callers-1] > 2*median || turns[0] < median/2 {
		t.Errorf("of %d callers the luckiest had %d turns, the median %d, the last %d",
			callers, turns[callers-1], median, turns[0])
	}
}
