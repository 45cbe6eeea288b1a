package placement

import (
	"testing"

	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

func TestTraceKeepsTheNewestEvents(t *testing.T) {
	var r traceRing
	if got := r.shardEvents(1); len(got) != 0 {
		t.Errorf("an empty trace has %d events", len(got))
	}
	for i := range traceMax + 10 {
		r.addLine(traceLine{shard: strategy.ShardID(i % 2), hasShard: i%10 != 0, token: protocol.Token{Seq: uint64(i)}})
	}
	got := r.shardEvents(1)
	if len(got) != protocol.EventsMax {
		t.Fatalf("%d events, want %d", len(got), protocol.EventsMax)
	}
	if last := got[len(got)-1].Token.Seq; last != traceMax+9 {
		t.Errorf("the newest event is %d, want %d", last, traceMax+9)
	}
	for i, e := range got {
		if i > 0 && e.Token.Seq <= got[i-1].Token.Seq {
			t.Fatalf("event %d follows event %d", e.Token.Seq, got[i-1].Token.Seq)
		}
		// Even numbers are of shard 0, or of no shard.
		if e.Token.Seq%2 == 0 && e.HasShard {
			t.Errorf("event %d of another shard is listed", e.Token.Seq)
		}
	}
}
