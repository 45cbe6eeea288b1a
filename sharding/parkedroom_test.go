package sharding

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/internal/delivery"
)

// twoTypes are two types on one node, each with an entity "sleeper" that handles nothing until
// the gate opens, and another node that sends to them.
type twoTypes struct {
	home    *node
	regions map[string]*Region[int, int]
	gate    chan struct{}
	handled atomic.Int64
}

func newTwoTypes(t *testing.T) *twoTypes {
	c := newCluster(t)
	h := &twoTypes{home: c.add("home", "host"), regions: map[string]*Region[int, int]{}, gate: make(chan struct{})}
	away := c.add("away", "outside")
	for _, name := range []string{"flooded", "quiet"} {
		ty := Type[int, int]{
			Name: name, Role: "host", Limits: Limits{Mailbox: 10}, Shards: 1,
			New: func(string) Entity[int, int] {
				return Func(func(_ *Context, n int) (int, error) {
					if n < 0 {
						<-h.gate
						return 0, nil
					}
					h.handled.Add(1)
					return n, nil
				})
			},
		}
		if _, err := Register(h.home.reg, ty); err != nil {
			t.Fatal(err)
		}
		r, err := Register(away.reg, ty)
		if err != nil {
			t.Fatal(err)
		}
		h.regions[name] = r
	}
	h.home.start()
	away.start()
	c.install(h.home, away)
	for _, r := range h.regions { // order-free: each has a home afterwards
		if err := r.Start(within(t, time.Minute), "sleeper"); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// The parked requests of one type take no room from those of another: a slow entity of the
// other type still delays its own callers only.
func TestAStuckTypeLeavesOtherTypesRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const others, each = 20, 100
		h := newTwoTypes(t)
		h.home.s.endpoints.Budgets.SetLimits(delivery.WindowBytesMost, 16<<10, 8<<10)
		stick := func(name, id string) {
			go func() {
				for range 200 {
					if h.regions[name].Tell(within(t, time.Minute), id, -1) != nil {
						return
					}
				}
			}()
			synctest.Wait()
		}
		// Each entity of the first type parks what its window allows, until nothing is left.
		for i := range 10 {
			stick("flooded", fmt.Sprint("sleeper", i))
		}
		stick("quiet", "sleeper")
		for i := range others {
			go func() {
				for n := range each {
					if err := h.regions["quiet"].Tell(within(t, 30*time.Second), fmt.Sprint("other", i), n); err != nil {
						t.Errorf("other%d: %v", i, err)
						return
					}
				}
			}()
		}
		pass(40 * time.Second)
		if n := h.handled.Load(); n != others*each {
			t.Errorf("%d of %d messages of the other type were handled beside its sleeping entity", n, others*each)
		}
		if f := h.home.s.Frames(); f.ParkedBytes < 16<<10 || f.ParkedBytes > 16<<10+2*8<<10 {
			t.Errorf("%d bytes are parked", f.ParkedBytes)
		}
		close(h.gate)
		pass(time.Minute)
		if f := h.home.s.Frames(); f.ParkedBytes != 0 {
			t.Errorf("%d bytes are parked once the entities are awake", f.ParkedBytes)
		}
	})
}
