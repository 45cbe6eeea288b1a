package sharding

import (
	"testing"
	"time"
)

// addRelay registers a type whose entities, on one node, do what send does.
func addRelay(t *testing.T, n *node, send func(ctx *Context, n int) error) *Region[int, int] {
	t.Helper()
	r, err := Register(n.reg, Type[int, int]{
		Name: "relay", Shards: 4, Role: n.self.Roles[0],
		New: func(string) Entity[int, int] {
			return Func(func(ctx *Context, n int) (int, error) { return n, send(ctx, n) })
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A chain of handlers does not starve behind callers from outside: two thousand of them keep
// the mailbox of an entity full, and messages of other entities to it find room all the same.
func TestHandlersFindRoomBesideOutsideCallers(t *testing.T) {
	for _, from := range []string{"here", "there"} {
		bubble(t, func(t *testing.T) {
			const callers, takes, tells = 2000, 10 * time.Millisecond, 30
			h := newSlowHomeOf(t, takes, 100, 1)
			sender, region := h.home, h.homeRegion
			if from == "there" {
				sender, region = h.away, h.region
			}
			over := make(chan struct{})
			call := func() {
				for {
					err := region.Tell(within(t, time.Hour), "y", 1)
					select {
					case <-over:
						return
					default:
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			}
			for range callers {
				go call()
			}
			relay := addRelay(t, sender, func(ctx *Context, n int) error { return region.Tell(ctx, "y", n) })
			pass(time.Second)
			longest := time.Duration(0)
			for i := range tells {
				began := time.Now()
				if _, err := relay.Ask(within(t, time.Minute), "r", i); err != nil {
					t.Errorf("from %s, %d: %v", from, i, err)
				}
				longest = max(longest, time.Since(began))
			}
			// A caller from outside waits for 2,000 callers, which takes 20 s.
			if t.Logf("from %s: a handler's Tell took up to %v", from, longest); longest > HandlerWait/2 {
				t.Errorf("from %s: a handler's Tell took up to %v", from, longest)
			}
			close(over)
			pass(2 * callers * takes)
		})
	}
}

// Nor do callers from outside starve behind a flood of handlers' messages.
func TestOutsideCallersFindRoomBesideHandlers(t *testing.T) {
	for _, from := range []string{"here", "there"} {
		bubble(t, func(t *testing.T) {
			const relays, takes, tells = 200, time.Millisecond, 30
			h := newSlowHomeOf(t, takes, 20, 1)
			sender, region := h.home, h.homeRegion
			if from == "there" {
				sender, region = h.away, h.region
			}
			over := make(chan struct{})
			relay := addRelay(t, sender, func(ctx *Context, n int) error {
				for {
					if err := region.Tell(ctx, "y", n); err != nil {
						return err
					}
					select {
					case <-over:
						return nil
					default:
					}
				}
			})
			for i := range relays {
				if err := relay.Tell(within(t, time.Minute), string(rune('a'+i)), 0); err != nil {
					t.Fatal(err)
				}
			}
			pass(time.Second)
			longest := time.Duration(0)
			for range tells {
				began := time.Now()
				if err := region.Tell(within(t, time.Minute), "y", 1); err != nil {
					t.Errorf("from %s: %v", from, err)
				}
				longest = max(longest, time.Since(began))
			}
			if t.Logf("from %s: a Tell took up to %v", from, longest); longest > time.Second {
				t.Errorf("from %s: a Tell beside %d handlers took up to %v", from, relays, longest)
			}
			close(over)
			pass(time.Minute)
		})
	}
}
