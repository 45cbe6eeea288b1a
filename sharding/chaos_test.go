package sharding

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/internal/delivery/frames"
)

// chaos moves a cluster through random joins, crashes, drains, pauses and
// abandonments under load. Its rules are those of membership: a node loses its
// lease before it leaves the view, and a removed NodeID never returns.
type chaos struct {
	*cluster
	t      *testing.T
	rnd    *rand.Rand
	j      *journal
	alive  []*node
	region map[*node]*Region[say, heard]
	// accepted are the tells that ended without an error, ran those that a handler saw.
	accepted, ran atomic.Uint64
}

func (c *chaos) join() {
	n := c.add(fmt.Sprint("n", len(c.nodes)+1))
	c.region[n] = n.register(c.j, func(ty *Type[say, heard]) {
		ty.RebalanceInterval = 100 * time.Millisecond
		ty.New = func(id string) Entity[say, heard] { return &witness{ear: ear{id: id, j: c.j}, c: c, n: n} }
	})
	n.start()
	c.alive = append(c.alive, n)
	c.install(c.alive...)
}

// witness checks at every message that nobody else may run its entity.
type witness struct {
	ear
	c *chaos
	n *node
}

func (w *witness) Handle(ctx *Context, s say) (heard, error) {
	if lost := w.n.lostAt.Load(); lost != 0 && lost < time.Now().UnixNano() {
		w.c.t.Errorf("%s runs on %s, whose lease has ended", w.id, w.n.self.Name)
	}
	for _, o := range w.c.up() {
		if o == w.n || !o.lease.Load() {
			continue
		}
		if p := o.s.endpoints.Find([]byte("ear")); p != nil && !p.HostedUnder(ctx.Shard()).IsZero() {
			w.c.t.Errorf("%s runs on %s while %s hosts its shard with a lease", w.id, w.n.self.Name, o.self.Name)
		}
	}
	w.c.ran.Add(1)
	return w.ear.Handle(ctx, s)
}

// sums returns what does not add up, "" if all does (S10), when nothing is on its way
// any more: what was told is handled, dropped for a reason, buffered, or was lost with a
// connection. Nothing but tells may have been sent before.
func (c *chaos) sums() string {
	var sent, handled, dropped, buffered uint64
	for _, n := range c.nodes {
		if !slices.Contains(c.alive, n) {
			// It was removed: what waits in its mailboxes will not run.
			if err := n.s.Close(context.Background()); err != nil {
				c.t.Error(err)
			}
		}
	}
	pass(time.Second) // what one refuses at its end comes back to another
	for _, n := range c.nodes {
		s := c.region[n].Stats()
		sent += s.SentLocal + s.SentRemote + s.SentBuffered
		for why, k := range s.Dropped {
			switch Reason(why) {
			case DropPanicked, DropHandlerError, DropReplyLate, DropBufferFull:
				// Those were handled, or were never sent.
			default:
				dropped += k
			}
		}
		handled, buffered = handled+s.Handled, buffered+uint64(s.Buffered)
	}
	lost := c.told.Load()
	if sent == c.accepted.Load() && handled == c.ran.Load() && sent == handled+dropped+buffered+lost {
		return ""
	}
	return fmt.Sprintf("S10: %d tells were accepted and %d ran; %d count as sent, %d as handled, %d as dropped, %d as buffered; connections lost %d",
		c.accepted.Load(), c.ran.Load(), sent, handled, dropped, buffered, lost)
}

// explain logs the history of the shards that a node should not host any more.
func (c *chaos) explain(n *node) {
	for shard := range ShardID(16) {
		if n.s.endpoints.Find([]byte("ear")).HostedUnder(shard).IsZero() {
			continue
		}
		for _, o := range c.alive {
			lines := o.explain("ear", shard)
			for _, l := range lines[max(0, len(lines)-40):] {
				c.t.Logf("%s %s %s: shard %d %s node %v token %v %s", l.At.Format("05.000"), o.self.Name, l.By, shard, l.Kind, l.Node, l.Token, l.Detail)
			}
		}
		return
	}
}

func (c *chaos) some() *node { return c.alive[c.rnd.IntN(len(c.alive))] }

func (c *chaos) remove(n *node) {
	for i, o := range c.alive {
		if o == n {
			c.alive = append(c.alive[:i:i], c.alive[i+1:]...)
		}
	}
	if n.lease.Load() {
		n.setLease(false)
	}
	c.install(c.alive...)
}

// step does one thing.
func (c *chaos) step() {
	switch k := c.rnd.IntN(10); {
	case k < 2 && len(c.alive) < 6:
		c.join()
	case k < 4 && len(c.alive) > 2:
		n := c.some()
		c.kill(n)
		pass(time.Duration(c.rnd.IntN(100)) * time.Millisecond)
		c.remove(n)
	case k < 6 && len(c.alive) > 2:
		n := c.some()
		if err := n.s.Drain(within(c.t, 30*time.Second)); err != nil {
			c.t.Errorf("drain of %s: %v", n.self.Name, err)
			c.explain(n)
		}
		c.kill(n)
		c.remove(n)
	case k < 8:
		n := c.some()
		n.setLease(false)
		n.s.LeaseChanged(false)
		pass(time.Duration(c.rnd.IntN(300)) * time.Millisecond)
		n.setLease(true)
		n.s.LeaseChanged(true)
	case k < 9:
		c.some().s.Abandoned()
	case len(c.alive) > 2:
		// Cut off: it lives on and hears of nothing, while others take its shards.
		n := c.some()
		n.setLease(false)
		n.s.LeaseChanged(false)
		c.remove(n)
	}
}

// TestChaosKeepsOrderAndSingleInstances runs random schedules; PEERAGE_SEED
// repeats one, PEERAGE_SEEDS says how many.
func TestChaosKeepsOrderAndSingleInstances(t *testing.T) {
	first, count := uint64(1), 12
	if s := os.Getenv("PEERAGE_SEED"); s != "" {
		first, _ = strconv.ParseUint(s, 10, 64)
		count = 1
	} else if s := os.Getenv("PEERAGE_SEEDS"); s != "" {
		count, _ = strconv.Atoi(s)
	}
	for seed := first; seed < first+uint64(count); seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newChaos(t, seed)
				c.rage()
				if wrong := c.sums(); wrong != "" {
					t.Error(wrong)
				}
				c.heals()
			})
		})
	}
}

// A network that loses a told message now and then, and says nothing, is found out.
func TestSumsMissWhatIsLostUnseen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, lost := newChaos(t, 1), 0
		tells := 0
		c.eat = func(frame []byte) bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			if frame[0] != byte(frames.KindTell) {
				return false
			}
			if tells++; tells%500 > 0 {
				return false
			}
			lost++
			return true
		}
		c.rage()
		if wrong := c.sums(); wrong == "" || lost == 0 {
			t.Errorf("%d messages were lost, and the sums say %q", lost, wrong)
		}
	})
}

func newChaos(t *testing.T, seed uint64) *chaos {
	c := &chaos{
		cluster: newCluster(t), t: t, rnd: rand.New(rand.NewPCG(seed, 9)), j: newJournal(),
		region: map[*node]*Region[say, heard]{},
	}
	c.delay = time.Duration(c.rnd.IntN(3)) * 300 * time.Microsecond
	c.slow = time.Duration(c.rnd.IntN(3)) * time.Millisecond
	return c
}

// rage lets things happen under load, and waits until nothing is on its way.
func (c *chaos) rage() {
	for range 3 {
		c.join()
	}
	ctx, stop := context.WithCancel(context.Background())
	var load sync.WaitGroup
	for s := range 4 {
		sender := c.alive[s%len(c.alive)]
		to := c.region[sender]
		load.Go(func() { c.tellSteadily(ctx, sender, to, s) })
	}
	for range 25 {
		pass(time.Duration(c.rnd.IntN(400)) * time.Millisecond)
		c.step()
	}
	stop()
	load.Wait()
	pass(10 * time.Second)
	synctest.Wait()
}

// heals checks that every entity answers again, and that nothing waits.
func (c *chaos) heals() {
	t := c.t
	for e := range 20 {
		r := c.region[c.some()]
		if _, err := r.Ask(within(t, 30*time.Second), fmt.Sprint("e", e), say{fmt.Sprint("end", e), 1}, Retry()); err != nil {
			t.Errorf("e%d does not answer in the end: %v", e, err)
		}
	}
	pass(10 * time.Second)
	synctest.Wait()
	c.j.checkOrder(t)
	for _, n := range c.alive {
		if s := c.region[n].Stats(); s.Buffered != 0 || s.Asks != 0 || s.Duplicates != 0 {
			t.Errorf("%s: %d buffered, %d asks, %d duplicates", n.self.Name, s.Buffered, s.Asks, s.Duplicates)
		}
	}
	if t.Failed() {
		c.dump(t)
	}
}

// tellSteadily numbers what one sender tells each entity. A sender whose node
// has died stops.
func (c *chaos) tellSteadily(ctx context.Context, n *node, to *Region[say, heard], sender int) {
	for i := 1; ctx.Err() == nil && !n.dead.Load(); i++ {
		for e := range 20 {
			short, cancel := context.WithTimeout(ctx, 5*time.Second)
			if to.Tell(short, fmt.Sprint("e", e), say{fmt.Sprint(sender), i}) == nil {
				c.accepted.Add(1)
			}
			cancel()
		}
		pass(7 * time.Millisecond)
	}
}
