package residency

import (
	"context"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/daemon"
	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/sharding/strategy"
)

var firstToken = protocol.Token{Term: 1, Seq: 1}

// fakeShard has the entities that were started.
type fakeShard struct{ entities []string }

func (s *fakeShard) Token() protocol.Token { return firstToken }
func (s *fakeShard) Lives(id string) bool  { return slices.Contains(s.entities, id) }
func (s *fakeShard) IDs() []string         { return slices.Clone(s.entities) }
func (s *fakeShard) Entities() int         { return len(s.entities) }
func (s *fakeShard) Dismiss(string) bool   { return true }

func (s *fakeShard) Ensure(id string) bool {
	if s.Lives(id) {
		return false
	}
	s.entities = append(s.entities, id)
	return true
}

// fakeStore holds the ids of all shards.
type fakeStore struct {
	placement.Rememberer
	ids []string
}

func (s fakeStore) Remembered(context.Context, string, strategy.ShardID) ([]string, error) {
	return s.ids, nil
}

// fakeHome is a Home with the shards of a map.
func fakeHome(shards map[strategy.ShardID]*fakeShard, store fakeStore) *Home {
	return &Home{
		Type: "t", Shards: 4, Log: slog.New(slog.DiscardHandler), Ctx: context.Background(), Pace: NewPace(100),
		Shard: func(i strategy.ShardID) Shard {
			if s := shards[i]; s != nil {
				return s
			}
			return nil
		},
		WantHome: func(strategy.ShardID) {}, LeaseValid: func() bool { return true },
		Members: func() daemon.Members { return daemon.Members{} }, Office: func() gossip.Epoch { return 0 },
		Store: store,
	}
}

func TestDroppedUpdatesAreCounted(t *testing.T) {
	r := NewRemembered(nil, nil)
	r.set.waiting = dirtyMax
	for _, id := range []string{"a", "b", "c"} {
		r.Lived(3, id, true)
	}
	if n := r.Stats().Dropped; n != 3 {
		t.Errorf("%d of 3 are counted", n)
	}
}

func TestTheIDsOfShardsThatLeftAreDropped(t *testing.T) {
	shards := map[strategy.ShardID]*fakeShard{}
	r := NewRemembered(nil, nil)
	r.set.finishRead(3, firstToken, []string{"a"}, time.Now())
	if r.readShards(fakeHome(shards, fakeStore{})); len(r.set.stored) != 0 {
		t.Errorf("the ids of %d shards are held", len(r.set.stored))
	}
}

// The entities of a shard start in it. Entities that belong to another shard by now start
// there, and are forgotten here.
func TestEntitiesStartInTheirShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shard := &fakeShard{entities: []string{"running"}}
		var elsewhere []string
		r := NewRemembered(func(id string) (strategy.ShardID, bool) {
			return map[string]strategy.ShardID{"moved": 2}[id], id != "no shard"
		}, func(_ context.Context, id string) error {
			elsewhere = append(elsewhere, id)
			return nil
		})
		h := fakeHome(map[strategy.ShardID]*fakeShard{0: shard}, fakeStore{})
		start := r.set.finishRead(0, firstToken, []string{"a", "b", "moved", "no shard", "running"}, time.Now())
		begin := time.Now()
		r.startEntities(h, 0, shard, start)
		if !slices.Equal(shard.entities, []string{"running", "a", "b"}) || !slices.Equal(elsewhere, []string{"moved"}) {
			t.Errorf("runs %v, started elsewhere %v", shard.entities, elsewhere)
		}
		if n := r.Stats().Recalled; n != 3 || r.set.remembers(0, "moved") {
			t.Errorf("%d starts counted, moved is remembered: %v", n, r.set.remembers(0, "moved"))
		}
		if took := time.Since(begin); took != 20*time.Millisecond {
			t.Errorf("three starts at 100 a second took %v", took)
		}
	})
}
