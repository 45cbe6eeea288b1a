package region

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
		c := New(Config{Self: self, Shards: 4, Hosts: r.IntN(4) > 0}, &Floors{})
		now, epoch := clock.Instant(1), gossip.Epoch(1)
		var log []Event
		for range 300 {
			now = now.Add(time.Duration(r.IntN(100)) * time.Millisecond)
			ev := junk(r, &epoch)
			log = append(log, ev)
			var out Effects
			c.Step(now, ev, &out)
			if err := c.Check(); err != nil {
				t.Fatalf("%v after %+v", err, log[max(0, len(log)-5):])
			}
		}
	}
}

func junk(r *rand.Rand, epoch *gossip.Epoch) Event {
	id := func() gossip.NodeID { return gossip.NodeID(r.IntN(5)) }
	tok := func() protocol.Token { return protocol.Token{Term: gossip.Epoch(r.IntN(4)), Seq: uint64(r.IntN(5))} }
	sts := func() (out []protocol.ShardToken) {
		for range r.IntN(4) {
			out = append(out, protocol.ShardToken{Shard: protocol.ShardID(r.IntN(6)), Token: tok()})
		}
		return out
	}
	switch r.IntN(12) {
	case 0:
		*epoch++
		v := &gossip.View{Epoch: *epoch}
		for n := range gossip.NodeID(4) {
			if r.IntN(3) > 0 {
				v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: n + 1}, Status: gossip.Status(r.IntN(4))})
			}
		}
		return ViewChanged{View: v}
	case 1:
		return LeaseChanged{Valid: r.IntN(3) > 0}
	case 2:
		return ShardStarted{Shards: sts()}
	case 3:
		return ShardStopped{Shards: sts()}
	case 4:
		return MarkerAcked{From: id(), Shards: sts()}
	case 5:
		return NeedHome{Shards: []protocol.ShardID{protocol.ShardID(r.IntN(6))}}
	case 6:
		return Misrouted{Shard: protocol.ShardID(r.IntN(6)), Token: tok()}
	case 7:
		return []Event{Tick{}, Tick{}, Tick{}, Abandoned{}, Drain{}}[r.IntN(5)]
	}
	h := protocol.Head{Term: *epoch - min(*epoch, gossip.Epoch(r.IntN(2))), View: *epoch, Seq: uint64(r.IntN(6)), Probe: r.IntN(2) > 0}
	return Received{From: id(), Msg: junkMessage(r, h, sts(), id, tok)}
}

func junkMessage(r *rand.Rand, h protocol.Head, sts []protocol.ShardToken, id func() gossip.NodeID, tok func() protocol.Token) protocol.Message {
	homes, hosts, offs := &protocol.Homes{Head: h}, &protocol.HostShards{Head: h}, &protocol.HandOff{Head: h}
	for _, st := range sts {
		homes.Homes = append(homes.Homes, protocol.Home{Shard: st.Shard, Node: id(), Token: st.Token})
		hosts.Shards = append(hosts.Shards, protocol.HostOrder{Shard: st.Shard, Token: st.Token})
		offs.Shards = append(offs.Shards, protocol.HandOffOrder{Shard: st.Shard, Token: st.Token, Move: tok()})
	}
	return []protocol.Message{
		homes, homes, hosts, hosts, hosts, offs, offs, &protocol.Begin{Head: h, Shards: sts}, &protocol.Begin{Head: h, Shards: sts},
		&protocol.StoppedAck{Head: h, Shards: sts}, &protocol.CensusRequest{Head: h}, &protocol.RegisterAck{Head: h}, &protocol.Drained{Head: h},
	}[r.IntN(13)]
}
