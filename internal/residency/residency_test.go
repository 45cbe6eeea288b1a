package residency

import (
	"github.com/peerage-go/peerage/internal/core/protocol"
	"slices"
	"testing"

	"github.com/peerage-go/peerage/sharding/strategy"
)

func TestOnlyTheEntitiesThatMustRunAreStarted(t *testing.T) {
	shards := map[strategy.ShardID]*fakeShard{1: {}, 3: {}}
	h := fakeHome(shards, fakeStore{})
	var wanted []strategy.ShardID
	h.WantHome = func(i strategy.ShardID) { wanted = append(wanted, i) }
	NewAlwaysOn(func(i strategy.ShardID) []string {
		if i == 1 || i == 2 {
			return []string{"a"}
		}
		return nil
	}).ensureRunning(h)
	if !slices.Equal(shards[1].entities, []string{"a"}) || shards[3].entities != nil {
		t.Errorf("shard 1 runs %v, shard 3 %v", shards[1].entities, shards[3].entities)
	}
	if !slices.Equal(wanted, []strategy.ShardID{1, 2}) {
		t.Errorf("requests homes for %v", wanted)
	}
}

func TestShardsWithInstancesAreAbandoned(t *testing.T) {
	h := fakeHome(map[strategy.ShardID]*fakeShard{0: {entities: []string{"a", "b"}}, 1: {}}, fakeStore{})
	var ended []strategy.ShardID
	h.Supersede = func(i strategy.ShardID, token protocol.Token) {
		if token == firstToken {
			ended = append(ended, i)
		}
	}
	if n := h.stopAll(); n != 2 {
		t.Errorf("%d instances still exist, want 2", n)
	}
	if n := h.abandonStuck(); n != 1 || !slices.Equal(ended, []strategy.ShardID{0}) {
		t.Errorf("%d shards: %v", n, ended)
	}
}
