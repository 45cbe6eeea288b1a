package endpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/delivery"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/internal/headers"
)

// newLocalNode is newHostingNode whose own callers find shard 0 here.
func newLocalNode(t *testing.T, edit ...func(*Config, *hostingSpec)) *hostingNode {
	n := newHostingNode(t, edit...)
	n.e.OpenRoute(n.inc.Incarnation, 0, hostingSelf, token)
	return n
}

// ask asks an entity of this node, within a second of the test's time.
func (n *hostingNode) ask(in Origin, id, req string) (string, error) {
	ctx, cancel := context.WithTimeout(n.t.Context(), time.Second)
	defer cancel()
	return n.e.Ask(ctx, in, n.e.AddressOf(id), req, AskOptions{})
}

// TestAMessageToThisNodeHasItsOrigin checks what the handler of a message from this node sees of it: its
// sender, its headers and its deadline.
func TestAMessageToThisNodeHasItsOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newLocalNode(t)
		list, err := headers.List("").With(map[string]string{"key": "value"})
		if err != nil {
			t.Fatal(err)
		}
		var seen []string
		n.handle = func(ctx *activation.Context, req string) (string, error) {
			if pairs := n.PendingPairs(); (pairs > 0) != (req == "passed on") {
				t.Errorf("%d asks of entities are pending while %q is handled", pairs, req)
			}
			end, bounded := ctx.Deadline()
			seen = append(seen, fmt.Sprint(req, " ", ctx.Sender().Type, ctx.Sender().ID, " ", ctx.Header("key"), " ", bounded, " ", bounded && time.Until(end) == time.Second))
			if req == "pass on" {
				_, err := n.ask(Origin{Handler: ctx, Headers: list}, "f", "passed on")
				return "", err
			}
			return req, nil
		}
		if resp, err := n.ask(Origin{}, "e", "ask"); resp != "ask" || err != nil {
			t.Errorf("%q, %v", resp, err)
		}
		if _, err := n.ask(Origin{}, "e", "pass on"); err != nil {
			t.Error(err)
		}
		if _, err := n.e.Ask(t.Context(), Origin{}, n.e.AddressOf("e"), "no deadline", AskOptions{}); err != nil {
			t.Error(err)
		}
		if err := n.e.Tell(t.Context(), Origin{}, n.e.AddressOf("e"), "tell"); err != nil {
			t.Error(err)
		}
		n.handled()
		want := []string{"ask   true true", "pass on   true true", "passed on te value true true", "no deadline   false false", "tell   false false"}
		if !slices.Equal(seen, want) || n.e.PendingAsks() != 0 || n.e.Counters.SentBy(figures.RouteLocal) != 5 {
			t.Errorf("handlers saw %q, want %q; %d asks are open, %d messages are counted", seen, want, n.e.PendingAsks(), n.e.Counters.SentBy(figures.RouteLocal))
		}
	})
}

// TestAsksThatWaitForEachOtherAreFound checks that an ask which would wait for itself fails and is counted,
// and that two entities which ask each other are counted.
func TestAsksThatWaitForEachOtherAreFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newLocalNode(t)
		n.handle = func(ctx *activation.Context, req string) (string, error) {
			id, rest, more := strings.Cut(req, " ")
			if id == "pause" {
				passTime(time.Millisecond)
				id, rest, more = strings.Cut(rest, " ")
			}
			if !more {
				return req, nil
			}
			return n.ask(Origin{Handler: ctx}, id, rest)
		}
		if _, err := n.ask(Origin{}, "e", "f e end"); err == nil || !strings.Contains(err.Error(), failure.SelfAsk.Error()) {
			t.Errorf("e asks f, which asks e: %v", err)
		}
		if _, err := n.ask(Origin{}, "e", "e end"); err == nil || !strings.Contains(err.Error(), failure.SelfAsk.Error()) {
			t.Errorf("e asks itself: %v", err)
		}
		if n.e.Counters.SelfAsks.Load() != 2 || n.e.Counters.MutualAsks.Load() != 0 || n.PendingPairs() != 0 {
			t.Errorf("%d asks of themselves are counted, and %d mutual ones; %d are pending", n.e.Counters.SelfAsks.Load(), n.e.Counters.MutualAsks.Load(), n.PendingPairs())
		}
		var both sync.WaitGroup
		for from, to := range map[string]string{"e": "f", "f": "e"} {
			both.Go(func() { _, _ = n.ask(Origin{}, from, "pause "+to+" end") })
		}
		both.Wait()
		passTime(time.Second) // until the asks of the handlers have ended, too
		if n.e.Counters.SelfAsks.Load() != 2 || n.e.Counters.MutualAsks.Load() == 0 || n.PendingPairs() != 0 {
			t.Errorf("%d asks of themselves are counted, and %d mutual ones; %d are pending", n.e.Counters.SelfAsks.Load(), n.e.Counters.MutualAsks.Load(), n.PendingPairs())
		}
	})
}

// TestStrictNodesCopyTheirOwnMessages checks that the limit of payloads, which the codecs watch, holds for
// messages and responses of this node if it is strict, and only then.
func TestStrictNodesCopyTheirOwnMessages(t *testing.T) {
	for _, strict := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := newLocalNode(t, withPicky, func(c *Config, s *hostingSpec) { c.Strict, s.PayloadBytes = strict, 5 })
			n.handle = func(_ *activation.Context, req string) (string, error) {
				if req == "error" {
					return "", errors.New("of the handler")
				}
				return strings.TrimSuffix(req, "+") + strings.Repeat("x", strings.Count(req, "+")*5), nil
			}
			for req, tooLarge := range map[string]bool{"short": false, "longer": true, "one+": true} {
				resp, err := n.ask(Origin{}, "e", req)
				if want := strict && tooLarge; errors.Is(err, failure.TooLarge) != want || !want && (err != nil || resp == "") {
					t.Errorf("strict %v: %q is answered with %q, %v", strict, req, resp, err)
				}
			}
			var said *activation.Said
			if _, err := n.ask(Origin{}, "e", "error"); !errors.As(err, &said) || said.Text != "of the handler" {
				t.Errorf("strict %v: an error arrives as %v", strict, err)
			}
			for req, want := range map[string]error{"longer": failure.TooLarge, "bad": failure.Codec} {
				if err := n.e.Tell(t.Context(), Origin{}, n.e.AddressOf("e"), req); strict && !errors.Is(err, want) || !strict && err != nil {
					t.Errorf("strict %v: %q is sent: %v", strict, req, err)
				}
			}
			before := n.handled()
			start := n.e.AddressOf("f")
			start.Start = true
			if err := n.e.Tell(t.Context(), Origin{}, start, "longer"); err != nil || n.handled() != before || !n.e.Lives(0, "f") {
				t.Errorf("strict %v: a start without a message: %v", strict, err)
			}
		})
	}
}

// TestCallersWaitForAFullMailbox checks that a caller of this node waits for room until its context ends,
// a handler for a bounded time, and an entity not at all for its own mailbox.
func TestCallersWaitForAFullMailbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newLocalNode(t, func(_ *Config, s *hostingSpec) { s.Mailbox = 1 })
		left := make(chan struct{})
		var own, other []error
		var waited []time.Duration
		n.handle = func(ctx *activation.Context, req string) (string, error) {
			began := time.Now()
			switch req {
			case "self":
				for range 2 {
					own = append(own, n.e.Tell(ctx, Origin{Handler: ctx}, n.e.AddressOf("e"), "own"))
				}
			case "other":
				other = append(other, n.e.Tell(ctx, Origin{Handler: ctx}, n.e.AddressOf("f"), "of a handler"))
			case "stay":
				<-left
				return req, nil
			}
			waited = append(waited, time.Since(began))
			return req, nil
		}
		tell := func(ctx context.Context, id, req string) error {
			return n.e.Tell(ctx, Origin{}, n.e.AddressOf(id), req)
		}
		if err := tell(t.Context(), "e", "self"); err != nil {
			t.Error(err)
		}
		n.handled()
		if !slices.Equal(own, []error{nil, failure.MailboxFull}) || waited[0] != 0 {
			t.Errorf("an entity's own messages: %v after %v", own, waited[0])
		}
		if err := errors.Join(tell(t.Context(), "f", "stay"), tell(t.Context(), "f", "fills")); err != nil {
			t.Error(err)
		}
		n.handled()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if err := tell(ctx, "f", "in vain"); !errors.Is(err, failure.MailboxFull) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("from outside: %v after %v", err, time.Since(began))
		}
		until := AskOptions{Until: time.Now().Add(time.Second)}
		if _, err := n.e.Ask(t.Context(), Origin{}, n.e.AddressOf("f"), "in vain", until); !errors.Is(err, failure.MailboxFull) || n.e.PendingAsks() != 0 {
			t.Errorf("an ask with a limit: %v", err)
		}
		waited = nil
		if err := tell(t.Context(), "e", "other"); err != nil {
			t.Error(err)
		}
		passTime(time.Minute)
		synctest.Wait()
		if len(other) != 1 || !errors.Is(other[0], failure.MailboxFull) || !errors.Is(other[0], delivery.ErrHandlerWait) || len(waited) != 1 || waited[0] != delivery.HandlerWait {
			t.Errorf("from a handler: %v after %v", other, waited)
		}
		before := n.e.Counters.SentBy(figures.RouteLocal)
		sent := make(chan error, 1)
		go func() { sent <- tell(t.Context(), "f", "finds room") }()
		synctest.Wait()
		close(left)
		if err := <-sent; err != nil || n.handled() != 6 || n.e.Counters.SentBy(figures.RouteLocal) != before+1 {
			t.Errorf("a message that waited: %v; %q are handled", err, n.notes)
		}
	})
}

// TestACallerThatWaitsFollowsItsShard checks that a message which waits for room when its shard ends here
// goes into the buffer of the route, and is not lost.
func TestACallerThatWaitsFollowsItsShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newLocalNode(t, func(_ *Config, s *hostingSpec) { s.Mailbox = 1 })
		n.holding()
		sent := make(chan error, 3)
		for range 3 {
			go func() { sent <- n.e.Tell(t.Context(), Origin{}, n.e.AddressOf("e"), "x") }()
			synctest.Wait()
		}
		if len(sent) != 2 {
			t.Fatalf("%d messages are sent, want one that waits", len(sent))
		}
		n.e.CloseRoute(n.inc.Incarnation, 0, 0, otherToken)
		n.e.AbandonShard(0, token)
		n.handled()
		if messages, _ := n.e.Held(); len(sent) != 3 || messages != 1 {
			t.Errorf("%d messages are sent, %d are in the buffer", len(sent), messages)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		n := newLocalNode(t)
		n.holding()
		e := n.e.AddressOf("e")
		if err := n.e.Tell(t.Context(), Origin{}, e, "x"); err != nil {
			t.Fatal(err)
		}
		n.e.StopShard(0, token, time.Hour, false, func(activation.Stopped) {})
		if err := n.e.Tell(t.Context(), Origin{}, e, "x"); err != nil {
			t.Error(err)
		}
		if messages, _ := n.e.Held(); messages != 1 {
			t.Errorf("%d messages for a shard that stops are in the buffer", messages)
		}
	})
}

// TestAnAskMovesToTheShardThatRunsHere checks that an ask which finds its shard here is moved to this node,
// and that one which has ended is not delivered.
func TestAnAskMovesToTheShardThatRunsHere(t *testing.T) {
	for name, c := range map[string]struct {
		at    gossip.NodeID
		over  bool
		want  error
		moved bool
	}{
		"from a buffer":       {0, false, nil, true},
		"begun here":          {hostingSelf, false, nil, true},
		"over":                {0, true, delivery.ErrCallOver, false},
		"over, since it left": {hostingSelf, true, nil, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newLocalNode(t)
			n.holding()
			call := n.e.Calls.Begin(0, c.at, time.Time{})
			if c.over {
				n.e.Calls.Finish(call.Number, "", nil)
			}
			if err := n.e.sendRequest(t.Context(), Origin{}, n.e.AddressOf("e"), "x", askCall{number: call.Number}, c.at); err != c.want {
				t.Errorf("%s: %v", name, err)
			}
			if failed := n.e.Calls.FailNode(hostingSelf, failure.NodeLost); (failed == 1) != c.moved {
				t.Errorf("%s: %d asks are at this node", name, failed)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		n := newLocalNode(t)
		if err := n.e.sendRequest(t.Context(), Origin{}, n.e.AddressOf("e"), "x", askCall{}, 2); err != nil || n.handled() != 1 {
			t.Errorf("a tell: %v, %d handled", err, n.handled())
		}
	})
}

// TestAnAskEndsWithTheEarlierOfItsLimits checks when an ask without an answer ends: at its time limit or
// the deadline of its context, of which the earlier one travels with the request. A caller that cancels is
// reported to the home.
func TestAnAskEndsWithTheEarlierOfItsLimits(t *testing.T) {
	const early, late = 3 * time.Second, 9 * time.Second
	for name, c := range map[string]struct {
		until, deadline, cancelled time.Duration
		want                       time.Duration
	}{
		"only a limit":        {until: early, want: early},
		"only a deadline":     {deadline: early, want: early},
		"an earlier limit":    {until: early, deadline: late, want: early},
		"an earlier deadline": {until: late, deadline: early, want: early},
		"cancelled":           {cancelled: early, want: 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newHostingNode(t)
			n.e.OpenRoute(n.inc.Incarnation, 1, 2, token)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.deadline > 0 {
				ctx, cancel = context.WithTimeout(ctx, c.deadline)
				defer cancel()
			}
			var o AskOptions
			if c.until > 0 {
				o.Until = time.Now().Add(c.until)
			}
			if c.cancelled > 0 {
				time.AfterFunc(c.cancelled, cancel)
			}
			began := time.Now()
			_, err := n.e.Ask(ctx, Origin{}, Address{Shard: 1, ID: "e"}, "x", o)
			took := time.Since(began)
			end := error(context.DeadlineExceeded)
			if c.cancelled > 0 {
				end = context.Canceled
			}
			if !errors.Is(err, end) || took < early || took > early+10*time.Millisecond || n.e.PendingAsks() != 0 {
				t.Errorf("%s: %v after %v", name, err, took)
			}
			sent := n.takeSent()
			if q, perr := frames.ParseRequest(sent[0]); perr != nil || q.Left != c.want {
				t.Errorf("%s: the request has %v left, %v", name, q.Left, perr)
			}
			if cancels := len(sent) == 2 && frames.KindOf(sent[1]) == frames.KindCancel; cancels != (c.cancelled > 0) {
				t.Errorf("%s: %d frames leave", name, len(sent))
			}
		})
	}
}

// TestWhichAsksNeedADeadline checks that an ask which is repeated needs a time limit or a deadline, and
// that one which is not repeated is sent once.
func TestWhichAsksNeedADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newLocalNode(t)
		e := n.e.AddressOf("e")
		if _, err := n.e.Ask(t.Context(), Origin{}, e, "x", AskOptions{Retry: true}); !errors.Is(err, failure.NoDeadline) || n.handled() != 0 {
			t.Errorf("repeated, without a deadline: %v", err)
		}
		for _, o := range []AskOptions{{}, {Retry: true, Until: time.Now().Add(time.Minute)}} {
			if resp, err := n.e.Ask(t.Context(), Origin{}, e, "x", o); resp != "x" || err != nil {
				t.Errorf("%+v: %q, %v", o, resp, err)
			}
		}
		n.e.OpenRoute(n.inc.Incarnation, 1, 2, token)
		ended := make(chan error, 1)
		go func() {
			_, err := n.e.Ask(t.Context(), Origin{}, Address{Shard: 1, ID: "e"}, "x", AskOptions{})
			ended <- err
		}()
		synctest.Wait()
		q, err := frames.ParseRequest(n.takeSent()[0])
		if err != nil {
			t.Fatal(err)
		}
		n.HandleFrame(2, frames.AppendReply(nil, "t", q.Call, frames.CodeMailboxFull))
		passTime(time.Second)
		if len(n.takeSent()) != 0 {
			t.Error("an ask without Retry is repeated")
		}
		if err := <-ended; err != failure.MailboxFull {
			t.Errorf("an ask without Retry: %v", err)
		}
	})
}

// TestAskingWithoutAnIncarnation checks that an ask which finds no incarnation waits for one until its
// deadline, also that of a handler which still runs.
func TestAskingWithoutAnIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newLocalNode(t)
		left, ended := make(chan struct{}), make(chan error, 1)
		n.handle = func(ctx *activation.Context, _ string) (string, error) {
			<-left
			_, err := n.ask(Origin{Handler: ctx}, "f", "x")
			ended <- err
			return "", nil
		}
		if err := n.e.Tell(t.Context(), Origin{}, n.e.AddressOf("e"), "x"); err != nil {
			t.Error(err)
		}
		n.handled()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := n.e.Ask(ctx, Origin{}, Address{Shard: 1, ID: "e"}, "x", AskOptions{}); !errors.Is(err, failure.NoHome) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an ask of a shard without a home: %v", err)
		}
		n.e.Detach()
		close(left)
		if err := <-ended; !errors.Is(err, failure.NotReady) {
			t.Errorf("from a handler: %v", err)
		}
		if _, err := n.ask(Origin{}, "f", "x"); !errors.Is(err, failure.NotReady) || n.e.PendingAsks() != 0 {
			t.Errorf("from outside: %v", err)
		}
	})
}

// slow is the codec of strings that takes a second to encode one.
type slow struct{ texts }

func (s slow) Append(b []byte, v string) ([]byte, error) {
	passTime(time.Second)
	return s.texts.Append(b, v)
}

// TestAnAskThatEndsBeforeItLeavesIsNotSent checks that the limit of an ask which passes while its request is
// encoded is its result.
func TestAnAskThatEndsBeforeItLeavesIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t, func(_ *Config, s *hostingSpec) { s.Requests = slow{} })
		n.e.OpenRoute(n.inc.Incarnation, 1, 2, token)
		_, err := n.e.Ask(t.Context(), Origin{}, Address{Shard: 1, ID: "e"}, "x", AskOptions{Until: time.Now().Add(time.Second / 2)})
		if !errors.Is(err, context.DeadlineExceeded) || len(n.takeSent()) != 0 || n.e.PendingAsks() != 0 {
			t.Errorf("an ask that ended before it left: %v", err)
		}
	})
}

// TestOnlyAsksCarryAChain checks that the requests of a handler name it as their sender, and that those for
// whose reply it waits have its chain.
func TestOnlyAsksCarryAChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newLocalNode(t)
		n.e.OpenRoute(n.inc.Incarnation, 1, 2, token)
		n.handle = func(ctx *activation.Context, req string) (string, error) {
			in, to := Origin{Handler: ctx}, Address{Shard: 1, ID: "there"}
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, _ = n.e.Ask(short, in, to, "x", AskOptions{})
			return "", n.e.Tell(ctx, in, to, "x")
		}
		if err := n.e.Tell(t.Context(), Origin{}, n.e.AddressOf("e"), "x"); err != nil {
			t.Fatal(err)
		}
		passTime(time.Minute)
		synctest.Wait()
		var requests []frames.Request
		for _, f := range n.takeSent() {
			if frames.IsRequest(f) {
				q, err := frames.ParseRequest(f)
				if err != nil || string(q.FromID) != "e" {
					t.Fatalf("from %q, %v", q.FromID, err)
				}
				requests = append(requests, q)
			}
		}
		own := binaryHash(activation.EntityHash("t", "e"))
		if len(requests) != 2 || !slices.Equal(requests[0].Chain, own) || requests[0].Call == 0 || requests[1].Chain != nil || requests[1].Call != 0 {
			t.Errorf("sent %+v", requests)
		}
	})
}

// TestMessagesAreClassified checks which messages are control messages, and which go from an entity to
// itself.
func TestMessagesAreClassified(t *testing.T) {
	for name, c := range map[string]struct {
		control func(string) bool
		want    bool
	}{
		"yes":    {func(string) bool { return true }, true},
		"no":     {func(string) bool { return false }, false},
		"panics": {func(string) bool { panic("control") }, false},
	} {
		if got := isControl(c.control, "x"); got != c.want {
			t.Errorf("%s: a control message: %v", name, got)
		}
	}
	for from, want := range map[*activation.Sender]bool{
		nil: false, {Type: "t", ID: "e"}: true, {Type: "t", ID: "f"}: false, {Type: "u", ID: "e"}: false,
	} {
		if got := isToItself(from, "t", "e"); got != want {
			t.Errorf("from %+v: to itself %v", from, got)
		}
	}
}

// observed notes what an observer of a type receives.
type observed struct {
	figures.ShardingObserver
	mu    sync.Mutex
	notes []string
}

func (o *observed) note(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.notes = append(o.notes, fmt.Sprintf(format, args...))
}

func (o *observed) AskDone(typ string, r figures.Route, took time.Duration, err error) {
	o.note("%s asked by route %d for %v: %v", typ, r, took, err)
}
func (o *observed) HomeResolved(typ string, took time.Duration) { o.note("%s found in %v", typ, took) }
func (o *observed) HandlerDone(typ string, took time.Duration)  { o.note("%s handled in %v", typ, took) }

// TestAnObserverReceivesSingleEvents checks the events of asks, of homes that are found, and of handlers.
func TestAnObserverReceivesSingleEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &observed{}
		n := newHostingNode(t, func(c *Config, _ *hostingSpec) { c.Observer = o })
		n.handle = func(_ *activation.Context, req string) (string, error) { passTime(time.Millisecond); return req, nil }
		asked := make(chan error, 1)
		go func() { _, err := n.ask(Origin{}, "e", "x"); asked <- err }()
		passTime(10 * time.Millisecond)
		n.e.OpenRoute(n.inc.Incarnation, 0, hostingSelf, token)
		if err := <-asked; err != nil {
			t.Error(err)
		}
		if _, err := n.ask(Origin{}, "e", "x"); err != nil {
			t.Error(err)
		}
		want := []string{
			"t found in 10ms",
			fmt.Sprintf("t asked by route %d for 11ms: <nil>", figures.RouteRemote),
			fmt.Sprintf("t asked by route %d for 1ms: <nil>", figures.RouteLocal),
		}
		got := slices.DeleteFunc(slices.Clone(o.notes), func(s string) bool { return s == "t handled in 1ms" })
		if !slices.Equal(got, want) {
			t.Errorf("observed %q, want %q", got, want)
		}
		for range 40 {
			_, _ = n.ask(Origin{}, "e", "x")
		}
		if !slices.Contains(o.notes, "t handled in 1ms") {
			t.Errorf("no handler among 42 is observed: %q", o.notes)
		}
	})
}
