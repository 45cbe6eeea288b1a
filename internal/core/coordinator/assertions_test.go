//go:build invariants || race

package coordinator

import (
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/assert"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// TestAssertionsOfCoordinatorsCanFail shows each assertion a state in which it does not hold.
func TestAssertionsOfCoordinatorsCanFail(t *testing.T) {
	token := protocol.Token{Term: gossip.FirstEpoch(1), Seq: 5}
	s := &shard{token: token, phase: free}
	assert.MustBreak(t, "S7", func() { s.assertAbove(2, token) })
	assert.MustBreak(t, "S8", func() { s.assertWritten(2) })
	assert.MustBreak(t, "G9", func() {
		s.assertNewestState(protocol.ShardToken{Shard: 2, Token: protocol.Token{Term: token.Term, Seq: 4}})
	})
}
