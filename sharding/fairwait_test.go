package sharding

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// Callers that wait for room in one mailbox are served in the order of arrival: when each asks
// again as soon as it is answered, none has a further turn while another waits for its own.
func TestCallersOfAFullMailboxHaveEqualTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, mailbox, rounds = 200, 10, 5
		c := newCluster(t)
		n := c.add("n1")
		var served []int // written by the one entity
		gate := make(chan struct{})
		r, err := Register(n.reg, Type[int, int]{
			Name:   "busy",
			Limits: Limits{Mailbox: mailbox},
			New: func(string) Entity[int, int] {
				return Func(func(_ *Context, caller int) (int, error) {
					<-gate
					served = append(served, caller)
					return caller, nil
				})
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		n.start()
		c.install(n)
		ctx, cancel := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		for caller := range callers {
			asking.Go(func() {
				for ctx.Err() == nil {
					_, _ = r.Ask(ctx, "x", caller)
				}
			})
			synctest.Wait() // it is in the mailbox, or waits behind the callers before it
		}
		for range callers * rounds {
			gate <- struct{}{}
			synctest.Wait() // the answered caller has asked again
		}
		var want []int
		for range rounds {
			for caller := range callers {
				want = append(want, caller)
			}
		}
		if !slices.Equal(served, want) {
			t.Errorf("%d callers were served in the order %v", callers, served)
		}
		cancel()
		close(gate)
		asking.Wait()
		if err := n.s.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
}
