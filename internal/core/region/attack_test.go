package region

import (
	"math"
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// farOrders are orders of a member that name the last term of all: as the coordinator's
// own, or in the tokens.
func farOrders(b *bench, tok protocol.Token) map[string]protocol.Message {
	far := protocol.Token{Term: math.MaxUint64, Seq: 1}
	h, own := b.head(), b.head()
	h.Term = far.Term
	orders := map[string]protocol.Message{}
	for name, head := range map[string]protocol.Head{"term": h, "token": own} {
		t := tok
		if name == "token" {
			t = far
		}
		orders["RegisterAck "+name] = &protocol.RegisterAck{Head: h}
		orders["Homes "+name] = &protocol.Homes{Head: head, Homes: []protocol.Home{{Shard: 1, Node: other, Token: t}}}
		orders["HostShards "+name] = &protocol.HostShards{Head: head, Shards: []protocol.HostOrder{{Shard: 1, Token: t}}}
		orders["Begin "+name] = &protocol.Begin{Head: head, Shards: st(1, t)}
		orders["HandOff "+name] = &protocol.HandOff{Head: head, Shards: []protocol.HandOffOrder{{Shard: 1, Token: t, Move: t}}}
		orders["HandOff move "+name] = &protocol.HandOff{Head: head, Shards: []protocol.HandOffOrder{{Shard: 1, Token: tok, Move: t}}}
		orders["StoppedAck "+name] = &protocol.StoppedAck{Head: head, Shards: st(1, t)}
		orders["CensusRequest "+name] = &protocol.CensusRequest{Head: h}
		orders["Drained "+name] = &protocol.Drained{Head: h}
	}
	return orders
}

// TestAttackTermsBeyondTheView: a frame of a member with a term or token above every view
// is refused, and the coordinator is obeyed as before.
func TestAttackTermsBeyondTheView(t *testing.T) {
	names := farOrders(newBench(t, &Floors{}), protocol.Token{})
	for name := range names {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, &Floors{})
			tok := b.run(1)
			b.step(Received{From: other, Msg: farOrders(b, tok)[name]})
			if !b.traced(TraceFar) {
				t.Error("it is not refused")
			}
			if b.c.floors.term > b.epoch {
				t.Errorf("the node obeys the term %v", b.c.floors.term)
			}
			// A takeover, a start, a move and a stop go on.
			b.view(boss, self, other)
			b.receive(&protocol.CensusRequest{Head: b.headOf(b.epoch)})
			if r := want[*protocol.CensusReport](b); len(r.Claims) != 1 || r.Claims[0].Token != tok {
				t.Fatalf("the census reports %+v", r.Claims)
			}
			next := protocol.Token{Term: b.epoch, Seq: 1}
			b.hostShard(2, next)
			want[StartShard](b)
			b.handOff(1, tok)
			want[StopShard](b)
		})
	}
	// A message of a view that has not arrived here waits for it, and so does its term.
	b := newBench(t, &Floors{})
	h := b.headOf(b.epoch + 1)
	h.View = b.epoch + 1
	b.receive(&protocol.CensusRequest{Head: h})
	refuse[*protocol.CensusReport](b)
	b.view(boss, self, other)
	if b.traced(TraceFar) || b.c.floors.term != gossip.Epoch(h.Term) {
		t.Errorf("the term %v of a view that came later is not obeyed, but %v", h.Term, b.c.floors.term)
	}
}
