package placement

import (
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

func TestSurveyNamesTheHomeWithTheHighestToken(t *testing.T) {
	loadOf := func(seq uint64) []protocol.ShardLoad {
		return []protocol.ShardLoad{{Shard: 3, Token: protocol.Token{Term: 2, Seq: seq}}}
	}
	s := &Survey{View: viewOf(1, 1, 2, 3, 4), Answers: map[gossip.NodeID]*protocol.Answer{1: {Known: true}}}
	if home, _, _ := s.Home(); home != nil {
		t.Errorf("node %v is the home of a shard that no node reports", home.ID)
	}
	s.Answers[2] = &protocol.Answer{Shards: loadOf(7), Lives: true}
	s.Answers[3] = &protocol.Answer{Shards: loadOf(5)}
	home, token, lives := s.Home()
	if home == nil || home.ID != 2 || token.Seq != 7 || !lives {
		t.Errorf("home %v under %v, lives %v", home, token, lives)
	}
	if missing := s.Missing(); len(missing) != 1 || missing[0].ID != 4 {
		t.Errorf("missing %v, want node 4", missing)
	}
}
