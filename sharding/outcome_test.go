package sharding

import (
	"context"
	"errors"
	"fmt"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/delivery/endpoint"
	"github.com/peerage-go/peerage/internal/delivery/frames"
)

// pair starts two nodes that host a type, and returns an id of the first, with its region
// and the other's.
func pair[Req, Resp any](t *testing.T, c *cluster, ty Type[Req, Resp]) (id string, local, remote *Region[Req, Resp]) {
	t.Helper()
	id, regions := several(t, c, 2, ty)
	return id, regions[0], regions[1]
}

// several is pair for a number of nodes.
func several[Req, Resp any](t *testing.T, c *cluster, nodes int, ty Type[Req, Resp]) (id string, regions []*Region[Req, Resp]) {
	t.Helper()
	for i := range nodes {
		n := c.add(fmt.Sprint("n", i+1))
		r, err := Register(n.reg, ty)
		if err != nil {
			t.Fatal(err)
		}
		regions = append(regions, r)
		n.start()
	}
	c.install(c.nodes...)
	for i := 0; ; i++ {
		id = fmt.Sprint("e", i)
		if err := regions[1].Start(within(t, 5*time.Second), id); err != nil {
			t.Fatal(err)
		}
		if c.nodes[0].s.endpoints.Find([]byte(ty.Name)).Lives(regions[0].ShardOf(id), id) {
			return id, regions
		}
	}
}

// spelled fails as the message says, at one of its ends.
type spelled struct{ Text[string] }

func (spelled) Append(b []byte, s string) ([]byte, error) {
	switch {
	case strings.Contains(s, "unwritable"):
		return b, errors.New("cannot be written")
	case strings.Contains(s, "unspeakable"):
		panic("cannot be spoken")
	}
	return append(b, s...), nil
}

func (spelled) Decode(p []byte) (string, error) {
	switch s := string(p); {
	case strings.Contains(s, "unreadable"):
		return "", errors.New("cannot be read")
	case strings.Contains(s, "unbearable"):
		panic("cannot be borne")
	default:
		return s, nil
	}
}

// Of a message that cannot be written or read, request or response, the asker learns so
// at once, by one error, whatever the codec does; a told one is counted. Nothing else is
// harmed.
func TestWhatACodecCannotDoIsSaid(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var handled atomic.Int32
		id, local, remote := pair(t, newCluster(t), Type[string, string]{
			Name: "echo", ReqCodec: spelled{}, RespCodec: spelled{}, Limits: Limits{PayloadBytes: 100},
			New: func(string) Entity[string, string] {
				return Func(func(_ *Context, req string) (string, error) {
					handled.Add(1)
					if word, ok := strings.CutPrefix(req, "say "); ok {
						return map[string]string{
							"long": strings.Repeat("x", 101), "bad": "unwritable", "worse": "unspeakable",
							"odd": "unreadable", "odder": "unbearable",
						}[word], nil
					}
					return req, nil
				})
			},
		})
		for _, c := range []struct {
			req  string
			want error
			runs int32
		}{
			{"unwritable", ErrCodec, 0}, {"unspeakable", ErrCodec, 0}, {"unreadable", ErrCodec, 0}, {"unbearable", ErrCodec, 0},
			{strings.Repeat("x", 101), ErrTooLarge, 0}, {"say long", ErrTooLarge, 1},
			{"say bad", ErrCodec, 1}, {"say worse", ErrCodec, 1}, {"say odd", ErrCodec, 1}, {"say odder", ErrCodec, 1},
		} {
			handled.Store(0)
			start := time.Now()
			_, err := remote.Ask(within(t, time.Minute), id, c.req)
			if !errors.Is(err, c.want) || errors.Is(err, ErrPanicked) || Retryable(err) || OutcomeUnknown(err) || time.Since(start) > time.Second || handled.Load() != c.runs {
				t.Errorf("%q: %v after %v, handled %d times, want %d", c.req, err, time.Since(start), handled.Load(), c.runs)
			}
			// In its home's process nothing is encoded, but under the race detector, where all
			// nodes are strict.
			if _, err := local.Ask(within(t, time.Minute), id, c.req); !raceEnabled && err != nil || raceEnabled && !errors.Is(err, c.want) {
				t.Errorf("%q, in the home's process: %v", c.req, err)
			}
			if n := remote.Stats().Asks + local.Stats().Asks; n != 0 {
				t.Errorf("%q: %d asks still wait", c.req, n)
			}
		}
		for _, req := range []string{"unreadable", "unbearable"} {
			if err := remote.Tell(within(t, time.Minute), id, req); err != nil {
				t.Errorf("tell %q: %v", req, err)
			}
		}
		synctest.Wait()
		// Two asked, two told.
		if n := local.Stats().Dropped[DropCodec]; n != 4 {
			t.Errorf("%d counted as not decoded", n)
		}
		if got, err := remote.Ask(within(t, time.Minute), id, "fine"); got != "fine" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// What does not go through the connections at all is too large, whoever said so.
func TestWhatNoConnectionTakesIsTooLarge(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		id, _, remote := pair(t, c, Type[string, string]{Name: "echo", New: func(string) Entity[string, string] {
			return Func(func(_ *Context, req string) (string, error) { return req, nil })
		}})
		if _, err := remote.Ask(within(t, 5*time.Second), id, "small"); err != nil {
			t.Fatal(err)
		}
		c.frameMax = 1000
		long := strings.Repeat("x", 1001)
		_, asked := remote.Ask(within(t, 5*time.Second), id, long)
		told := remote.Tell(within(t, 5*time.Second), id, long)
		for _, err := range []error{asked, told} {
			if !errors.Is(err, ErrTooLarge) || Retryable(err) {
				t.Error(err)
			}
		}
		sure, err := remote.Reliable(ReliableConfig[string]{OnConfirm: func(_, _ string, err error) {
			if !errors.Is(err, ErrTooLarge) {
				t.Errorf("confirmed with %v", err)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := sure.Send(within(t, 5*time.Second), id, long); err != nil {
			t.Error(err)
		}
		if err := sure.Flush(within(t, 5*time.Second)); err != nil {
			t.Error(err)
		}
		if st := remote.Stats().Reliable; st.GivenUp != 1 || st.Confirmed != 0 {
			t.Errorf("%+v", st)
		}
		if err := sure.Close(); err != nil {
			t.Error(err)
		}
	})
}

// An Ask with Retry that ends without an answer says what is true of all its attempts:
// if the handler may have run in one of them, the last one's error does not hide it.
func TestRetryDoesNotHideAnEarlierAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, gate := newCluster(t), make(chan struct{})
		id, _, remote := pair(t, c, Type[string, string]{Name: "slow", New: func(string) Entity[string, string] {
			return Func(func(ctx *Context, req string) (string, error) {
				if ctx.Self().Node == 1 {
					<-gate
				}
				return "", errors.New("no")
			})
		}})
		defer close(gate)
		ask := func() <-chan error {
			ended := make(chan error, 1)
			go func() {
				_, err := remote.Ask(within(t, 10*time.Second), id, "x", Retry())
				ended <- err
			}()
			synctest.Wait()
			return ended
		}
		hidden := ask()
		c.kill(c.nodes[0]) // and no view says so: there is no home for what comes now
		err := <-hidden
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrNoHome) || !errors.Is(err, ErrNodeLost) || !OutcomeUnknown(err) || !Retryable(err) {
			t.Errorf("the first attempt was lost, the last found no home: %v", err)
		}
		if !strings.Contains(err.Error(), ErrNoHome.Error()) || !strings.Contains(err.Error(), ErrNodeLost.Error()) {
			t.Errorf("%q does not tell of both", err)
		}
		// The handler's own answer ends all doubt.
		answered := ask()
		c.install(c.nodes[1])
		if err := <-answered; OutcomeUnknown(err) || !errors.As(err, new(*HandlerError)) {
			t.Errorf("answered with %v", err)
		}
	})
}

// An ask that has left for its home may have run, whatever becomes of its own node
// before its context ends.
func TestAnAskThatHasLeftMayHaveRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		id, _, remote := pair(t, newCluster(t), Type[string, string]{Name: "slow", New: func(string) Entity[string, string] {
			return Func(func(*Context, string) (string, error) { <-gate; return "", nil })
		}})
		defer close(gate)
		ended := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := remote.Ask(ctx, id, "x")
			ended <- err
		}()
		synctest.Wait()
		// The incarnation is ending: it has not come to its asks yet.
		inc := remote.typed.Current.Swap(nil)
		defer remote.typed.Current.Store(inc)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) || !OutcomeUnknown(err) {
			t.Errorf("%v, outcome unknown: %v", err, OutcomeUnknown(err))
		}
	})
}

// shy puts everything aside.
type shy struct{ node *node }

func (s shy) Handle(ctx *Context, req string) (string, error) {
	if req == "who?" {
		return s.node.self.Name, nil
	}
	return "", ctx.Stash()
}

// An ask that was put aside when its shard moves has not been handled, and its asker is
// told: it asks again, and the new home takes it.
func TestAnAskThatWasPutAsideLearnsThatItsShardMoved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		var regions []*Region[string, string]
		for i := range 2 {
			n := c.add(fmt.Sprint("n", i+1))
			r, err := Register(n.reg, Type[string, string]{Name: "shy", New: func(string) Entity[string, string] { return shy{n} }})
			if err != nil {
				t.Fatal(err)
			}
			regions = append(regions, r)
			n.start()
		}
		c.install(c.nodes...)
		home, err := regions[0].Ask(within(t, 5*time.Second), "e", "who?")
		if err != nil {
			t.Fatal(err)
		}
		moves := c.nodes[home[1]-'1']
		ended := make(chan error, 2)
		for _, r := range regions {
			go func() {
				_, err := r.Ask(within(t, time.Minute), "e", "hello")
				ended <- err
			}()
		}
		synctest.Wait()
		start := time.Now()
		if err := moves.s.Drain(within(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
		for range regions {
			if err := <-ended; !errors.Is(err, ErrMoved) || !Retryable(err) || OutcomeUnknown(err) || time.Since(start) > 5*time.Second {
				t.Errorf("%v after %v", err, time.Since(start))
			}
		}
		for _, r := range regions {
			if now, err := r.Ask(within(t, 5*time.Second), "e", "who?", Retry()); err != nil || now == home {
				t.Errorf("asked again: %q, %v", now, err)
			}
		}
	})
}

// The handler's Context ends when its asker's does, on every node, wherever the ask has
// waited before; and an ask whose time is up before its turn is not handled.
func TestTheDeadlineTravels(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		var handled atomic.Int32
		ty := Type[string, string]{Name: "clock", New: func(string) Entity[string, string] {
			return Func(func(ctx *Context, req string) (string, error) {
				if req == "wait" {
					pass(time.Second)
				}
				handled.Add(1)
				until, ok := ctx.Deadline()
				if !ok {
					return "none", nil
				}
				return time.Until(until).String(), nil
			})
		}}
		left := func(r *Region[string, string], id string) string {
			t.Helper()
			got, err := r.Ask(within(t, time.Minute), id, "x")
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		id, local, remote := pair(t, c, ty)
		if here, there := left(local, id), left(remote, id); here != "1m0s" || there != "1m0s" {
			t.Errorf("%s and %s left of 1m", here, there)
		}
		if got, err := remote.Ask(context.Background(), id, "x"); got != "none" || err != nil {
			t.Errorf("without a deadline: %q, %v", got, err)
		}
		for _, r := range []*Region[string, string]{local, remote} {
			handled.Store(0)
			if err := r.Tell(t.Context(), id, "wait"); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Ask(within(t, time.Second/2), id, "x"); !errors.Is(err, context.DeadlineExceeded) || !OutcomeUnknown(err) {
				t.Errorf("behind a slow one: %v", err)
			}
			pass(time.Second)
			if n := handled.Load(); n != 1 {
				t.Errorf("%d handled, want the told one only", n)
			}
		}
		// An ask that waits for a home has the rest of its time there.
		one := newCluster(t)
		n := one.add("alone")
		r, err := Register(n.reg, ty)
		if err != nil {
			t.Fatal(err)
		}
		n.start()
		answered := make(chan string, 1)
		go func() { answered <- left(r, "e") }()
		pass(20 * time.Second)
		one.install(n)
		if got := <-answered; got != "40s" {
			t.Errorf("%s left of 1m after 20s without a home", got)
		}
	})
}

// stuckHome is a pair whose entity waits at "wait" until the gate opens.
func stuckHome(t *testing.T, c *cluster, gate chan struct{}, mailbox int) (id string, remote *Region[string, string]) {
	id, _, remote = pair(t, c, Type[string, string]{Name: "slow", Limits: Limits{Mailbox: mailbox}, New: func(string) Entity[string, string] {
		return Func(func(_ *Context, req string) (string, error) {
			if req == "wait" {
				<-gate
			}
			return req, nil
		})
	}})
	return id, remote
}

// When a home drops its instances, asks from other nodes that are in their hands or in
// their mailboxes fail at once or when the handler returns; its answer does not count.
func TestAsksOfAnAbandonedInstanceMayHaveRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, gate := newCluster(t), make(chan struct{})
		id, remote := stuckHome(t, c, gate, 10)
		ended := map[string]chan error{"wait": make(chan error, 1), "behind": make(chan error, 1)}
		for _, req := range []string{"wait", "behind"} {
			go func() {
				_, err := remote.Ask(within(t, time.Hour), id, req)
				ended[req] <- err
			}()
			synctest.Wait()
		}
		c.nodes[0].s.Abandoned()
		if n := len(ended["wait"]); n != 0 {
			t.Error("the ask in hand has ended before its handler")
		}
		close(gate)
		for req, ch := range ended {
			if err := <-ch; !errors.Is(err, ErrAbandoned) || !Retryable(err) || !OutcomeUnknown(err) {
				t.Errorf("%s: %v", req, err)
			}
		}
	})
}

// However long a trouble lasted, an Ask with Retry goes on soon after its end.
func TestRetryGoesOnSoonAfterALongTrouble(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, gate := newCluster(t), make(chan struct{})
		id, remote := stuckHome(t, c, gate, 1)
		var troubled atomic.Bool
		asked := 0
		troubled.Store(true)
		asker := remote.typed.Calls.Finish
		c.eat = func(frame []byte) bool {
			if frames.KindOf(frame) != frames.KindAsk || !troubled.Load() {
				return false
			}
			q, err := frames.ParseRequest(frame)
			if err != nil {
				t.Error(err)
			}
			asked++
			asker(q.Call, "", ErrMailboxFull)
			return true
		}
		answered := make(chan error, 1)
		go func() {
			_, err := remote.Ask(within(t, time.Hour), id, "hello", Retry())
			answered <- err
		}()
		pass(20 * time.Second)
		start := time.Now()
		troubled.Store(false)
		if err := <-answered; err != nil || time.Since(start) > endpoint.RetryMost {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if asked < 300 {
			t.Errorf("asked %d times in 20 s", asked)
		}
	})
}

// askAside asks from a goroutine of its own, and returns when the ask waits.
func askAside(t *testing.T, r *Region[string, string], id, req string) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := r.Ask(within(t, time.Hour), id, req)
		ended <- err
	}()
	synctest.Wait()
	return ended
}

// An ask that comes back from a home of before, when others have left on the way to the
// present one, cannot go again in order: its asker is told, and asks again.
func TestAnAskThatComesBackTooLateIsToldThatItsShardMoved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, gate := newCluster(t), make(chan struct{})
		id, remote := stuckHome(t, c, gate, 10)
		defer close(gate)
		ended := askAside(t, remote, id, "wait")
		var number uint64
		for n := range uint64(1 << 16) {
			// Generations and slots are small: the table is new.
			if n := n>>8<<32 | n&0xff; remote.typed.Calls.Waits(n) {
				number = n
			}
		}
		frame := frames.AppendRequest(nil, "slow", remote.ShardOf(id), id, number, nil)
		frames.Stamp(frame, protocol.Token{Term: 1, Seq: 1}, 1) // of before
		c.nodes[1].s.HandleEntity(1, frames.AppendRefused(nil, protocol.Token{}, frame))
		if err := <-ended; !errors.Is(err, ErrMoved) || !Retryable(err) || OutcomeUnknown(err) {
			t.Error(err)
		}
	})
}

// What waits for a home is told what is wrong with it also if the home is its own node.
func TestWhatWaitedForItsOwnNodeIsToldWhy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		n := c.add("n1")
		r, err := Register(n.reg, Type[string, string]{Name: "echo", ReqCodec: spelled{}, New: func(string) Entity[string, string] {
			return Func(func(_ *Context, req string) (string, error) { return req, nil })
		}})
		if err != nil {
			t.Fatal(err)
		}
		n.start()
		ended := askAside(t, r, "e", "unreadable")
		start := time.Now()
		c.install(n)
		if err := <-ended; !errors.Is(err, ErrCodec) || time.Since(start) > time.Minute {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// Buffers are bounded in bytes too, those of a shard and those of all.
func TestBuffersAreBoundedInBytes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newCluster(t).add("n1")
		r := n.register(newJournal(), func(ty *Type[say, heard]) { ty.Limits.ShardBytes, ty.Limits.BufferBytes = 3000, 5000 })
		n.start()
		fits := func(shard ShardID) (took int) {
			for ; took < 100; took++ {
				if err := r.Tell(within(t, time.Second), idIn(r, shard), say{strings.Repeat("x", 900), 1}); err != nil {
					if !errors.Is(err, ErrBufferFull) {
						t.Error(err)
					}
					break
				}
			}
			return took
		}
		if one, two := fits(1), fits(2); one != 3 || two != 2 {
			t.Errorf("%d and %d messages of 900 bytes, want 3 and 2", one, two)
		}
	})
}

// Messages from outside entities name the node that they came from, each its own.
func TestSendersOnManyNodesAreNotMixedUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		var regions []*Region[string, gossip.NodeID]
		for _, id := range []gossip.NodeID{1, 65, 129} { // equal modulo 64
			n := c.add(fmt.Sprint("n", id))
			n.self.ID = id
			r, err := Register(n.reg, Type[string, gossip.NodeID]{Name: "who", New: func(string) Entity[string, gossip.NodeID] {
				return Func(func(ctx *Context, _ string) (gossip.NodeID, error) { return ctx.Sender().Node, nil })
			}})
			if err != nil {
				t.Fatal(err)
			}
			regions = append(regions, r)
			n.start()
		}
		c.install(c.nodes...)
		for i := range 12 {
			for k, r := range regions {
				if got, err := r.Ask(within(t, 5*time.Second), fmt.Sprint("e", i), ""); err != nil || got != c.nodes[k].self.ID {
					t.Errorf("e%d says that node %v asked, %v; it was %v", i, got, err, c.nodes[k].self.ID)
				}
			}
		}
	})
}

// An ask that is at another node when its own leaves the cluster may have run; it ends
// with the incarnation that sent it. Of a type that is registered after the end nothing
// is sent any more.
func TestAsksEndWithTheIncarnationThatSentThem(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, gate := newCluster(t), make(chan struct{})
		id, remote := stuckHome(t, c, gate, 10)
		defer close(gate)
		ended := askAside(t, remote, id, "wait")
		start := time.Now()
		if err := c.nodes[1].s.Close(within(t, time.Second)); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, ErrNodeLost) || !OutcomeUnknown(err) || time.Since(start) > time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		c.nodes[1].reg.Close()
		late := c.nodes[1].register(newJournal(), nil)
		if err := late.Tell(within(t, time.Hour), "e", say{"x", 1}); !errors.Is(err, ErrNodeStopping) || Retryable(err) {
			t.Errorf("registered after the end: %v", err)
		}
	})
}
