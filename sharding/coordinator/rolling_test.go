package coordinator_test

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/sharding/protocol"
)

// joinAs adds a fresh host of an application version.
func (s *script) joinAs(version string) {
	n := s.newNode(true)
	n.version = version
	s.change(func(ms []view.Member) []view.Member { return append(ms, n.member(view.Joining)) })
	s.ms(20)
	s.status(n.id, view.Up)
}

// A rolling restart of five nodes with a new application version, the coordinator
// first: each leaves in order and comes back. Every shard moves twice at most: off
// its node, and once more if that was of the old version too.
func TestRollingRestartMovesEveryShardTwiceAtMost(t *testing.T) {
	p := directed(5)
	p.shards = 30
	p.traffic = time.Millisecond
	s := play(t, p).fill()
	for id := view.NodeID(1); id <= 5; id++ {
		s.node(id).startDrain(true)
		s.ms(400)
		s.expect(s.cur.Member(id) == nil, "%d has not left", id)
		s.joinAs("2")
		s.ms(400)
	}
	s.calm = true
	s.settled()
	for i := range protocol.ShardID(30) {
		s.expect(s.starts(i) <= 3, "shard %v was started %d times", i, s.starts(i))
	}
}
