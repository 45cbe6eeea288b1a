package coordinator

import (
	"github.com/peerage-go/peerage/internal/assert"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// assertAbove asserts that the tokens of a shard grow.
func (s *shard) assertAbove(id protocol.ShardID, old protocol.Token) {
	if !old.Less(s.token) {
		assert.Broken("S7", "shard %d gets token %v after %v", id, s.token, old)
	}
}

// assertWritten asserts that a shard is ordered to start only after its allocation was
// acknowledged: until then its phase is writing.
func (s *shard) assertWritten(id protocol.ShardID) {
	if s.phase != writing {
		assert.Broken("S8", "HostShard of %d to %v under %v in phase %v: no allocation was written", id, s.home, s.token, s.phase)
	}
}

// assertNewestState asserts that a shard moves with the state of its newest allocation.
func (s *shard) assertNewestState(st protocol.ShardToken) {
	if st.Token.Less(s.token) {
		assert.Broken("G9", "shard %d moves with the state of allocation %v, and the newest is %v", st.Shard, st.Token, s.token)
	}
}
