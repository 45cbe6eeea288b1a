package endpoint

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/delivery"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// texts is the codec of strings.
type texts struct{}

func (texts) Append(b []byte, v string) ([]byte, error) { return append(b, v...), nil }
func (texts) Decode(p []byte) (string, error)           { return string(p), nil }

// noter notes the requests that it handles. Then handle, if it is set, answers them.
type noter struct{ n *hostingNode }

func (e noter) Handle(ctx *activation.Context, req string) (string, error) {
	e.n.mu.Lock()
	e.n.notes = append(e.n.notes, req)
	e.n.mu.Unlock()
	if e.n.handle != nil {
		return e.n.handle(ctx, req)
	}
	return req, nil
}

// hostingSpec describes the type of a hostingNode.
type hostingSpec = Spec[*activation.Context, string, string]

// hostingNode is node 1, whose type t has two shards: the first one runs here under token.
type hostingNode struct {
	*Set
	t     *testing.T
	e     *Typed[*activation.Context, string, string]
	inc   *Incarnation
	alive atomic.Bool
	// handle answers the requests that entities have noted; nil returns the request.
	handle func(ctx *activation.Context, req string) (string, error)
	// shut are the nodes without a connection.
	shut map[gossip.NodeID]bool

	mu    sync.Mutex
	notes []string
	// sent are the frames that left, to those of their nodes.
	sent [][]byte
	to   []gossip.NodeID
}

const hostingSelf gossip.NodeID = 1

var token, otherToken = protocol.Token{Term: 1, Seq: 1}, protocol.Token{Term: 1, Seq: 2}

func (n *hostingNode) Send(to gossip.NodeID, _ transport.Class, _ transport.Kind, frame []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sent, n.to = append(n.sent, append([]byte(nil), frame...)), append(n.to, to)
	return nil
}
func (n *hostingNode) Open(to gossip.NodeID, _ transport.Class) bool { return !n.shut[to] }
func (n *hostingNode) WaitRoom(ctx context.Context, _ gossip.NodeID, _ transport.Class) error {
	return ctx.Err()
}

// newHostingNode starts the node, with the settings that edit changes.
func newHostingNode(t *testing.T, edit ...func(*Config, *hostingSpec)) *hostingNode {
	n := &hostingNode{t: t}
	n.alive.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	work := &sync.WaitGroup{}
	cfg := Config{Self: hostingSelf, Links: n, Ctx: ctx, Work: work, Log: slog.New(slog.DiscardHandler), LeaseValid: n.alive.Load}
	spec := hostingSpec{
		Settings: Settings{Name: "t", Extract: Extractor{Shards: 2, Custom: func(string) strategy.ShardID { return 0 }}, Mailbox: 100, IDBytes: 100, PayloadBytes: 1 << 20,
			Buffers: delivery.Bounds{BufferMessages: 10, BufferBytes: 1000, ShardMessages: 10, ShardBytes: 1000}},
		Requests: texts{}, Responses: texts{},
		New:     func(string) activation.Entity[*activation.Context, string, string] { return noter{n} },
		Context: func() (*activation.Context, *activation.Context) { c := new(activation.Context); return c, c },
	}
	for _, e := range edit {
		e(&cfg, &spec)
	}
	n.Set = NewSet(cfg)
	n.e = New(spec)
	n.inc = n.NewIncarnation("t")
	n.inc.Need, n.inc.Misrouted = func(strategy.ShardID) {}, func(strategy.ShardID, protocol.Token) {}
	n.e.Attach(n.inc, true)
	n.e.Serve(n.inc.Incarnation)
	n.AddEndpoint(&n.e.Endpoint)
	if err := n.e.StartShard(0, token, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = n.e.Detach()(context.Background())
		work.Wait()
	})
	synctest.Wait()
	return n
}

// frame hands a frame of node 2 to the node, and returns the frames that it sends.
func (n *hostingNode) frame(f []byte) [][]byte {
	n.HandleFrame(2, f)
	synctest.Wait()
	return n.takeSent()
}

func (n *hostingNode) takeSent() (all [][]byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, to := range n.to {
		if to != 2 {
			n.t.Errorf("a frame leaves for node %d", to)
		}
		all = append(all, n.sent[i])
	}
	n.sent, n.to = nil, nil
	return all
}

// handled returns the requests that entities have handled.
func (n *hostingNode) handled() int {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.notes)
}

// tell is a request of node 2 without a reply, under a token.
func tell(under protocol.Token, number uint64) []byte {
	f := append(frames.AppendRequest(nil, "t", 0, "e", 0, nil), "hello"...)
	frames.Stamp(f, under, number)
	return f
}

// grantIn returns the only grant in frames.
func grantIn(t *testing.T, all [][]byte) (g frames.Grant) {
	t.Helper()
	if len(all) != 1 || frames.KindOf(all[0]) != frames.KindGrant {
		t.Fatalf("%d frames, want one grant", len(all))
	}
	_, rest, err := frames.ParseGrants(all[0])
	if err != nil || len(rest) != frames.GrantBytes {
		t.Fatalf("%d bytes of grants, %v", len(rest), err)
	}
	return frames.ReadGrant(rest)
}

// TestARequestAtTheEndIsGivenBack checks that a request which comes after the end of the incarnation,
// and before its host is closed, is returned to its sender, as is one during the stop of its shard.
func TestARequestAtTheEndIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t)
		n.e.End()
		if all := n.frame(tell(token, 1)); len(all) != 1 || frames.KindOf(all[0]) != frames.KindRefused || n.handled() != 0 {
			t.Errorf("%d frames, %d requests handled; want the request back", len(all), n.handled())
		}
		n.e.Detach()
		if all := n.frame(tell(token, 2)); len(all) != 1 || frames.KindOf(all[0]) != frames.KindRefused {
			t.Errorf("without a host: %d frames, want the request back", len(all))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t)
		n.holding()
		n.frame(tell(token, 1))
		n.e.StopShard(0, token, time.Hour, false, func(activation.Stopped) {})
		if all := n.frame(tell(token, 2)); len(all) != 1 || frames.KindOf(all[0]) != frames.KindRefused {
			t.Errorf("during a stop: %d frames, want the request back", len(all))
		}
	})
}

// TestReportsOfSendersAreAnswered checks that a report gets a larger window if the shard runs here under
// its token, and else room for one request, which is refused.
func TestReportsOfSendersAreAnswered(t *testing.T) {
	report := flow.Report{Sent: 7, SentBytes: 70, Limit: 7, LimitBytes: 70, Asked: 3}
	for name, c := range map[string]struct {
		shard strategy.ShardID
		under protocol.Token
		edit  func(n *hostingNode)
		here  bool
	}{
		"runs here":       {0, token, func(*hostingNode) {}, true},
		"another token":   {0, otherToken, func(*hostingNode) {}, false},
		"another shard":   {1, token, func(*hostingNode) {}, false},
		"no incarnation":  {0, token, func(n *hostingNode) { _ = n.e.Detach()(n.t.Context()) }, false},
		"hosts no shards": {0, token, func(n *hostingNode) { n.inc.Accounts = nil }, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newHostingNode(t)
			c.edit(n)
			g := grantIn(t, n.frame(frames.AppendBlocked(nil, "t", c.shard, c.under, report)))
			if g.Shard != c.shard || g.Token != c.under || g.Grant.Asked != 3 {
				t.Errorf("%s: %+v", name, g)
			}
			if one := g.Grant.Limit == 8 && g.Grant.LimitBytes == 71; one == c.here || c.here && g.Grant.Limit != 7+2*flow.FirstMessages {
				t.Errorf("%s: %+v", name, g.Grant)
			}
		})
	}
}

// TestAWindowThatASenderGivesUpReturnsToTheBudget checks this for a shard that runs here under the token
// of the sender.
func TestAWindowThatASenderGivesUpReturnsToTheBudget(t *testing.T) {
	for under, want := range map[protocol.Token]uint64{token: 0, otherToken: flow.FirstBytes} {
		synctest.Test(t, func(t *testing.T) {
			n := newHostingNode(t)
			n.frame(frames.AppendBlocked(nil, "t", 0, token, flow.Report{Sent: 7, Limit: 7}))
			if _, used := n.Budgets.Used(); used != flow.FirstBytes {
				t.Fatalf("%d bytes of growth", used)
			}
			var asked uint64
			for range 3 {
				n.inc.Accounts.AskIdle()
			}
			for _, f := range n.takeSent() {
				if _, number, err := frames.ParseShrink(f); err == nil {
					asked = number
				}
			}
			n.frame(frames.AppendShrunk(nil, "t", 0, under, flow.Report{Sent: 7, Limit: 7 + flow.FirstMessages, Asked: asked}))
			if _, used := n.Budgets.Used(); used != want || asked == 0 {
				t.Errorf("%d bytes of growth are left, want %d; asked %d", used, want, asked)
			}
			n.inc.Accounts = nil
			n.frame(frames.AppendShrunk(nil, "t", 0, under, flow.Report{Asked: asked}))
			if bad := n.Malformed.Load(); bad != 0 {
				t.Errorf("%d frames are malformed", bad)
			}
		})
	}
}

// TestRequestsCountForTheirSender checks that the requests in a block are accounted for node by node.
func TestRequestsCountForTheirSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t)
		b := n.e.newBatch().(*typedBatch[*activation.Context, string, string])
		second := b.accountsOf(2)
		if b.accountsOf(2) != second || second.Node != 2 {
			t.Error("two requests of one node have other accounts")
		}
		if third := b.accountsOf(3); third == second || third.Node != 3 || b.accountsOf(2) != second {
			t.Error("requests of two nodes have the same accounts")
		}
		b.flush()
		for number := uint64(1); number <= flow.FirstMessages; number++ {
			n.HandleFrame(2, tell(token, number))
		}
		if n.handled() != flow.FirstMessages || len(n.takeSent()) == 0 || n.e.Counters.Received.Load() != flow.FirstMessages {
			t.Errorf("%d handled, %d received, and no grant", n.handled(), n.e.Counters.Received.Load())
		}
	})
}

// TestEntitiesResumeWithTheLease checks that requests which arrive without a lease wait for it.
func TestEntitiesResumeWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t)
		n.alive.Store(false)
		n.frame(tell(token, 1))
		if n.handled() != 0 {
			t.Fatal("handled without a lease")
		}
		n.alive.Store(true)
		if n.e.Resume(); n.handled() != 1 {
			t.Error("not handled after Resume")
		}
		if err := n.e.Detach()(t.Context()); err != nil {
			t.Error(err)
		}
		n.e.Resume() // without a host it does nothing
	})
}

// TestFramesAboutShardsThatAreNotThere checks that a frame about a shard beyond the type is malformed, and
// that a frame of an unknown type is ignored. A stop of a shard that does not run here ends.
func TestFramesAboutShardsThatAreNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t)
		for i, c := range []struct {
			frame     []byte
			malformed bool
		}{
			{frames.AppendBlocked(nil, "t", 1, token, flow.Report{}), false},
			{frames.AppendBlocked(nil, "t", 2, token, flow.Report{}), true},
			{frames.AppendBlocked(nil, "other", 2, token, flow.Report{}), false},
			{frames.AppendShrink(nil, "t", 2, token, 1), true},
			{frames.AppendStop(nil, "t", 2, token, "e", flow.Open), true},
			{[]byte{byte(frames.KindGrant)}, true},
			{nil, true},
		} {
			before := n.Malformed.Load()
			if n.frame(c.frame); (n.Malformed.Load() > before) != c.malformed {
				t.Errorf("frame %d: malformed %v", i, !c.malformed)
			}
		}
		for under, shard := range map[protocol.Token]strategy.ShardID{token: 0, otherToken: 0} {
			all := n.frame(frames.AppendStopped(nil, "t", shard, under, "e"))
			if len(all) != 1 {
				t.Fatalf("%d answers", len(all))
			}
			if stop, err := frames.ParseStop(all[0]); err != nil || stop.Gate != flow.Open || stop.Token != under || string(stop.ID) != "e" {
				t.Errorf("%+v, %v", stop, err)
			}
		}
		if all := n.frame(tell(otherToken, 1)); len(all) != 1 || frames.KindOf(all[0]) != frames.KindRefused || n.e.Counters.Stale.Load() != 1 {
			t.Errorf("a request under another token: %d frames, %d stale", len(all), n.e.Counters.Stale.Load())
		}
		unknown := frames.AppendRequest(nil, "other", 0, "e", 9, nil)
		if all := n.frame(unknown); len(all) != 1 || frames.KindOf(all[0]) != frames.KindReply || n.UnknownType.Load() != 1 {
			t.Errorf("an ask of an unknown type: %d frames, counts %d", len(all), n.UnknownType.Load())
		}
		if all := n.frame(frames.AppendRequest(nil, "other", 0, "e", 0, nil)); len(all) != 0 || n.UnknownType.Load() != 2 {
			t.Errorf("a tell of an unknown type: %d frames, counts %d", len(all), n.UnknownType.Load())
		}
	})
}
