package placement

import (
	"reflect"
	"testing"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/driver"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Consecutive events of one kind about shards become one event, in their order, and no event
// overtakes another.
func TestEventsAboutShardsAreJoined(t *testing.T) {
	at := func(s ...strategy.ShardID) (out []protocol.ShardToken) {
		for _, shard := range s {
			out = append(out, protocol.ShardToken{Shard: shard, Token: protocol.Token{Term: 1, Seq: uint64(shard)}})
		}
		return out
	}
	b := driver.New(driver.Config[any]{Clock: clock.Runtime(), Join: joinShardEvents})
	for _, ev := range []any{
		region.ShardStarted{Shards: at(1)}, region.ShardStarted{Shards: at(2)},
		region.ShardStopped{Shards: at(1)}, region.ShardStopped{Shards: at(3)}, region.ShardStopped{Shards: at(2)},
		region.MarkerAcked{From: 7, Shards: at(1)}, region.MarkerAcked{From: 7, Shards: at(2)}, region.MarkerAcked{From: 8, Shards: at(3)},
		region.NeedHome{Shards: []strategy.ShardID{4}}, region.NeedHome{Shards: []strategy.ShardID{5}},
		region.Drain{}, region.Drain{},
		region.ShardStarted{Shards: at(4)},
	} {
		b.Put(ev)
	}
	want := []any{
		region.ShardStarted{Shards: at(1, 2)}, region.ShardStopped{Shards: at(1, 3, 2)},
		region.MarkerAcked{From: 7, Shards: at(1, 2)}, region.MarkerAcked{From: 8, Shards: at(3)},
		region.NeedHome{Shards: []strategy.ShardID{4, 5}}, region.Drain{}, region.Drain{}, region.ShardStarted{Shards: at(4)},
	}
	b.Finish()
	b.Run(nil, func(got []any) clock.Instant {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("takes %+v\nwant  %+v", got, want)
		}
		return clock.Never
	})
}
