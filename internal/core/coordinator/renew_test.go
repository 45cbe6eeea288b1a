package coordinator

import (
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// Shards with tokens below the view's TokensFrom are moved to the home that they have. A
// home that is to lose its shards cannot take them again: such a move was called off when
// the routes had closed, and began anew in the same step, for ever.
func TestTokensAreNotRenewedAtAHomeThatDrains(t *testing.T) {
	b := filled(t, Config{Shards: 2})
	b.drain(1)
	b.mixed(func(v *gossip.View) { v.TokensFrom = 1 << 20 }, 1)
	for range 20 {
		begins := find[*protocol.Begin](b)
		for _, m := range begins {
			b.receive(1, &protocol.BeginAck{Head: b.head(), Shards: m.Shards})
		}
		if len(begins) == 0 {
			return
		}
	}
	t.Error("moves begin without end")
}

// Elsewhere they are renewed, once.
func TestTokensAreRenewedInPlace(t *testing.T) {
	b := filled(t, Config{Shards: 2})
	b.mixed(func(v *gossip.View) { v.TokensFrom = 1 << 20 }, 1)
	if n := count[*protocol.Begin](b); n != 1 || b.c.table.shards[0].moveOf().target != 1 {
		t.Errorf("%d told to close their routes, want one, for two moves to node 1: %+v", n, b.did)
	}
}

// TestWhichTokensAreRenewed checks that tokens below the view's bound are renewed once their shards are
// hosted, and not before this node holds a lease. A home with other settings cannot take its shards again.
func TestWhichTokensAreRenewed(t *testing.T) {
	const bound = 3
	tok := func(generation uint32, seq uint64) protocol.Token {
		return protocol.Token{Term: gossip.FirstEpoch(generation), Seq: seq}
	}
	b := newBench(t, Config{Shards: 6}, 1, 2, 3).step(LeaseChanged{})
	v := *b.c.view
	b.epoch++
	v.Epoch, v.TokensFrom = b.epoch, bound
	b.step(ViewChanged{View: &v}).step(ReadDone{ID: b.c.census.readID, Result: OK})
	b.receive(1, &protocol.CensusReport{Head: b.head(), Hosts: true})
	b.receive(2, &protocol.CensusReport{Head: b.head(), Hosts: true, Claims: []protocol.Claim{
		{Shard: 0, Token: tok(bound, 1), State: protocol.ClaimHosted},
		{Shard: 1, Token: tok(bound-1, 2), State: protocol.ClaimHosted},
		{Shard: 2, Token: tok(bound-1, 3), State: protocol.ClaimStarting},
		{Shard: 3, Token: tok(bound-1, 4), State: protocol.ClaimStopping},
	}})
	b.receive(3, &protocol.CensusReport{Head: b.head(), Hosts: true, Settings: protocol.Settings{Shards: 8}, Claims: []protocol.Claim{
		{Shard: 4, Token: tok(bound-1, 5), State: protocol.ClaimHosted},
	}})
	b.none(count[*protocol.Begin]).ask(1, 0).none(count[*protocol.Begin])
	renewed := func() (ids []protocol.ShardID) {
		for _, st := range beginTo(b, 1).Shards {
			ids = append(ids, st.Shard)
			if s := &b.c.table.shards[st.Shard]; s.phase != closing || s.move.target != 2 {
				t.Errorf("shard %v is in phase %v, to move to %v", st.Shard, s.phase, s.moveOf().target)
			}
		}
		return ids
	}
	b.step(LeaseChanged{Valid: true})
	if ids := renewed(); !slices.Equal(ids, []protocol.ShardID{1}) {
		t.Errorf("with a lease the tokens of %v are renewed, want shard 1", ids)
	}
	b.receive(2, &protocol.ShardsHosted{Head: b.head(), Shards: []protocol.ShardToken{{Shard: 2, Token: tok(bound-1, 3)}}})
	if ids := renewed(); !slices.Equal(ids, []protocol.ShardID{2}) {
		t.Errorf("once shard 2 runs the tokens of %v are renewed", ids)
	}
}
