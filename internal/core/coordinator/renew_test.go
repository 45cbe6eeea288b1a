package coordinator

import (
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
