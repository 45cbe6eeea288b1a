package protocol

import (
	"github.com/peerage-go/peerage/gossip"
)

// NewestTerm returns the highest term that m names, in its head and in its tokens. Terms
// are epochs of views, and a sender takes them from views that it holds; so one above the
// receiver's view, in a message whose Head.View is not, is forged.
func NewestTerm(m Message) gossip.Epoch {
	newest := m.Header().Term
	EachToken(m, func(t Token) { newest = max(newest, t.Term) })
	return newest
}

// EachToken calls see with every token that m names.
func EachToken(m Message, see func(Token)) {
	switch m := m.(type) {
	case *ShardsHosted:
		seeAll(m.Shards, see)
	case *BeginAck:
		seeAll(m.Shards, see)
	case *Stopped:
		seeAll(m.Shards, see)
	case *Begin:
		seeAll(m.Shards, see)
	case *StoppedAck:
		seeAll(m.Shards, see)
	case *CensusReport:
		for i := range m.Claims {
			see(m.Claims[i].Token)
		}
		for i := range m.Held {
			see(m.Held[i].Token)
		}
	case *Homes:
		for i := range m.Homes {
			see(m.Homes[i].Token)
		}
	case *HostShards:
		for i := range m.Shards {
			see(m.Shards[i].Token)
			see(m.Shards[i].Ended)
		}
	case *HandOff:
		for i := range m.Shards {
			see(m.Shards[i].Token)
			see(m.Shards[i].Move)
		}
	}
}

func seeAll(shards []ShardToken, see func(Token)) {
	for i := range shards {
		see(shards[i].Token)
	}
}
