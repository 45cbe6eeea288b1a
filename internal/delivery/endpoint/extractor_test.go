package endpoint

import (
	"testing"

	"github.com/peerage-go/peerage/sharding/strategy"
)

// A function that panics at an id that another node sent costs that message, and not the
// reader of the connection.
func TestShardOfThatPanicsIsContained(t *testing.T) {
	e := Extractor{Shards: 4, Custom: func(id string) strategy.ShardID { return strategy.ShardID(id[9]) }}
	if got := e.ofBytes([]byte("short"), 0); got != NoShard {
		t.Errorf("shard %v", got)
	}
}

func TestFingerprintsTellFunctionsApart(t *testing.T) {
	by := func(k int) Extractor {
		return Extractor{Shards: 64, Custom: func(id string) strategy.ShardID { return strategy.ShardID(len(id) * k % 64) }}
	}
	a, b, hash := by(1), by(3), Extractor{Shards: 64}
	again := by(1)
	if a.Fingerprint() == b.Fingerprint() || a.Fingerprint() != again.Fingerprint() || hash.Fingerprint() != 0 {
		t.Error("a fingerprint must depend on the results and nothing else")
	}
}

// TestShardsBeyondTheTypeAreNone checks that a function's result must be a shard of the type.
func TestShardsBeyondTheTypeAreNone(t *testing.T) {
	for got, want := range map[strategy.ShardID]strategy.ShardID{3: 3, 4: NoShard, 5: NoShard} {
		e := Extractor{Shards: 4, Custom: func(string) strategy.ShardID { return got }}
		if s, ok := e.Locate("id"); s != want || ok != (want != NoShard) {
			t.Errorf("shard %d of 4: %v, %v", got, s, ok)
		}
	}
}
