package activation

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/peerage-go/peerage/internal/headers"
)

// Instances without OnStop end without a goroutine of their own, and count as passivated, too.
func TestInstancesWithoutOnStopCountAsPassivated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := plain(t, func(c *Config[*Context, int, int]) { c.IdleTimeout = time.Minute })
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1))
		deliver(t, s, "b", ask(1, 2))
		pass(2 * time.Minute)
		r.expectIDs(t, s)
		if n := r.counters.Passivated.Load(); n != 2 {
			t.Errorf("%d passivated, want 2", n)
		}
	})
}

// A batch that is put back takes the marks of what came meanwhile along: messages of handlers
// that used the reserve still use it.
func TestABatchThatIsPutBackKeepsTheReserve(t *testing.T) {
	var shared mailboxPool[int]
	in := &instance[*Context, int, int]{mailbox: &mailbox[int]{msgs: []Message[int]{{Req: 3}, {Req: 4}}, control: 1, reserved: 1}}
	shared.spare = make([]*mailbox[int], 0, spareMailboxesMax)
	batch := &mailbox[int]{msgs: []Message[int]{{Req: 1}, {Req: 2}}, reserved: 2}
	in.putBack(&shared, batch, 1)
	if in.mailbox.reserved != 3 || in.mailbox.control != 1 {
		t.Errorf("%d of the reserve are used, want 3; %d control messages, want 1", in.mailbox.reserved, in.mailbox.control)
	}
	for i, want := range []int{3, 2, 4} {
		if got := in.mailbox.msgs[i].Req; got != want {
			t.Errorf("message %d is %d, want %d", i, got, want)
		}
	}
}

// A lease that lapses for one look only holds nothing up: the instance is not parked.
func TestALapseForAMomentParksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lapses := 0
		r := newRig(t, func(c *Config[*Context, int, int]) {
			alive := c.Alive
			c.Alive = func() bool {
				if lapses > 0 {
					lapses--
					return false
				}
				return alive()
			}
		})
		s := r.start(t, 0)
		deliver(t, s, "a", ask(-2, 1), ask(5, 2))
		synctest.Wait()
		lapses = 1
		began := time.Now()
		close(r.gate)
		r.expectLog(t, "a:-2", "a:5")
		if took := time.Since(began); took != 0 {
			t.Errorf("handled after %v, want immediately", took)
		}
	})
}

// A timer of an entity that does not live is not set: there is none to call.
func TestNoTimerIsSetForAnEntityThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		s := r.start(t, 0)
		if err := s.setTimer("none", "x", time.Second, 0); err != nil {
			t.Error(err)
		}
		if err := s.setTimer("none", "x", 0, 0); err == nil {
			t.Error("a timer after no time is accepted")
		}
		r.expectIDs(t, s)
	})
}

// All that waits for a worker is busy, of asks and of all else, also behind tasks that have been
// taken.
func TestTasksBehindTakenOnesAreBusy(t *testing.T) {
	list := func(ids ...string) (l taskList[*Context, int, int]) {
		for _, id := range ids {
			l.tasks = appendTask(l.tasks, nil, &instance[*Context, int, int]{id: id}, nil, false)
		}
		l.head = 1
		return l
	}
	q := &runQueue[*Context, int, int]{plain: list("taken", "first", "second"), asks: list("taken", "third")}
	busy := q.appendBusy(nil)
	for i, want := range []string{"first", "second", "third"} {
		if len(busy) != 3 || busy[i].in.id != want {
			t.Fatalf("%d busy, want 3, number %d of them %s", len(busy), i+1, want)
		}
	}
}

// Tasks that are added to a list stand behind those that wait there, and the slice that comes back for the
// next ones is empty.
func TestTasksAreAddedBehindOthers(t *testing.T) {
	tasks := func(ids ...string) (ts []task[*Context, int, int]) {
		for _, id := range ids {
			ts = appendTask(ts, nil, &instance[*Context, int, int]{id: id}, nil, false)
		}
		return ts
	}
	var l taskList[*Context, int, int]
	var got []string
	for _, more := range [][]string{{"a", "b"}, {"c"}, {"d", "e", "f"}} {
		if spare := l.addAll(tasks(more...)); len(spare) != 0 {
			t.Errorf("%d tasks come back", len(spare))
		}
		got = append(got, l.tasksLeft()[0].in.id)
		l.dropFirst()
	}
	for _, left := range l.tasksLeft() {
		got = append(got, left.in.id)
	}
	if want := []string{"a", "b", "c", "d", "e", "f"}; !slices.Equal(got, want) {
		t.Errorf("tasks %q, want %q", got, want)
	}
}

// What an interceptor's handler orders takes effect at the call that it is within, and a Context
// within a call has the call's properties until the call returns.
func TestContextsWithinACall(t *testing.T) {
	h, err := headers.List("").With(map[string]string{"tenant": "7"})
	if err != nil {
		t.Fatal(err)
	}
	parent := &Context{shard: &shardInfo{hostInfo: &hostInfo{typ: "t"}}, id: "a", from: &Sender{Type: "f", ID: "b"}, headers: h}
	outer, cancel := context.WithCancel(context.Background())
	inner := new(Context)
	if !BeginWithin(inner, parent, outer) {
		t.Fatal("the call has not returned")
	}
	if inner.ID() != "a" || inner.Sender().ID != "b" || inner.Header("tenant") != "7" || inner.Type() != "t" {
		t.Errorf("id %q, sender %+v, header %q", inner.ID(), inner.Sender(), inner.Header("tenant"))
	}
	cancel()
	if !errors.Is(inner.Err(), context.Canceled) {
		t.Errorf("error %v after the end of the outer context", inner.Err())
	}
	for _, c := range []struct{ leave, stash, unstash bool }{{leave: true}, {stash: true}, {unstash: true}} {
		to := new(Context)
		if EndWithin(&Context{leave: c.leave, stash: c.stash, unstash: c.unstash}, to); to.leave != c.leave || to.stash != c.stash || to.unstash != c.unstash {
			t.Errorf("ordered %+v, passed on: leave %v, stash %v, unstash %v", c, to.leave, to.stash, to.unstash)
		}
	}
	if EndWithin(inner, parent); inner.info() != nil || parent.info() == nil {
		t.Error("the end of a Context within a call is not its own")
	}
	parent.ended.Store(true)
	if BeginWithin(new(Context), parent, context.Background()) {
		t.Error("a Context begins within a call that has returned")
	}
}

// An empty list of headers, and no chain, cost a message nothing.
func TestRareFieldsAreMadeWhenTheyAreSet(t *testing.T) {
	var m Message[int]
	m.SetHeaders("")
	m.SetChain(nil)
	if m.rare != nil {
		t.Error("rare fields without content")
	}
	h, err := headers.List("").With(map[string]string{"k": "v"})
	if err != nil {
		t.Fatal(err)
	}
	m.SetHeaders(h)
	m.SetChain(ParseChain(make([]byte, 8)))
	if m.rare == nil || m.rare.headers != h || m.rare.chain.Len() != 1 {
		t.Errorf("%+v", m.rare)
	}
}

// TestTheContextOfAShardIsMadeOnce checks that a shard makes the parent of its handlers' contexts at
// the first use, once, and that the end of the shard cancels it, also if it was never used.
func TestTheContextOfAShardIsMadeOnce(t *testing.T) {
	h, _, s := benchHost(t, 10)
	shard := h.Shard(0)
	if err := offer(shard, "a", Message[int]{Reply: ReplyTo{Node: 1, Call: 1}}); err != nil {
		t.Fatal(err)
	}
	<-s.ch
	if shard.info.base.made.Load() != nil {
		t.Error("a handler that uses no context has made one")
	}
	ctx := shard.info.base.realContext(shard.info.parent)
	if ctx.Err() != nil || shard.info.base.realContext(shard.info.parent) != ctx {
		t.Errorf("the context is made twice, or has ended: %v", ctx.Err())
	}
	unused := h.Shard(1)
	h.Abandon()
	for _, ended := range []context.Context{ctx, shard.info.base.realContext(shard.info.parent), unused.info.base.realContext(unused.info.parent)} {
		if ended.Err() != context.Canceled {
			t.Errorf("after the end of the shard: %v", ended.Err())
		}
	}
}

// TestTheFirstUseOfAContextMeetsTheEnd checks that handlers which use the context of a shard for the
// first time while it ends all get one that is cancelled.
func TestTheFirstUseOfAContextMeetsTheEnd(t *testing.T) {
	for range 100 {
		var base baseContext
		first := make(chan context.Context, 2)
		for range cap(first) {
			go func() { first <- base.realContext(context.Background()) }()
		}
		base.endBase(context.Background())
		for range cap(first) {
			if ctx := <-first; ctx.Err() != context.Canceled {
				t.Fatalf("the context goes on: %v", ctx.Err())
			}
		}
	}
}

// TestAShardNotesRecentInstancesFromTwoOn checks that a shard with one entity has no list of recent
// instances, and that one with more finds them in it until they end.
func TestAShardNotesRecentInstancesFromTwoOn(t *testing.T) {
	h, _, s := benchHost(t, 10)
	shard := h.Shard(0)
	at := func(id string) *instance[*Context, int, int] {
		shard.mu.Lock()
		defer shard.mu.Unlock()
		return shard.recent.foundAt(PlaceOf(Hash([]byte(id))))
	}
	ask := func(id string) {
		t.Helper()
		if err := offer(shard, id, Message[int]{Reply: ReplyTo{Node: 1, Call: 1}}); err != nil {
			t.Fatal(err)
		}
		<-s.ch
	}
	ask("a")
	ask("a")
	if at("a") != nil || shard.recent.slots != nil {
		t.Error("a shard with one entity has a list")
	}
	ask("b")
	ask("b")
	in := at("b")
	if in == nil || in.id != "b" {
		t.Fatalf("noted %v", in)
	}
	shard.mu.Lock()
	shard.removeInstance(in)
	shard.mu.Unlock()
	if at("b") != nil {
		t.Error("an instance that has ended is noted")
	}
}

// TestAShardAtRestIsSmall checks the size of a shard, since a node has one for each that it hosts.
func TestAShardAtRestIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(Shard[*Context, int, int]{}); size > 224 {
		t.Errorf("a shard has %d bytes", size)
	}
	h, _, s := benchHost(t, 10)
	shard := h.Shard(0)
	if err := offer(shard, "a", Message[int]{Reply: ReplyTo{Node: 1, Call: 1}}); err != nil {
		t.Fatal(err)
	}
	<-s.ch
	if shard.dedup.Load() != nil || shard.states != nil {
		t.Error("a shard without reliable messages or states has room for them")
	}
}

// TestATellHasNoDeadline checks that the deadline of a message, and the list of cancelled calls, are looked
// at for asks only: a tell is handled whenever its turn comes.
func TestATellHasNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		s := r.start(t, 0)
		pass(time.Minute)
		deliver(t, s, "a", Message[int]{Req: 1, Expires: time.Second}, Message[int]{Req: 2, Reply: ReplyTo{Node: 7, Call: 3}, Expires: time.Second})
		r.expectLog(t, "a:1")
		r.expectReply(t, 3, ErrExpired)
		if n := r.counters.Expired.Load(); n != 1 {
			t.Errorf("%d messages count as expired, want the ask", n)
		}
	})
}

// TestAnInterceptorIsCalledInPlaceOfTheHandler checks that it gets the operation and the request, and that
// its answer is the answer of the ask.
func TestAnInterceptorIsCalledInPlaceOfTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ops []string
		refused := errors.New("refused")
		r := newRig(t, func(c *Config[*Context, int, int]) {
			c.Around = func(ctx *Context, op string, req int, ent Entity[*Context, int, int]) (int, error) {
				ops = append(ops, op)
				if req == 9 {
					return 0, refused
				}
				sum, err := ent.Handle(ctx, req+10)
				return sum + 100, err
			}
		})
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1), Message[int]{Req: 2}, ask(9, 2))
		r.expectLog(t, "a:11", "a:12")
		r.expectReply(t, 1, nil)
		r.expectReply(t, 2, refused)
		if r.values[1] != 111 || !slices.Equal(ops, []string{OpAsk, OpTell, OpAsk}) {
			t.Errorf("the answer is %d, want 111; operations %q", r.values[1], ops)
		}
	})
}

// TestTheOutcomeOfATellIsCounted checks that a tell counts as an error of its handler if the handler returns
// one, and not if it succeeds.
func TestTheOutcomeOfATellIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		s := r.start(t, 0)
		for i, c := range []struct {
			req  int
			want uint64
		}{{1, 0}, {-5, 1}, {2, 1}} {
			deliver(t, s, "a", Message[int]{Req: c.req})
			synctest.Wait()
			if n := r.counters.HandlerErrors.Load(); uint64(n) != c.want {
				t.Errorf("%d errors after %d tells, want %d", n, i+1, c.want)
			}
		}
	})
}

// TestAnErrorAfterTheDeadlineIsTheHandlers checks that an ask whose handler ends too late fails as expired only
// if the handler returned its context's error; any other error reaches the asker.
func TestAnErrorAfterTheDeadlineIsTheHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := errors.New("no such account")
		r := scripted(t, func(_ *script, ctx *Context, req int) (int, error) {
			<-ctx.Done()
			if req == 1 {
				return 0, own
			}
			return 0, ctx.Err()
		}, nil, nil)
		s := r.start(t, 0)
		for req, want := range map[int]error{1: own, 2: ErrExpired} {
			m := ask(req, uint64(req))
			m.Expires = time.Since(r.cfg.Epoch) + time.Second
			deliver(t, s, "a", m)
			pass(2 * time.Second)
			r.expectReply(t, uint64(req), want)
		}
	})
}
