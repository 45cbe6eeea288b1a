package coordinator

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// Messages and events without sense or order: the core neither panics nor breaks
// an invariant, whatever peers and shell of another release may send.
func TestJunk(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		c := New(Config{Self: 1, Shards: 4, BeginTimeout: time.Second, StopTimeout: time.Second})
		now, epoch := clock.Instant(1), gossip.Epoch(10)
		var log []Event
		var out Effects
		for range 400 {
			now = now.Add(time.Duration(r.IntN(100)) * time.Millisecond)
			ev := junk(r, &epoch, c, out.Do)
			log = append(log, ev)
			out.Reset()
			c.Step(now, ev, &out)
			if err := c.Check(); err != nil {
				t.Fatalf("%v after %+v", err, log[max(0, len(log)-5):])
			}
		}
	}
}

func junk(r *rand.Rand, epoch *gossip.Epoch, c *Core, last []Effect) Event {
	id := func() gossip.NodeID { return gossip.NodeID(1 + r.IntN(4)) }
	tok := func() protocol.Token {
		return protocol.Token{Term: *epoch - gossip.Epoch(r.IntN(3)) + gossip.Epoch(r.IntN(20)/19), Seq: uint64(r.IntN(20))}
	}
	for _, e := range last {
		// What was asked for is answered more often than not, or moves would be rare.
		switch e := e.(type) {
		case Write:
			if r.IntN(3) > 0 {
				return WriteDone{ID: e.ID, Result: OK}
			}
		case Read:
			if r.IntN(3) > 0 {
				return ReadDone{ID: e.ID, Result: OK, Records: []protocol.Record{{Shard: protocol.ShardID(r.IntN(6)), Home: id(), Token: tok()}}}
			}
		}
	}
	switch r.IntN(14) {
	case 0:
		*epoch++
		v := &gossip.View{Epoch: *epoch}
		for n := range gossip.NodeID(4) {
			if r.IntN(4) > 0 {
				v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: n + 1}, Status: []gossip.Status{gossip.Up, gossip.Up, gossip.Joining, gossip.Leaving}[r.IntN(4)]})
			}
		}
		return ViewChanged{View: v}
	case 1:
		return []Event{LeaseChanged{Valid: r.IntN(4) > 0}, Silent{Nodes: []gossip.NodeID{id()}}, Silent{}, Rebalance{}}[r.IntN(4)]
	case 2:
		return WriteDone{ID: uint64(r.IntN(50)), Result: Result(1 + r.IntN(3)), Higher: *epoch}
	case 3:
		return ReadDone{ID: c.census.readID, Result: Result(1 + r.IntN(3)), Higher: *epoch}
	case 4, 5:
		return Tick{}
	}
	return Received{From: id(), Msg: junkMessage(r, protocol.Head{
		Term: c.term + gossip.Epoch(r.IntN(30)/29), View: *epoch, Seq: uint64(r.IntN(30)), Probe: r.IntN(2) > 0,
	}, c, tok)}
}

func junkMessage(r *rand.Rand, h protocol.Head, c *Core, tok func() protocol.Token) protocol.Message {
	report := &protocol.CensusReport{Head: h, Hosts: true}
	var sts, moves []protocol.ShardToken
	for i := range r.IntN(4) {
		st := protocol.ShardToken{Shard: protocol.ShardID(r.IntN(6)), Token: tok()}
		if int(st.Shard) < len(c.table.shards) && r.IntN(2) == 0 {
			st.Token = c.table.shards[st.Shard].token
			moves = append(moves, protocol.ShardToken{Shard: st.Shard, Token: c.table.shards[st.Shard].moveOf().stamp})
		}
		sts = append(sts, st)
		report.Claims = append(report.Claims, protocol.Claim{Shard: st.Shard, Token: st.Token, State: protocol.ClaimState(1 + i%2)})
		report.Held = append(report.Held, protocol.Held{Shard: st.Shard, Token: st.Token, From: gossip.NodeID(r.IntN(5)), To: gossip.NodeID(r.IntN(5)), Term: c.term, Away: r.IntN(2) > 0})
	}
	return []protocol.Message{
		report, report, &protocol.Register{Head: h, Hosts: r.IntN(4) > 0}, &protocol.GetHome{Head: h, Hosts: true, Shards: []protocol.ShardID{protocol.ShardID(r.IntN(6))}},
		&protocol.ShardsHosted{Head: h, Shards: sts}, &protocol.ShardsHosted{Head: h, Shards: sts}, &protocol.BeginAck{Head: h, Shards: moves},
		&protocol.BeginAck{Head: h, Shards: moves}, &protocol.Stopped{Head: h, Shards: sts}, &protocol.Drain{Head: h}, &protocol.Seen{Head: h}, &protocol.Refused{Head: h},
	}[r.IntN(12)]
}
