package sharding

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"
)

// tally counts, and takes its count along.
type tally struct{ n int }

func (c *tally) Handle(ctx *Context, add int) (heardCount, error) {
	c.n += add
	return heardCount{int(ctx.Self().Node), c.n}, nil
}

func (c *tally) Snapshot(*Context) ([]byte, error) { return []byte(strconv.Itoa(c.n)), nil }

func (c *tally) Restore(_ *Context, state []byte) (err error) {
	c.n, err = strconv.Atoi(string(state))
	return err
}

type heardCount struct{ Node, Count int }

func tallies(t *testing.T, c *cluster, nodes int) []*Region[int, heardCount] {
	var out []*Region[int, heardCount]
	for i := range nodes {
		n := c.add(fmt.Sprint("n", i+1))
		r, err := Register(n.reg, Type[int, heardCount]{
			Name: "tally", Shards: 8, RebalanceInterval: 100 * time.Millisecond,
			New: func(string) Entity[int, heardCount] { return &tally{} },
		})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
		n.start()
	}
	return out
}

// Planned moves carry the state of entities, of those that woke at the new home
// and of those that slept there all the time; also when frames get lost.
func TestStateMovesWithTheShard(t *testing.T) {
	for _, lossy := range []bool{false, true} {
		t.Run(fmt.Sprintf("lossy=%v", lossy), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newCluster(t)
				regions := tallies(t, c, 3)
				if lossy {
					var mu sync.Mutex
					random := rand.New(rand.NewPCG(1, 2))
					c.loss = func() bool {
						mu.Lock()
						defer mu.Unlock()
						return random.IntN(7) == 0
					}
				}
				c.install(c.nodes[0])
				const ids = 60
				for round := 1; round <= 3; round++ {
					for i := range ids {
						got, err := regions[0].Ask(within(t, 20*time.Second), fmt.Sprint("e", i), 1)
						if err != nil {
							t.Fatal(err)
						}
						if want := round; got.Count != want {
							t.Fatalf("round %d: e%d counts %d at node %d", round, i, got.Count, got.Node)
						}
						if i == 10 && round == 2 {
							break
						}
					}
					if round == 2 {
						// Most slept through the first move, and move once more.
						for i := 11; i < ids; i++ {
							if err := regions[1].Tell(t.Context(), fmt.Sprint("e", i), 1); err != nil {
								t.Fatal(err)
							}
						}
					}
					switch round {
					case 1:
						c.install(c.nodes...)
						pass(10 * time.Second)
					case 2:
						if err := c.nodes[1].s.Drain(within(t, 30*time.Second)); err != nil {
							t.Fatal(err)
						}
					}
				}
				var out, in, lost uint64
				for _, r := range regions {
					s := r.Stats()
					out, in, lost = out+s.StatesOut, in+s.StatesIn, lost+s.StatesLost
				}
				if out == 0 || in < out || lost != 0 {
					t.Errorf("%d states sent, %d taken in, %d lost", out, in, lost)
				}
			})
		})
	}
}

// unhappy cannot take its state back at the first attempt.
type unhappy struct {
	tally
	failed *int
}

func (u *unhappy) Restore(ctx *Context, state []byte) error {
	if *u.failed++; *u.failed == 1 {
		return errors.New("not yet")
	}
	return u.tally.Restore(ctx, state)
}

func TestStateIsNeverThrownAwayInSilence(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		failed := 0
		var regions []*Region[int, heardCount]
		for i := range 2 {
			n := c.add(fmt.Sprint("n", i+1))
			r, err := Register(n.reg, Type[int, heardCount]{Name: "t", New: func(string) Entity[int, heardCount] {
				return &unhappy{failed: &failed}
			}})
			if err != nil {
				t.Fatal(err)
			}
			regions = append(regions, r)
			n.start()
		}
		c.install(c.nodes...)
		first, err := regions[0].Ask(within(t, time.Second), "a", 5)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.nodes[first.Node-1].s.Drain(within(t, 10*time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := regions[0].Ask(within(t, time.Second), "a", 1); !errors.Is(err, ErrRestore) || Retryable(err) {
			t.Errorf("first message: %v, want ErrRestore", err)
		}
		if got, err := regions[0].Ask(within(t, time.Second), "a", 1); err != nil || got.Count != 6 || got.Node == first.Node {
			t.Errorf("second message: %+v, %v", got, err)
		}
	})
}

// heavy has a state of as many bytes as it was told.
type heavy struct{ bytes int }

func (h *heavy) Handle(_ *Context, grow int) (int, error) {
	h.bytes += grow
	return h.bytes, nil
}

func (h *heavy) Snapshot(*Context) ([]byte, error) { return make([]byte, h.bytes), nil }

func (h *heavy) Restore(_ *Context, state []byte) error {
	h.bytes = len(state)
	return nil
}

// A state that no connection takes is lost, and counted as lost; the others of its shard
// arrive, an empty one too, and nobody waits for it.
func TestStatesThatAreTooLargeHoldNothingUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		c.frameMax = 1000
		var regions []*Region[int, int]
		for i := range 2 {
			n := c.add(fmt.Sprint("n", i+1))
			r, err := Register(n.reg, Type[int, int]{
				Name: "heavy", Shards: 2, ShardOf: func(id string) ShardID { return ShardID(id[0] - 'a') },
				New: func(string) Entity[int, int] { return &heavy{} },
			})
			if err != nil {
				t.Fatal(err)
			}
			regions = append(regions, r)
			n.start()
		}
		c.install(c.nodes[0])
		// Shard a has nothing that can travel.
		for id, bytes := range map[string]int{"a1": 2000, "a2": 1001, "b1": 500, "b2": 3000, "b3": 0} {
			if _, err := regions[0].Ask(within(t, 5*time.Second), id, bytes); err != nil {
				t.Fatal(err)
			}
		}
		c.install(c.nodes...)
		pass(time.Second)
		start := time.Now()
		if err := c.nodes[0].s.Drain(within(t, time.Minute)); err != nil || time.Since(start) > 2*time.Second {
			t.Errorf("drained in %v: %v", time.Since(start), err)
		}
		for id, want := range map[string]int{"a1": 0, "a2": 0, "b1": 500, "b2": 0, "b3": 0} {
			if got, err := regions[0].Ask(within(t, 5*time.Second), id, 0); got != want || err != nil {
				t.Errorf("%s: %d bytes, %v; want %d", id, got, err, want)
			}
		}
		var out, in, lost uint64
		for _, r := range regions {
			s := r.Stats()
			out, in, lost = out+s.StatesOut, in+s.StatesIn, lost+s.StatesLost
		}
		if out != 2 || in != 2 || lost != 3 {
			t.Errorf("%d states sent, %d taken in, %d lost; want 2, 2, 3", out, in, lost)
		}
	})
}
