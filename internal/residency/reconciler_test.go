package residency

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/daemon"
	"github.com/peerage-go/peerage/internal/core/protocol"
	core "github.com/peerage-go/peerage/internal/core/residency"
	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/sharding/strategy"
)

var firstToken = protocol.Token{Term: 1, Seq: 1}

// fakeShard has the entities that were started.
type fakeShard struct{ entities []string }

func (s *fakeShard) Token() protocol.Token { return firstToken }
func (s *fakeShard) IDs() []string         { return slices.Clone(s.entities) }
func (s *fakeShard) Dismiss(string) bool   { return true }

func (s *fakeShard) Ensure(id string) bool {
	if slices.Contains(s.entities, id) {
		return false
	}
	s.entities = append(s.entities, id)
	return true
}

// fakeStore holds the ids of shard 0; its writes fail.
type fakeStore struct {
	placement.Rememberer
	ids []string
}

func (s fakeStore) Remembered(_ context.Context, _ string, i strategy.ShardID) ([]string, error) {
	if i != 0 {
		return nil, nil
	}
	return s.ids, nil
}

func (s fakeStore) Remember(context.Context, string, strategy.ShardID, []string, []string) error {
	return errors.New("no paper")
}

// fakeHome is a Home with the shards of a map.
func fakeHome(ctx context.Context, shards map[strategy.ShardID]*fakeShard, store fakeStore) *Home {
	shard := func(i strategy.ShardID) Shard {
		if s := shards[i]; s != nil {
			return s
		}
		return nil
	}
	return &Home{
		Node: Node{
			Token: TokenIn(shard), LeaseValid: func() bool { return true }, Turn: NewPace(100).Turn,
			Members: func() daemon.Members { return daemon.Members{} }, Office: func() gossip.Epoch { return 0 },
		},
		Type: "t", Shards: 4, Log: slog.New(slog.DiscardHandler), Ctx: ctx, Work: &sync.WaitGroup{}, Clock: clock.Runtime(),
		Shard: shard, WantHome: func(strategy.ShardID) {}, Store: store,
	}
}

// serveFor serves h for a while.
func serveFor(r *Reconciler, h *Home, d time.Duration) {
	ctx, cancel := context.WithTimeout(h.Ctx, d)
	defer cancel()
	h.Ctx = ctx
	r.Serve(h)
	h.Work.Wait()
}

func TestDroppedUpdatesAreCounted(t *testing.T) {
	r := NewRemembered(4, nil, nil)
	for range core.UpdatesMax {
		r.Lived(2, time.Duration(r.Stats().Waiting).String(), true)
	}
	for _, id := range []string{"a", "b", "c"} {
		r.Lived(3, id, true)
	}
	if s := r.Stats(); s.Dropped != 0 || s.Waiting != core.UpdatesMax+3 {
		t.Errorf("%d of entities that live are dropped, %d wait", s.Dropped, s.Waiting)
	}
	for _, id := range []string{"a", "b"} {
		r.Lived(3, id, false)
	}
	if s := r.Stats(); s.Dropped != 2 || s.Waiting != core.UpdatesMax+1 {
		t.Errorf("%d of 2 are counted, %d wait", s.Dropped, s.Waiting)
	}
}

// The entities of a shard start in it. Entities that belong to another shard by now start
// there, and are forgotten here.
func TestEntitiesStartInTheirShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shard := &fakeShard{entities: []string{"running"}}
		var elsewhere []string
		begin := time.Now()
		var took time.Duration
		r := NewRemembered(4, func(id string) (strategy.ShardID, bool) {
			return map[string]strategy.ShardID{"moved": 2}[id], id != "no shard"
		}, func(_ context.Context, id string) error {
			elsewhere, took = append(elsewhere, id), time.Since(begin)
			return nil
		})
		h := fakeHome(t.Context(), map[strategy.ShardID]*fakeShard{0: shard}, fakeStore{ids: []string{"a", "b", "moved", "no shard", "running"}})
		serveFor(r, h, 100*time.Millisecond)
		if !slices.Equal(shard.entities, []string{"running", "a", "b"}) || !slices.Equal(elsewhere, []string{"moved"}) {
			t.Errorf("runs %v, started elsewhere %v", shard.entities, elsewhere)
		}
		if st := r.Stats(); st.Recalled != 3 || st.Failed != 1 || st.Waiting != 1 {
			t.Errorf("%+v, want three starts, and a removal of moved that has failed", st)
		}
		if took != 20*time.Millisecond {
			t.Errorf("three starts at 100 a second took %v", took)
		}
	})
}

func TestOnlyTheEntitiesThatMustRunAreStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shards := map[strategy.ShardID]*fakeShard{1: {}, 3: {}}
		h := fakeHome(t.Context(), shards, fakeStore{})
		var wanted []strategy.ShardID
		h.WantHome = func(i strategy.ShardID) { wanted = append(wanted, i) }
		serveFor(NewAlwaysOn(4, func(i strategy.ShardID) string {
			if i == 1 || i == 2 {
				return "a"
			}
			return ""
		}), h, CheckEvery/2)
		if !slices.Equal(shards[1].entities, []string{"a"}) || shards[3].entities != nil {
			t.Errorf("shard 1 runs %v, shard 3 %v", shards[1].entities, shards[3].entities)
		}
		if !slices.Equal(wanted, []strategy.ShardID{2}) {
			t.Errorf("requests homes for %v", wanted)
		}
	})
}

func TestShardsWithInstancesAreAbandoned(t *testing.T) {
	h := fakeHome(t.Context(), map[strategy.ShardID]*fakeShard{0: {entities: []string{"a", "b"}}, 1: {}}, fakeStore{})
	var ended []strategy.ShardID
	h.Supersede = func(i strategy.ShardID, token protocol.Token) {
		if token == firstToken {
			ended = append(ended, i)
		}
	}
	forced := 0
	h.Forced = func(shards int) { forced += shards }
	for _, abandon := range []bool{false, true} {
		if o := h.performLocal(&core.Action{Kind: core.StopAll, Abandon: abandon}); !o.OK || o.Running != 2 {
			t.Errorf("%d instances still exist, want 2", o.Running)
		}
		if abandon != slices.Equal(ended, []strategy.ShardID{0}) || abandon != (forced == 1) {
			t.Errorf("abandon %v: %d shards: %v", abandon, forced, ended)
		}
	}
}

// A node whose store cannot remember, or keeps no plans, starts nothing.
func TestNothingIsServedWithoutAStore(t *testing.T) {
	h := fakeHome(t.Context(), nil, fakeStore{})
	h.Store = nil
	h.WantHome = func(strategy.ShardID) { t.Error("a home is requested") }
	NewRemembered(4, nil, func(context.Context, string) error { return nil }).Serve(h)
	NewDaemonController("d", 1, 2).Serve(h)
	h.Work.Wait()
}
