package sharding

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// trip is a request that goes on from entity to entity: the first of Stops is where it is.
type trip struct {
	Stops []string
	// Tell: the last leg is told, not asked.
	Tell bool
}

// travellers are two nodes whose entities ask the next one of a trip, with no deadline of
// their own, and return its answer or its error.
func travellers(t *testing.T) (c *cluster, regions []*Region[trip, string]) {
	c = newCluster(t)
	for i := range 2 {
		n := c.add(fmt.Sprint("n", i))
		var r *Region[trip, string]
		r, err := Register(n.reg, Type[trip, string]{
			Name: "traveller", Shards: 16,
			New: func(id string) Entity[trip, string] {
				return Func(func(ctx *Context, q trip) (string, error) {
					switch {
					case len(q.Stops) < 2:
						return "arrived", nil
					case q.Tell && len(q.Stops) == 2:
						return "told", r.Tell(ctx, q.Stops[1], trip{Stops: q.Stops[1:]})
					}
					return r.Ask(ctx, q.Stops[1], trip{Stops: q.Stops[1:], Tell: q.Tell})
				})
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		regions = append(regions, r)
		n.start()
	}
	c.install(c.nodes...)
	return c, regions
}

// homed returns ids that live at the nodes wanted.
func homed(t *testing.T, c *cluster, r *Region[trip, string], nodes ...int) (ids []string) {
	t.Helper()
	for _, want := range nodes {
		for i := 0; ; i++ {
			id := fmt.Sprintf("e%d-%d", len(ids), i)
			if _, err := r.Ask(within(t, time.Minute), id, trip{}); err != nil {
				t.Fatal(err)
			}
			l, err := c.nodes[0].reg.Where(within(t, time.Second), "traveller", id)
			if err != nil {
				t.Fatal(err)
			}
			if int(l.Node) == want+1 {
				ids = append(ids, id)
				break
			}
		}
	}
	return ids
}

func TestAsksThatComeBackAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, regions := travellers(t)
		at := homed(t, c, regions[0], 0, 1, 1)
		a, b, b2 := at[0], at[1], at[2]
		for _, stops := range [][]string{{a, a}, {b, b}, {a, b, a}, {b, a, b}, {a, b, b2, a}, {b, b2, a, b2}} {
			begin := time.Now()
			_, err := regions[0].Ask(within(t, time.Minute), stops[0], trip{Stops: stops})
			// What a handler hands on is its own answer to its asker.
			if err == nil || !strings.Contains(err.Error(), ErrSelfAsk.Error()) {
				t.Errorf("%v: %v", stops, err)
			}
			if took := time.Since(begin); took > time.Second {
				t.Errorf("%v was refused after %v", stops, took)
			}
		}
		if n := regions[0].Stats().SelfAsks + regions[1].Stats().SelfAsks; n != 6 {
			t.Errorf("%d asks counted as refused", n)
		}
		// Twice the same entity, one behind the other, is no cycle, and a tell waits for none.
		for _, q := range []trip{{Stops: []string{a, b, b2}}, {Stops: []string{a, b, a}, Tell: true}} {
			if got, err := regions[0].Ask(within(t, time.Minute), q.Stops[0], q); err != nil {
				t.Errorf("%v: %q, %v", q, got, err)
			}
		}
	})
}

// Chains are bounded: a cycle of more entities than ChainMax is ended by its deadline.
func TestALongCycleEndsAtItsDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, regions := travellers(t)
		for _, n := range []int{15, 20} {
			var stops []string
			for i := range n {
				stops = append(stops, fmt.Sprint("s", i))
			}
			stops = append(stops, stops[0])
			begin := time.Now()
			_, err := regions[0].Ask(within(t, time.Minute), stops[0], trip{Stops: stops})
			refused := err != nil && strings.Contains(err.Error(), ErrSelfAsk.Error())
			if refused != (n <= 16) || err == nil || time.Since(begin) > time.Minute+time.Second {
				t.Errorf("cycle of %d: %v after %v", n, err, time.Since(begin))
			}
		}
	})
}

// Two entities that ask each other for reasons of their own are let be, and counted.
func TestMutualAsksAreCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, regions := travellers(t)
		at := homed(t, c, regions[0], 0, 1)
		a, b := at[0], at[1]
		c.slow = 10 * time.Millisecond // so that both asks are under way
		done := make(chan error, 2)
		go func() {
			_, err := regions[0].Ask(within(t, time.Minute), a, trip{Stops: []string{a, b}})
			done <- err
		}()
		go func() {
			_, err := regions[1].Ask(within(t, time.Minute), b, trip{Stops: []string{b, a}})
			done <- err
		}()
		for range 2 {
			if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("mutual ask: %v", err)
			}
		}
		if n := regions[0].Stats().MutualAsks + regions[1].Stats().MutualAsks; n != 2 {
			t.Errorf("%d asks counted as mutual", n)
		}
		pass(time.Second) // handlers return, and what is under way arrives
		for _, n := range c.nodes {
			if left := n.s.endpoints.PendingPairs(); left != 0 {
				t.Errorf("%d asks are still known", left)
			}
		}
	})
}

func TestRetryWantsADeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, regions := travellers(t)
		if _, err := regions[0].Ask(context.Background(), "x", trip{}, Retry()); !errors.Is(err, ErrNoDeadline) {
			t.Errorf("Ask: %v", err)
		}
		if err := regions[0].Start(context.Background(), "x", Retry()); !errors.Is(err, ErrNoDeadline) {
			t.Errorf("Start: %v", err)
		}
		if Retryable(ErrNoDeadline) || Retryable(ErrSelfAsk) {
			t.Error("a mistake of the caller's is no reason to try again")
		}
	})
}
