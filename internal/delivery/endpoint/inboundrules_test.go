package endpoint

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/delivery"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/internal/headers"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// picky is the codec of strings that fails for those that begin with "bad".
type picky struct{ texts }

func (picky) Decode(p []byte) (string, error) {
	if bytes.HasPrefix(p, []byte("bad")) {
		return "", errors.New("picky")
	}
	return string(p), nil
}

// withPicky lets the codecs of a type fail.
func withPicky(_ *Config, s *hostingSpec) { s.Requests, s.Responses = picky{}, picky{} }

// askFrame is an ask of node 2.
func askFrame(id string, call uint64, payload string) []byte {
	f := append(frames.AppendRequest(nil, "t", 0, id, call, nil), payload...)
	frames.Stamp(f, token, call)
	return f
}

// replyIn returns the only reply in frames.
func replyIn(t *testing.T, all [][]byte) frames.Reply {
	t.Helper()
	if len(all) != 1 || frames.KindOf(all[0]) != frames.KindReply {
		t.Fatalf("%d frames, want one reply", len(all))
	}
	r, err := frames.ParseReply(all[0])
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRequestsOfOtherNodesAreAnswered checks the replies to asks of node 2, by the fault of each.
func TestRequestsOfOtherNodesAreAnswered(t *testing.T) {
	large := strings.Repeat("x", lateBytes)
	for name, c := range map[string]struct {
		id, payload string
		code        frames.Code
		text        string
		why         delivery.Reason // counted if the code is none of the handler's
	}{
		"handled":                     {"e", "hello", frames.CodeOK, "hello", 0},
		"large":                       {"e", large, frames.CodeOK, large, 0},
		"the handler fails":           {"e", "fail", frames.CodeHandler, "failed", 0},
		"an id of another shard":      {"f", "hello", frames.CodeSettings, "", delivery.DropSettings},
		"undecodable":                 {"e", "bad", frames.CodeCodec, "picky", delivery.DropCodec},
		"undecodable and large":       {"e", "bad" + large, frames.CodeCodec, "picky", delivery.DropCodec},
		"a response that is bounded":  {"e", "limit", frames.CodeOK, strings.Repeat("y", 1<<20), 0},
		"a response that is too long": {"e", "beyond", frames.CodeTooLarge, "", 0},
		"an unencodable response":     {"e", "wild", frames.CodeCodec, "panic: wild", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newHostingNode(t, withPicky, func(_ *Config, s *hostingSpec) {
				s.Extract.Custom = func(id string) strategy.ShardID { return strategy.ShardID(id[0] - 'e') }
				if name == "an unencodable response" {
					s.Responses = wild{}
				}
			})
			n.handle = func(_ *activation.Context, req string) (string, error) {
				switch req {
				case "fail":
					return "", errors.New("failed")
				case "limit":
					return strings.Repeat("y", 1<<20), nil
				case "beyond":
					return strings.Repeat("y", 1<<20+1), nil
				}
				return req, nil
			}
			r := replyIn(t, n.frame(askFrame(c.id, 7, c.payload)))
			if r.Call != 7 || r.Code != c.code || string(r.Payload) != c.text {
				t.Errorf("%s: code %d, %d bytes, want code %d, %d bytes", name, r.Code, len(r.Payload), c.code, len(c.text))
			}
			if c.why != 0 && n.e.Counters.Dropped(c.why) != 1 || (c.code == frames.CodeSettings || c.code == frames.CodeCodec) && c.why != 0 && n.handled() != 0 {
				t.Errorf("%s: %d are counted as dropped, %d are handled", name, n.e.Counters.Dropped(c.why), n.handled())
			}
		})
	}
}

// TestWhatARequestOfAnotherNodeCarries checks what a handler sees of a request: its deadline, its headers,
// its sender, and the chain of entities that wait for the reply.
func TestWhatARequestOfAnotherNodeCarries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t)
		n.e.OpenRoute(n.inc.Incarnation, 0, hostingSelf, token)
		list, err := headers.List("").With(map[string]string{"key": "value"})
		if err != nil {
			t.Fatal(err)
		}
		asker := activation.Sender{Node: 2, Type: "u", ID: "asker"}
		chain := activation.ParseChain(binaryHash(activation.EntityHash("t", "f")))
		var left time.Duration
		var header string
		var from activation.Sender
		var asked error
		n.handle = func(ctx *activation.Context, req string) (string, error) {
			left = 0
			if end, ok := ctx.Deadline(); ok {
				left = time.Until(end)
			}
			header, from = ctx.Header("key"), ctx.Sender()
			_, asked = n.ask(Origin{Handler: ctx}, "f", "back")
			return req, nil
		}
		passTime(time.Minute) // since the epoch of deadlines
		f := frames.AppendAsk(nil, "t", 0, "e", 7, &asker, chain, list, 0)
		frames.Stamp(f, token, 1)
		frames.StampLeft(f, time.Second)
		n.e.noteArrival(0, "e")
		end := n.inc.mutual.beginAsk(activation.EntityHash("t", "e"), "t", "f")
		n.frame(f)
		end()
		if current := n.e.Current.Swap(nil); n.e.Counters.MutualAsks.Load() == 1 {
			n.e.noteArrival(1, "e") // without an incarnation it does nothing
			n.e.Current.Store(current)
		}
		if left != time.Second || header != "value" || from != asker || asked == nil || !strings.Contains(asked.Error(), failure.SelfAsk.Error()) {
			t.Errorf("%v left, header %q, from %+v; asked back: %v", left, header, from, asked)
		}
		if n.e.Counters.MutualAsks.Load() != 1 {
			t.Errorf("%d mutual asks are counted", n.e.Counters.MutualAsks.Load())
		}
		n.handle = func(ctx *activation.Context, req string) (string, error) {
			_, bounded := ctx.Deadline()
			if from = ctx.Sender(); bounded || ctx.Header("key") != "" {
				t.Errorf("a request without them has a deadline: %v, or headers", bounded)
			}
			return req, nil
		}
		if n.frame(askFrame("e", 8, "plain")); from != (activation.Sender{Node: 2}) {
			t.Errorf("a request from outside entities is from %+v", from)
		}
	})
}

// binaryHash is the encoding of one hash.
func binaryHash(h uint64) []byte {
	var b []byte
	for i := range 8 {
		b = append(b, byte(h>>(56-8*i)))
	}
	return b
}

// TestSendersFromOutsideEntitiesAreShared checks that messages of one node have one Sender, also if two
// nodes share a place in the cache, and that entities have their own.
func TestSendersFromOutsideEntitiesAreShared(t *testing.T) {
	var c senderCache
	q := &frames.Request{}
	first := c.senderOf(2, q)
	if *first != (activation.Sender{Node: 2}) || c.senderOf(2, q) != first {
		t.Errorf("node 2 has the sender %+v, or two", first)
	}
	far := gossip.NodeID(2 + len(c))
	if s := c.senderOf(far, q); *s != (activation.Sender{Node: far}) {
		t.Errorf("node %d has the sender %+v", far, s)
	}
	entity := &frames.Request{FromType: []byte("u"), FromID: []byte("a")}
	if s := c.senderOf(2, entity); *s != (activation.Sender{Node: 2, Type: "u", ID: "a"}) {
		t.Errorf("an entity has the sender %+v", s)
	}
}

// TestRequestsWithoutAMessageStartTheirEntity checks a start of node 2, which is acknowledged and not
// handled.
func TestRequestsWithoutAMessageStartTheirEntity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t, withPicky)
		f := frames.AppendStart(nil, "t", 0, "e", 7, nil)
		frames.Stamp(f, token, 1)
		if r := replyIn(t, n.frame(f)); r.Code != frames.CodeStarted || !n.e.Lives(0, "e") || n.handled() != 0 {
			t.Errorf("code %d, lives %v, %d handled", r.Code, n.e.Lives(0, "e"), n.handled())
		}
	})
}

// TestRequestsWithoutRoomAreRejected checks that a request is rejected if its mailbox is full and its node
// has no room to park it, and that requests before it are not.
func TestRequestsWithoutRoomAreRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t, func(_ *Config, s *hostingSpec) { s.Mailbox = 1 })
		n.Budgets.SetLimits(0, 0, 0)
		leave := n.holding()
		var rejected []uint64
		const sent = 500
		for call := uint64(1); call <= sent; call++ {
			for _, f := range n.frame(askFrame("e", call, "x")) {
				if frames.KindOf(f) == frames.KindRefused {
					t.Fatal("a request that is rejected is returned, too")
				}
				if r, err := frames.ParseReply(f); err == nil && r.Code == frames.CodeMailboxFull {
					rejected = append(rejected, r.Call)
				}
			}
		}
		if len(rejected) == 0 || rejected[0] < flow.FirstMessages || n.e.Counters.Dropped(delivery.DropMailboxFull) != uint64(len(rejected)) {
			t.Fatalf("rejected %v, %d are counted", rejected, n.e.Counters.Dropped(delivery.DropMailboxFull))
		}
		leave()
		if got := n.handled(); got != sent-len(rejected) {
			t.Errorf("%d of %d are handled, %d are rejected", got, sent, len(rejected))
		}
	})
}

// TestQueriesAboutGatesAreAnsweredByTheirAccount checks that a sender which asks about the gate of an
// entity receives the gate of its own account, which is closed while its messages wait here.
func TestQueriesAboutGatesAreAnsweredByTheirAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t, func(_ *Config, s *hostingSpec) { s.Mailbox = 1 })
		n.holding()
		for number := uint64(1); number <= 5; number++ {
			n.frame(tell(token, number))
		}
		query := func(id string) (gate flow.Class, answered bool) {
			all := n.frame(frames.AppendStopped(nil, "t", 0, token, id))
			if len(all) == 0 {
				return 0, false
			}
			s, err := frames.ParseStop(all[0])
			if err != nil || len(all) != 1 || string(s.ID) != id {
				t.Errorf("%d answers, %+v, %v", len(all), s, err)
			}
			return s.Gate, true
		}
		if gate, answered := query("e"); !answered || gate == flow.Open {
			t.Errorf("the gate of an entity whose messages wait is %d, answered %v", gate, answered)
		}
		if gate, answered := query("f"); !answered || gate != flow.Open {
			t.Errorf("the gate of an entity without messages is %d, answered %v", gate, answered)
		}
		n.inc.Accounts = nil
		if gate, answered := query("e"); !answered || gate != flow.Open {
			t.Errorf("without accounts the gate is %d, answered %v", gate, answered)
		}
		n.e.Detach()
		n.handled()
		n.takeSent() // the notices of messages that no longer wait
		if gate, answered := query("e"); !answered || gate != flow.Open {
			t.Errorf("without an incarnation the gate is %d, answered %v", gate, answered)
		}
	})
}

// TestFramesReachTheRouteOfTheirShard checks the frames of a home to a sender: a gate, an acknowledged
// marker, a request that is returned, and the request to shrink a window. Without an incarnation they do
// nothing.
func TestFramesReachTheRouteOfTheirShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t)
		type ack struct {
			from  gossip.NodeID
			shard strategy.ShardID
			token protocol.Token
		}
		var acked []ack
		n.inc.Acked = func(from gossip.NodeID, shard strategy.ShardID, token protocol.Token) {
			acked = append(acked, ack{from, shard, token})
		}
		n.e.OpenRoute(n.inc.Incarnation, 1, 2, token)
		if err := n.e.Tell(t.Context(), Origin{}, Address{Shard: 1, ID: "e"}, "x"); err != nil {
			t.Fatal(err)
		}
		request := n.takeSent()[0]
		n.frame(frames.AppendStop(nil, "t", 1, token, "f", flow.Handler))
		if n.e.Counters.Gates.Load() != 1 {
			t.Errorf("%d gates are closed", n.e.Counters.Gates.Load())
		}
		if all := n.frame(frames.AppendShrink(nil, "t", 1, token, 9)); len(all) != 1 || frames.KindOf(all[0]) != frames.KindShrunk {
			t.Errorf("a window is not given up: %q", all)
		}
		n.frame(frames.AppendMarker(nil, frames.KindMarkerAck, "t", 1, otherToken))
		if !slices.Equal(acked, []ack{{2, 1, otherToken}}) {
			t.Errorf("acknowledged %+v", acked)
		}
		refused := func(f []byte) []byte { return frames.AppendRefused(nil, protocol.Token{}, f) }
		n.frame(refused(request))
		if state := n.e.Status(1).State; state != "closed" || n.e.Counters.Dropped(delivery.DropNotHome) != 0 {
			t.Errorf("after a request was returned, the route is %s; %d are dropped", state, n.e.Counters.Dropped(delivery.DropNotHome))
		}
		malformed := n.Malformed.Load()
		for _, f := range [][]byte{
			frames.AppendMarker(nil, frames.KindMarkerAck, "other", 1, otherToken),
			refused(frames.AppendRequest(nil, "other", 1, "e", 0, nil)),
			refused(request[:12]),
			{byte(frames.KindTell)},
		} {
			n.frame(f)
		}
		if got := n.Malformed.Load() - malformed; got != 4 {
			t.Errorf("%d frames are malformed, want 4", got)
		}
		n.e.Detach()
		n.frame(frames.AppendStop(nil, "t", 1, token, "f", flow.Handler))
		n.frame(frames.AppendShrink(nil, "t", 1, token, 9))
		n.frame(frames.AppendMarker(nil, frames.KindMarkerAck, "t", 1, token))
		n.frame(frames.AppendShrunk(nil, "t", 0, token, flow.Report{}))
		if len(acked) != 1 || n.Malformed.Load() != malformed+4 {
			t.Errorf("without an incarnation: acknowledged %+v, %d frames are malformed", acked, n.Malformed.Load()-malformed)
		}
		dropped := n.e.Counters.Dropped(delivery.DropNotHome)
		for f, counts := range map[string]bool{
			string(frames.AppendRequest(nil, "t", 1, "e", 0, nil)):   true,
			string(frames.AppendRequest(nil, "t", 1, "e", 7, nil)):   false,
			string(frames.AppendReliable(nil, "t", 1, "e", nil, "")): false,
		} {
			n.frame(refused([]byte(f)))
			if got := n.e.Counters.Dropped(delivery.DropNotHome) - dropped; (got == 1) != counts {
				t.Errorf("%q is returned without an incarnation: %d are counted", f, got)
			}
			dropped = n.e.Counters.Dropped(delivery.DropNotHome)
		}
	})
}

// TestBlocksOfTwoTypesAreHandled checks that the requests of each type in one block begin, whichever stands
// last.
func TestBlocksOfTwoTypesAreHandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t)
		second := New(hostingSpec{
			Settings: Settings{Name: "u", Extract: Extractor{Shards: 1}, Mailbox: 100, IDBytes: 100, PayloadBytes: 100},
			Requests: texts{}, Responses: texts{}, New: n.e.spec.New, Context: n.e.spec.Context,
		})
		inc := n.NewIncarnation("u")
		second.Attach(inc, true)
		second.Serve(inc.Incarnation)
		n.AddEndpoint(&second.Endpoint)
		if err := second.StartShard(0, token, nil); err != nil {
			t.Fatal(err)
		}
		other := append(frames.AppendRequest(nil, "u", 0, "e", 0, nil), "other"...)
		frames.Stamp(other, token, 1)
		n.HandleFrames(2, &listed{[][]byte{tell(token, 1), other, {byte(frames.KindTell)}}})
		if got := n.handled(); got != 2 || n.Malformed.Load() != 1 || n.e.Counters.Received.Load() != 1 || second.Counters.Received.Load() != 1 {
			t.Errorf("%d are handled, %d malformed; %d and %d are received", got, n.Malformed.Load(), n.e.Counters.Received.Load(), second.Counters.Received.Load())
		}
		_ = second.Detach()(context.Background())
	})
}

// TestABatchBelongsToItsSenderAndItsHost checks that the requests of one sender, or for one host, are
// flushed before those of another, and that a batch which was given back keeps nothing.
func TestABatchBelongsToItsSenderAndItsHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t)
		b := n.e.newBatch().(*typedBatch[*activation.Context, string, string])
		take := func(number uint64) {
			t.Helper()
			if hosted, err := b.takeRequest(2, askFrame("e", number, "x")); !hosted || err != nil {
				t.Fatalf("hosted %v, %v", hosted, err)
			}
		}
		for number := uint64(1); number <= 5; number++ {
			if take(number); len(b.touched) != 1 {
				t.Errorf("%d requests touch %d accounts, want one for all", number, len(b.touched))
			}
		}
		if b.accountsOf(3); len(b.touched) != 0 {
			t.Error("the requests of node 2 are not accounted for before those of node 3")
		}
		if n.handled() != 0 {
			t.Error("entities begin before the flush")
		}
		other := activation.NewHost(activation.Config[*activation.Context, string, string]{Shards: 1})
		if b.inserterOf(other); n.handled() != 5 {
			t.Errorf("%d of the requests for the former host are handled", n.handled())
		}
		if b.flush(); b.from != nil || b.q.Call != 0 {
			t.Error("a batch that was given back keeps its last request, or the accounts of its sender")
		}
		n.takeSent()
		if err := other.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestABufferedAskThatIsRejectedHereFails checks that an ask which waited for its home, and which this node
// cannot decode, fails for its caller.
func TestABufferedAskThatIsRejectedHereFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t, withPicky)
		asked := make(chan error, 1)
		go func() { _, err := n.ask(Origin{}, "e", "bad"); asked <- err }()
		synctest.Wait()
		n.e.OpenRoute(n.inc.Incarnation, 0, hostingSelf, token)
		if err := <-asked; !errors.Is(err, failure.Codec) {
			t.Errorf("an ask that does not decode: %v", err)
		}
		n.e.OpenRoute(n.inc.Incarnation, 1, 2, token)
		go func() {
			_, err := n.e.Ask(t.Context(), Origin{}, Address{Shard: 1, ID: "e"}, "x", AskOptions{})
			asked <- err
		}()
		synctest.Wait()
		q, err := frames.ParseRequest(n.takeSent()[0])
		if err != nil {
			t.Fatal(err)
		}
		n.HandleFrame(2, append(frames.AppendReply(nil, "t", q.Call, frames.CodeOK), "bad"...))
		if err := <-asked; !errors.Is(err, failure.Codec) {
			t.Errorf("a response that does not decode: %v", err)
		}
	})
}

// TestBuffersKeepTheirFrames checks that a message in a buffer has its frame for itself: later messages do
// not change it.
func TestBuffersKeepTheirFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t)
		n.e.OpenRoute(n.inc.Incarnation, 1, 2, token)
		for i, to := range []strategy.ShardID{1, 0, 0, 1, 0, 1} {
			if err := n.e.Tell(t.Context(), Origin{}, Address{Shard: to, ID: "e"}, string(rune('a'+i))); err != nil {
				t.Fatal(err)
			}
		}
		n.e.OpenRoute(n.inc.Incarnation, 0, 2, token)
		var got []byte
		for _, f := range n.takeSent() {
			q, err := frames.ParseRequest(f)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, q.Payload...)
		}
		if string(got) != "adfbce" {
			t.Errorf("sent %q, want adf before, and bce behind the opening", got)
		}
	})
}

// TestBlockedHandlersAreLogged checks that a handler which stays longer than BlockedAfter is logged, and
// that a negative bound means none.
func TestBlockedHandlersAreLogged(t *testing.T) {
	for after, want := range map[time.Duration]bool{time.Second: true, time.Hour: false, -time.Second: false} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			n := newHostingNode(t, func(c *Config, s *hostingSpec) {
				c.Log, s.BlockedAfter = slog.New(slog.NewTextHandler(&log, nil)), after
			})
			leave := n.holding()
			n.HandleFrame(2, tell(token, 1))
			passTime(time.Minute)
			leave()
			_ = n.e.Detach()(t.Context())
			if got := log.Len() > 0; got != want {
				t.Errorf("after %v: logged %q", after, log.String())
			}
		})
	}
}
