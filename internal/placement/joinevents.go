package placement

import "github.com/peerage-go/peerage/internal/core/region"

// joinShardEvents joins an event about shards with the newest event of the queue if both are
// of one kind. At a cold start every shard needs a home, and a node that drains closes, stops
// and starts hundreds. One message about all of them is cheaper than a message for each, and
// than a pass over all shards at the coordinator for each.
func joinShardEvents(last, ev any) (joined any, ok bool) {
	switch ev := ev.(type) {
	case region.NeedHome:
		if before, ok := last.(region.NeedHome); ok {
			return region.NeedHome{Shards: append(before.Shards, ev.Shards...)}, true
		}
	case region.ShardStarted:
		if before, ok := last.(region.ShardStarted); ok {
			return region.ShardStarted{Shards: append(before.Shards, ev.Shards...)}, true
		}
	case region.ShardStopped:
		if before, ok := last.(region.ShardStopped); ok {
			return region.ShardStopped{Shards: append(before.Shards, ev.Shards...)}, true
		}
	case region.MarkerAcked:
		if before, ok := last.(region.MarkerAcked); ok && before.From == ev.From {
			return region.MarkerAcked{From: ev.From, Shards: append(before.Shards, ev.Shards...)}, true
		}
	}
	return nil, false
}
