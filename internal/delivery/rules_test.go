package delivery

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/route"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// hostHere is a Local that counts what is published, and knows which asks are open.
type hostHere struct {
	hosts     bool
	published int
	hidden    int
	open      map[uint64]bool
}

func (h *hostHere) Publish(strategy.ShardID, protocol.Token) bool {
	h.published++
	return h.hosts
}
func (h *hostHere) Hide(strategy.ShardID)                       { h.hidden++ }
func (h *hostHere) Deliver(gossip.NodeID, []byte) (bool, error) { return h.hosts, nil }
func (h *hostHere) MoveCall(call uint64, _ gossip.NodeID) bool  { return h.open[call] }
func (h *hostHere) FailAsk(call uint64, _ error) bool           { return h.open[call] }
func (h *hostHere) router() *Router {
	return NewRouter(RouterConfig{Type: "t", Shards: 1, Counters: &Counters{}, Local: h, Bounds: Bounds{BufferMessages: 100, BufferBytes: 1 << 20, ShardMessages: 100, ShardBytes: 1 << 20}})
}

// A refused request keeps the time that it has left, and one without a deadline has none. An ask
// that is no longer open keeps its place in the order, and is not sent again.
func TestARefusedRequestKeepsItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local := &hostHere{open: map[uint64]bool{7: true}}
		for name, c := range map[string]struct {
			call    uint64
			left    time.Duration
			expires time.Time
			ended   bool
		}{
			"a tell":             {0, 0, time.Time{}, false},
			"an ask":             {7, time.Minute, time.Now().Add(time.Minute), false},
			"without a deadline": {7, 0, time.Time{}, false},
			"an ask that ended":  {8, time.Minute, time.Now().Add(time.Minute), true},
		} {
			frame := frames.AppendRequest(nil, "t", 0, "id", c.call, nil)
			if c.call != 0 {
				frames.StampLeft(frame, c.left)
			}
			q, err := frames.ParseRequest(frame)
			if err != nil {
				t.Fatal(err)
			}
			it := returnedItem(local, &q, frame)
			if !it.Msg.Expires.Equal(c.expires) || it.Placeholder != c.ended || it.Msg.Call != c.call || len(it.Msg.Frame) != len(frame) {
				t.Errorf("%s: expires %v, want %v; ended %v, want %v", name, it.Msg.Expires, c.expires, it.Placeholder, c.ended)
			}
			if frame[0] = 0; it.Msg.Frame[0] == 0 {
				t.Errorf("%s: the item shares the memory of the frame", name)
			}
		}
	})
}

// The shard that an offered item needs is published, and if it does not run here yet, the caller
// is not told that the item was sent.
func TestAnOfferedPublicationIsMade(t *testing.T) {
	for _, hosts := range []bool{true, false} {
		local := &hostHere{hosts: hosts}
		r := local.router()
		inc := &Incarnation{Self: self, Ctx: context.Background(), Work: &sync.WaitGroup{}, Need: func(strategy.ShardID) {}}
		err := r.performOffered(inc, r.routes.routeTo(0), &route.Action[Message]{Kind: route.Publish, To: self})
		if local.published != 1 || (err == nil) != hosts {
			t.Errorf("runs here %v: published %d times, %v", hosts, local.published, err)
		}
	}
}

// What a home asks of its own node takes effect there.
func TestGrantsForThisNodeStayHere(t *testing.T) {
	r := (&hostHere{hosts: true}).router()
	inc := &Incarnation{Self: self, Ctx: t.Context(), Work: &sync.WaitGroup{}, Need: func(strategy.ShardID) {}}
	r.now.Store(inc)
	send := grantSender(r, inc)
	inc.Accounts = newAccounts("t", 1, self, NewBudgets(), send)
	token := protocol.Token{Term: 1, Seq: 1}
	r.OpenRoute(inc, 0, self, token)
	// A sender that was blocked has a larger window. When it is idle, its home asks for the growth,
	// and the sender, which is this node, answers.
	s := inc.Accounts.Sender(self)
	s.Reconcile(0, token, r.routes.routeTo(0).core.Report())
	s.Transmit()
	if limit := r.routes.routeTo(0).core.Report().Limit; limit != 2*flow.FirstMessages {
		t.Errorf("the grant raises the limit to %d, want %d", limit, 2*flow.FirstMessages)
	}
	asks := 0
	for range 4 {
		for _, frame := range s.idleRequests() {
			send(self, frame)
			asks++
			select {
			case <-inc.Accounts.wake:
			default:
				t.Error("the reply does not let the loop of the accounts look for what is due")
			}
		}
	}
	if asks != 1 {
		t.Errorf("the home asks %d times, want once", asks)
	}
	if limit := r.routes.routeTo(0).core.Report().Limit; limit != flow.FirstMessages {
		t.Errorf("the limit is %d after that, want %d", limit, flow.FirstMessages)
	}
}

// A run of requests that came before a reply is accounted for before it, and once.
func TestARunBeforeAReplyCountsOnce(t *testing.T) {
	accounts := newAccounts("t", 1, self, NewBudgets(), func(gossip.NodeID, []byte) {})
	s, token := accounts.Sender(2), protocol.Token{Term: 1, Seq: 1}
	a, _ := s.Accept(0, token, 1, 100)
	s.Flush([]*Account{a})
	if _, enough := s.Accept(0, token, 2, 100); enough || a.run.Last() != 2 {
		t.Fatalf("the run ends with request %d, and is worth a grant: %v", a.run.Last(), enough)
	}
	s.OnShrunk(0, token, flow.Report{Sent: 2, SentBytes: 200})
	if a.run.Last() != 0 {
		t.Error("the run waits behind the reply, and would count again")
	}
	s.Accept(0, token, 3, 100)
	if s.OnShrunk(0, protocol.Token{Term: 1, Seq: 2}, flow.Report{Sent: 1}); a.run.Last() != 3 {
		t.Error("a reply about another allocation of the shard takes the run")
	}
}

// The report of a sender on this node lets the loop of the accounts look for what is due.
func TestAReportOfThisNodeWakesTheAccounts(t *testing.T) {
	r := (&hostHere{}).router()
	inc := &Incarnation{Self: self, Ctx: t.Context(), Work: &sync.WaitGroup{}}
	inc.Accounts = newAccounts("t", 1, self, NewBudgets(), func(gossip.NodeID, []byte) {})
	inc.sendReport("t", r.routes.routeTo(0), &route.Action[Message]{Kind: route.Report, To: self, Token: protocol.Token{Term: 1, Seq: 1}})
	select {
	case <-inc.Accounts.wake:
	default:
		t.Error("the accounts are not woken")
	}
	if inc.Accounts.Sender(self).accountOf(0) == nil {
		t.Error("the report opened no account")
	}
}
