package placement

import (
	"github.com/peerage-go/peerage/internal/core/protocol"
	"testing"

	"github.com/peerage-go/peerage/sharding/strategy"
)

var older, newer = protocol.Token{Term: 1, Seq: 2}, protocol.Token{Term: 2, Seq: 1}

func TestARecoveryIsTakenUnderItsTokenOnly(t *testing.T) {
	r := recoveries{waiting: map[strategy.ShardID]recovery{3: {token: older, states: map[string][]byte{"a": nil}}}}
	if _, ok := r.takeShard(3, newer); ok {
		t.Error("taken under another token")
	}
	if _, ok := r.takeShard(4, older); ok {
		t.Error("taken for another shard")
	}
	if states, ok := r.takeShard(3, older); !ok || len(states) != 1 {
		t.Errorf("not taken under its token: %v", states)
	}
	if _, ok := r.takeShard(3, older); ok {
		t.Error("taken twice")
	}
}
