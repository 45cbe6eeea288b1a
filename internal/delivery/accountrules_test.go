package delivery

import (
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// grown are accounts of node 2 for shards 0 and 100 whose windows have grown, and their budgets.
func grown(send func(to gossip.NodeID, frame []byte)) (*Accounts, *Budgets, protocol.Token) {
	budgets, token := NewBudgets(), protocol.Token{Term: 1, Seq: 1}
	a := newAccounts("t", 200, self, budgets, send)
	for _, shard := range []strategy.ShardID{0, 100} {
		w := flow.Window{}
		w.Open()
		s := a.Sender(2)
		s.Reconcile(shard, token, w.Report())
	}
	return a, budgets, token
}

// TestAccountsGiveTheirBudgetBack checks that the budget of windows is used by the accounts of present
// members and shards only.
func TestAccountsGiveTheirBudgetBack(t *testing.T) {
	none := func(gossip.NodeID, []byte) {}
	a, budgets, token := grown(none)
	_, all := budgets.Used()
	if all == 0 {
		t.Fatal("no window has grown")
	}
	a.Sweep(func(strategy.ShardID) protocol.Token { return token })
	if _, used := budgets.Used(); used != all || a.Sender(2).accountOf(0) == nil {
		t.Errorf("accounts of shards that run here give %d of %d bytes back", all-used, all)
	}
	a.Sweep(func(shard strategy.ShardID) protocol.Token {
		if shard == 0 {
			return token
		}
		return protocol.Token{Term: 1, Seq: 2}
	})
	_, used := budgets.Used()
	if used != all/2 || a.Sender(2).accountOf(0) == nil || a.Sender(2).accountOf(100) != nil {
		t.Errorf("%d of %d bytes are used after the end of one of two shards", used, all)
	}
	a.Forget(3)
	if _, again := budgets.Used(); again != used {
		t.Error("a node without accounts gives bytes back")
	}
	a.Forget(2)
	if _, used := budgets.Used(); used != 0 || len(a.allSenders()) != 0 {
		t.Errorf("%d bytes are used after the member has left", used)
	}
}

// TestAShardThatIsAllocatedAnewHasANewAccount checks that an account belongs to one token.
func TestAShardThatIsAllocatedAnewHasANewAccount(t *testing.T) {
	a, budgets, token := grown(func(gossip.NodeID, []byte) {})
	s := a.Sender(2)
	_, all := budgets.Used()
	first, _ := s.Accept(0, token, 1, 10)
	if same, _ := s.Accept(0, token, 2, 10); same != first {
		t.Error("one allocation has two accounts")
	}
	next, _ := s.Accept(0, protocol.Token{Term: 2, Seq: 1}, 1, 10)
	if _, used := budgets.Used(); next == first || used != all/2 {
		t.Errorf("%d of %d bytes are used after a new allocation", used, all)
	}
}

// TestStopsAreAnsweredByTheirAccount checks the answer to a sender that asks whether its stop holds: the
// gate is open if there is no account under the token.
func TestStopsAreAnsweredByTheirAccount(t *testing.T) {
	var sent [][]byte
	a, _, token := grown(func(to gossip.NodeID, frame []byte) {
		if to != 2 {
			t.Errorf("a frame leaves for node %v", to)
		}
		sent = append(sent, frame)
	})
	s := a.Sender(2)
	for name, c := range map[string]struct {
		shard strategy.ShardID
		token protocol.Token
	}{"an account": {0, token}, "another token": {0, protocol.Token{Term: 9}}, "no account": {7, token}} {
		sent = nil
		s.AnswerStopped(c.shard, c.token, "a")
		if len(sent) != 1 {
			t.Fatalf("%s: %d frames", name, len(sent))
		}
		stop, err := frames.ParseStop(sent[0])
		if err != nil || stop.Gate != flow.Open || stop.Shard != c.shard || stop.Token != c.token || string(stop.ID) != "a" {
			t.Errorf("%s: %+v, %v", name, stop, err)
		}
	}
}

// TestGrantsLeaveOnce checks that a grant that is due is sent once, behind the requests that it answers.
func TestGrantsLeaveOnce(t *testing.T) {
	var sent [][]byte
	a, _, _ := grown(func(_ gossip.NodeID, frame []byte) { sent = append(sent, frame) })
	s := a.Sender(2)
	s.Transmit()
	if len(sent) != 1 || frames.KindOf(sent[0]) != frames.KindGrant {
		t.Fatalf("%d frames", len(sent))
	}
	_, grants, err := frames.ParseGrants(sent[0])
	if err != nil || len(grants) != 2*frames.GrantBytes {
		t.Errorf("%d bytes of grants, want two: %v", len(grants), err)
	}
	if s.Transmit(); len(sent) != 1 || s.urgent || len(s.due) != 0 {
		t.Error("a grant is sent twice")
	}
}

// TestAReportIsBehindTheRequestsBeforeIt checks that requests which arrived before a report, and were not
// accounted for yet, do not count beyond it.
func TestAReportIsBehindTheRequestsBeforeIt(t *testing.T) {
	var granted []flow.Grant
	a, _, token := grown(func(_ gossip.NodeID, frame []byte) {
		_, grants, err := frames.ParseGrants(frame)
		if err != nil {
			t.Fatal(err)
		}
		for ; len(grants) > 0; grants = grants[frames.GrantBytes:] {
			if g := frames.ReadGrant(grants); g.Shard == 0 {
				granted = append(granted, g.Grant)
			}
		}
	})
	s := a.Sender(2)
	s.Transmit()
	w := flow.Window{}
	w.Open()
	w.Raise(granted[0])
	var account *Account
	for range 3 {
		w.Left(1000)
		account, _ = s.Accept(0, token, w.Sent(), 1000)
	}
	s.Reconcile(0, token, w.Report())
	s.Flush([]*Account{account})
	s.Transmit()
	report := w.Report()
	if last := granted[len(granted)-1]; len(granted) != 2 || last.LimitBytes-report.SentBytes != 4*flow.FirstBytes {
		t.Errorf("granted %+v behind %d bytes, want %d more", granted, report.SentBytes, 4*flow.FirstBytes)
	}
}

// TestLimitsOfBudgetsApply checks that limits concern the types that are there, and those that come.
func TestLimitsOfBudgetsApply(t *testing.T) {
	b := NewBudgets()
	first := newAccounts("a", 1, self, b, nil)
	b.SetLimits(10, 20, 30)
	second := newAccounts("b", 1, self, b, nil)
	if b.windows.Most != 10 || b.parked.Most != 20 || first.pool.Share != 30 || second.pool.Share != 30 || first.pool.Rest != &b.parked {
		t.Errorf("windows %d, parked %d, shares %d and %d", b.windows.Most, b.parked.Most, first.pool.Share, second.pool.Share)
	}
	first.pool.Used, second.pool.Used = 3, 4
	if parked, _ := b.Used(); parked != 7 {
		t.Errorf("%d bytes are parked, want 7", parked)
	}
}
