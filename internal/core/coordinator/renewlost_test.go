package coordinator_test

import (
	"fmt"
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// TestACoordinatorLostWhileTokensAreRenewed: another cluster has ended in this one, and
// the coordinator dies, or leaves in order, at each millisecond of the renewal that
// follows. Its successor renews the rest: in the end every shard lives once, under a
// token of the generation asked for, and none has gone back.
func TestACoordinatorLostWhileTokensAreRenewed(t *testing.T) {
	for _, how := range []string{"killed", "drained"} {
		for after := range 25 {
			t.Run(fmt.Sprintf("%s after %d ms", how, after), func(t *testing.T) {
				s := play(t, directed(4))
				s.fill().ms(100)
				boss := s.inOffice()
				v := *s.cur
				v.Epoch = gossip.FirstEpoch(v.Epoch.Generation() + 50)
				v.TokensFrom = v.Epoch.Generation()
				s.commit(&v)
				s.ms(after)
				if how == "killed" {
					boss.leave("killed")
					s.ms(20)
					s.remove(false, boss.id)
				} else {
					boss.startDrain(true)
				}
				s.calm = true
				s.ms(3000)
				s.settled()
				for i := range s.plan.shards {
					id := protocol.ShardID(i)
					home := s.home(id)
					if home == 0 {
						t.Errorf("shard %d lives nowhere", i)
						continue
					}
					if tok := s.node(home).tenants[id].token; tok.Term.Generation() < v.TokensFrom {
						t.Errorf("shard %d lives at %d under %v, tokens are asked for from generation %d on", i, home, tok, v.TokensFrom)
					}
				}
			})
		}
	}
}
