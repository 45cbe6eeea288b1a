package delivery

import (
	"github.com/peerage-go/peerage/internal/core/protocol"
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Requests to many shards arrive in blocks, one for each shard. The home sends its grants for
// many shards in few frames, and no sender's window is ever used up.
func TestGrantsOfManyShardsLeaveTogether(t *testing.T) {
	const shards, rounds = 500, 8 * flow.FirstMessages
	budgets, sent, grants := NewBudgets(), 0, 0
	windows := make([]flow.Window, shards)
	accounts := newAccounts("t", shards, self, budgets, func(_ gossip.NodeID, frame []byte) {
		_, rest, err := frames.ParseGrants(frame)
		if err != nil {
			t.Fatal(err)
		}
		for sent++; len(rest) > 0; rest = rest[frames.GrantBytes:] {
			g := frames.ReadGrant(rest)
			windows[g.Shard].Raise(g.Grant)
			grants++
		}
	})
	s := accounts.Sender(2)
	blocks := 0
	var touched []*Account
	for i := range windows {
		windows[i].Open()
	}
	for round := range rounds {
		for shard := range windows {
			w := &windows[shard]
			if round < shard%flow.FirstMessages { // so that their grants are not due together
				continue
			}
			if !w.MayLeave(flow.Ordinary) {
				t.Fatalf("the window of shard %d is used up: %+v", shard, w.Report())
			}
			w.Left(100)
			a, enough := s.Accept(strategy.ShardID(shard), protocol.Token{Term: 1, Seq: 1}, w.Sent(), 100)
			if enough {
				touched = append(touched, a)
			}
			if shard%100 == 99 {
				s.Flush(touched)
				touched = touched[:0]
				blocks++
			}
		}
	}
	t.Logf("%d blocks: %d grants in %d frames", blocks, grants, sent)
	if sent > blocks/8 {
		t.Errorf("%d frames carry grants for %d blocks", sent, blocks)
	}
}
