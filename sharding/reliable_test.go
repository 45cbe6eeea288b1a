package sharding

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/transport"
)

// threeApart is three with a delay, and a network that loses so many percent of the
// frames of reliable delivery.
func threeApart(t testing.TB, j *journal, losses int, change func(*Type[say, heard])) (*cluster, []*node, []*Region[say, heard]) {
	t.Cleanup(func() { pass(time.Second) }) // what is on its way arrives
	c := newCluster(t)
	c.delay = time.Millisecond
	if losses > 0 {
		c.bad(losses)
	}
	var nodes []*node
	var regions []*Region[say, heard]
	for i := range 3 {
		n := c.add(fmt.Sprintf("n%d", i+1))
		nodes = append(nodes, n)
		regions = append(regions, n.register(j, change))
		n.start()
	}
	c.install(nodes...)
	return c, nodes, regions
}

// sure returns a producer that the test closes.
func sure(t testing.TB, r *Region[say, heard], cfg ReliableConfig[say]) *Reliable[say] {
	t.Helper()
	s, err := r.Reliable(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// send sends the numbers from..to to each id, in turns.
func (j *journal) send(t testing.TB, s *Reliable[say], ids []string, from, to int) {
	t.Helper()
	for n := from; n <= to; n++ {
		for _, id := range ids {
			if err := s.Send(within(t, time.Minute), id, say{"p", n}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// checkOnce checks that every id ran 1..n once, in order.
func (j *journal) checkOnce(t testing.TB, ids []string, n int) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, id := range ids {
		ok := len(j.lines[id]) == n
		for i, l := range j.lines[id] {
			ok = ok && l.N == i+1
		}
		if !ok {
			t.Errorf("%s ran %v, wanted 1..%d", id, j.lines[id], n)
		}
	}
}

// checkTwice checks that every id ran 1..n in order, where a crash may turn the clock
// back, and never forward.
func (j *journal) checkTwice(t testing.TB, ids []string, n int) (again int) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, id := range ids {
		last := 0
		for _, l := range j.lines[id] {
			if l.N > last+1 {
				t.Errorf("%s: %d after %d: %v", id, l.N, last, j.lines[id])
			}
			last = l.N
		}
		if last != n {
			t.Errorf("%s ended with %d of %d", id, last, n)
		}
		again += len(j.lines[id]) - n
	}
	return again
}

func flushed(t testing.TB, s *Reliable[say]) {
	t.Helper()
	if err := s.Flush(within(t, time.Minute)); err != nil {
		t.Fatalf("%d unconfirmed: %v", s.Unconfirmed(), err)
	}
}

// bad makes the network lose frames, as if connections broke all the time, and tells
// everybody now and then that they did.
func (c *cluster) bad(percent int) {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(3, 4))
	c.eat = func(frame []byte) bool {
		mu.Lock()
		defer mu.Unlock()
		switch frames.KindOf(frame) {
		case frames.KindTell, frames.KindConfirm:
			return rng.IntN(100) < percent
		}
		return false
	}
}

// TestReliableRunsOnceAcrossHandoffs: shards move back and forth, connections break and
// frames get lost, and every message runs once, in order.
func TestReliableRunsOnceAcrossHandoffs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		j := newJournal()
		c, nodes, regions := threeApart(t, j, 10, func(ty *Type[say, heard]) {
			ty.RebalanceInterval = 100 * time.Millisecond
			ty.IdleTimeout = 20 * time.Millisecond
		})
		ids := someIDs(30)
		s := sure(t, regions[0], ReliableConfig[say]{Resend: 50 * time.Millisecond})
		j.send(t, s, ids, 1, 20)
		n4 := c.add("n4")
		n4.register(j, func(ty *Type[say, heard]) { ty.IdleTimeout = 20 * time.Millisecond })
		n4.start()
		c.install(append(nodes, n4)...)
		j.send(t, s, ids, 21, 60)
		for i, n := range nodes[1:] {
			drained := make(chan error, 1)
			go func() { drained <- n.s.Drain(within(t, time.Minute)) }()
			for k := range 20 {
				j.send(t, s, ids, 61+20*i+k, 61+20*i+k)
				pass(time.Millisecond)
			}
			for _, o := range nodes[1:] {
				nodes[0].s.PeerLost(o.self.ID, transport.Message)
				o.s.PeerLost(nodes[0].self.ID, transport.Message)
			}
			if err := <-drained; err != nil {
				t.Fatal(err)
			}
		}
		j.send(t, s, ids, 101, 120)
		flushed(t, s)
		j.checkOnce(t, ids, 120)
		stats := regions[0].Stats().Reliable
		if stats.Confirmed != 3600 || stats.Resends == 0 || stats.Unconfirmed != 0 {
			t.Errorf("%+v", stats)
		}
		repeated := uint64(0)
		for _, n := range append(nodes, n4) {
			st, _ := n.reg.Stats("ear")
			repeated += st.Reliable.Repeated
		}
		if repeated == 0 {
			t.Error("no copy ran into the memory: the test shows nothing")
		}
	})
}

// TestReliableSurvivesCrashesOfHomes: all but the producer's node die, one after the
// other; nothing is lost, and what runs again runs in order.
func TestReliableSurvivesCrashesOfHomes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		j := newJournal()
		c, nodes, regions := threeApart(t, j, 0, nil)
		ids := someIDs(30)
		s := sure(t, regions[0], ReliableConfig[say]{Resend: time.Hour})
		for i := 1; i <= 2; i++ {
			first := (i - 1) * 40
			j.send(t, s, ids, first+1, first+10)
			flushed(t, s)
			j.send(t, s, ids, first+11, first+20*i)
			pass(1500 * time.Microsecond) // they have run, and their answers are on the way
			c.kill(nodes[3-i])
			c.install(nodes[:3-i]...)
			// The second time nothing comes behind them that could tell of a gap.
			j.send(t, s, ids, first+20*i+1, first+40)
		}
		flushed(t, s)
		again := j.checkTwice(t, ids, 80)
		if again == 0 || again > len(ids)*40 {
			t.Errorf("%d ran again: the crashes hit nothing, or all", again)
		}
	})
}

// TestReliableOutlivesItsNode: the producer's node is removed and comes back as another
// incarnation.
func TestReliableOutlivesItsNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		j := newJournal()
		c, nodes, regions := threeApart(t, j, 0, nil)
		ids := someIDs(30)
		s := sure(t, regions[2], ReliableConfig[say]{Resend: time.Hour})
		j.send(t, s, ids, 1, 2)
		flushed(t, s)
		j.send(t, s, ids, 3, 15)
		pass(500 * time.Microsecond) // they are on their way
		n := nodes[2]
		c.kill(n)
		c.install(nodes[:2]...)
		if err := n.s.Close(within(t, time.Second)); err != nil {
			t.Fatal(err)
		}
		again := c.add("n3 again")
		again.reg = n.reg
		again.start()
		c.install(nodes[0], nodes[1], again)
		flushed(t, s)
		j.checkTwice(t, ids, 15)
		if st := regions[2].Stats().Reliable; st.Resends == 0 {
			t.Errorf("%+v: nothing was on its way", st)
		}
	})
}

// TestReliableHoldsBack: the window bounds what is out, per shard and over all, and
// says so.
func TestReliableHoldsBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		j := newJournal()
		j.gate = make(chan struct{})
		_, _, regions := three(t, j, nil)
		told := 0
		s := sure(t, regions[0], ReliableConfig[say]{Window: 4, Messages: 6, OnConfirm: func(string, say, error) { told++ }})
		full := func(id string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if err := s.Send(ctx, id, say{"p", 9}); !errors.Is(err, ErrWindowFull) || !errors.Is(err, context.DeadlineExceeded) || !Retryable(err) || OutcomeUnknown(err) {
				t.Errorf("%s: %v", id, err)
			}
		}
		j.send(t, s, []string{"a"}, stuck, stuck)
		j.send(t, s, []string{"a"}, 1, 3)
		full("a")
		// An entity of another shard is not held up by it.
		other := otherShard(regions[0], "a")
		j.send(t, s, []string{other}, 1, 2)
		synctest.Wait()
		if j.count(other) != 2 || s.Unconfirmed() != 4 {
			t.Errorf("%d ran, %d unconfirmed", j.count(other), s.Unconfirmed())
		}
		if st := regions[0].Stats().Reliable; st.Unconfirmed != 4 {
			t.Errorf("%+v", st)
		}
		close(j.gate)
		flushed(t, s)
		if told != 6 || s.Unconfirmed() != 0 {
			t.Errorf("%d told, %d unconfirmed", told, s.Unconfirmed())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Send(t.Context(), "a", say{}); !errors.Is(err, ErrReliableClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func otherShard[Req, Resp any](r *Region[Req, Resp], id string) string {
	for i := 0; ; i++ {
		if o := fmt.Sprint("other", i); r.ShardOf(o) != r.ShardOf(id) {
			return o
		}
	}
}

// moody does what its request says.
type moody struct {
	mu   *sync.Mutex
	ran  *[]string
	open bool
}

func (m *moody) Handle(ctx *Context, req string) (string, error) {
	if strings.HasPrefix(req, "stash") && !m.open {
		return "", ctx.Stash()
	}
	m.mu.Lock()
	*m.ran = append(*m.ran, req)
	m.mu.Unlock()
	switch req {
	case "fail":
		return "", errors.New("no")
	case "panic":
		panic("no")
	case "open":
		m.open = true
		ctx.Unstash()
	case "passivate":
		ctx.Passivate()
	}
	return "", nil
}

// moods starts a cluster of one with an entity that does what it is told.
func moods(t *testing.T) (r *Region[string, string], ran func() []string) {
	c := newCluster(t)
	n := c.add("n1")
	var mu sync.Mutex
	var all []string
	r, err := Register(n.reg, Type[string, string]{
		Name: "moody", New: func(string) Entity[string, string] { return &moody{mu: &mu, ran: &all} },
	})
	if err != nil {
		t.Fatal(err)
	}
	n.start()
	c.install(n)
	return r, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

// TestReliableTellsWhatTheHandlerSaid: an error or a panic is an outcome; passivation
// and stashing change nothing.
func TestReliableTellsWhatTheHandlerSaid(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, ran := moods(t)
		var said []string
		s, err := r.Reliable(ReliableConfig[string]{OnConfirm: func(id, req string, err error) {
			said = append(said, fmt.Sprint(id, " ", req, ": ", err))
		}})
		if err != nil {
			t.Fatal(err)
		}
		for _, req := range []string{"stash 1", "one", "stash 2", "open", "passivate", "fail", "stash 3", "panic", "two", "open"} {
			if err := s.Send(t.Context(), "e", req); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Flush(within(t, time.Minute)); err != nil {
			t.Fatal(err, ran())
		}
		want := "[one open stash 1 stash 2 passivate fail panic two open stash 3]"
		if got := fmt.Sprint(ran()); got != want {
			t.Errorf("ran %v, wanted %v", got, want)
		}
		all := strings.Join(said, "\n")
		for _, line := range []string{"e fail: no", "e panic: sharding: handler panicked: no", "e stash 3: <nil>", "e stash 1: <nil>"} {
			if !strings.Contains(all, line) || len(said) != 10 {
				t.Errorf("%q is missing in\n%s", line, all)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestReliableClosesWithAWord: what is unconfirmed at Close is told.
func TestReliableClosesWithAWord(t *testing.T) {
	bubble(t, func(t *testing.T) {
		j := newJournal()
		c := newCluster(t)
		r := c.add("n1").register(j, nil)
		s := sure(t, r, ReliableConfig[say]{})
		j.send(t, s, []string{"a"}, 1, 2)
		if err := s.Flush(within(t, time.Second)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Flush without a node: %v", err)
		}
		c.nodes[0].reg.Close()
		if err := s.Send(t.Context(), "a", say{}); !errors.Is(err, ErrNodeStopping) {
			t.Errorf("Send: %v", err)
		}
		if err := s.Flush(t.Context()); !errors.Is(err, ErrNodeStopping) {
			t.Errorf("Flush: %v", err)
		}
		if err := s.Close(); !errors.Is(err, ErrUnconfirmed) || !strings.Contains(err.Error(), ": 2") {
			t.Errorf("Close: %v", err)
		}
		if err := s.Flush(t.Context()); !errors.Is(err, ErrReliableClosed) {
			t.Errorf("Flush after Close: %v", err)
		}
	})
}

// TestReliableGivesUpWhatNobodyCanRead: such a message must not hold up the others.
func TestReliableGivesUpWhatNobodyCanRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		n := c.add("n1")
		handled := 0
		r, err := Register(n.reg, Type[string, string]{
			Name: "picky", ReqCodec: picky{},
			New: func(string) Entity[string, string] {
				return Func(func(*Context, string) (string, error) { handled++; return "", nil })
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		n.start()
		c.install(n)
		told := map[bool]int{}
		s, err := r.Reliable(ReliableConfig[string]{OnConfirm: func(_, req string, err error) {
			// What its home cannot read this node cannot give back either.
			told[req == "" && errors.Is(err, ErrCodec)]++
		}})
		if err != nil {
			t.Fatal(err)
		}
		for _, req := range []string{"good", "bad", "good"} {
			if err := s.Send(t.Context(), "e", req); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Flush(within(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
		if st := r.Stats().Reliable; st.GivenUp != 1 || st.Confirmed != 2 || handled != 2 || told[true] != 1 || told[false] != 2 {
			t.Errorf("%+v, %d handled", st, handled)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// picky does not read "bad".
type picky struct{ Text[string] }

func (picky) Decode(p []byte) (string, error) {
	if string(p) == "bad" {
		return "", errors.New("bad")
	}
	return string(p), nil
}

func TestReliableConfigIsValidated(t *testing.T) {
	r := newCluster(t).add("n1").register(newJournal(), nil)
	for _, cfg := range []ReliableConfig[say]{{Window: -1}, {Window: 4097}, {Messages: -1}, {Bytes: -1}, {Resend: -1}, {Resend: time.Millisecond - 1}} {
		if _, err := r.Reliable(cfg); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
}
