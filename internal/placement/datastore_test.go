package placement

import (
	"testing"

	"github.com/peerage-go/peerage/internal/core/protocol"
)

// Records survive the store, with and without a history of moves; what is none of
// ours does not become one.
func TestRecordsKeepTheirMoves(t *testing.T) {
	r := protocol.Record{Shard: 7, Home: 3, Token: protocol.Token{Term: 4, Seq: 300}, State: protocol.Allocated, From: 9, Ended: protocol.Token{Term: 4, Seq: 299}}
	short := appendRecord(r)
	moved := r
	moved.Moves, moved.Since = 2, 5
	long := appendRecord(moved)
	if len(short) >= len(long) {
		t.Errorf("%d bytes without moves, %d with", len(short), len(long))
	}
	for _, want := range []protocol.Record{r, moved} {
		if got, ok := readRecord(shardKey(7), appendRecord(want)); !ok || got != want {
			t.Errorf("%+v became %+v, %v", want, got, ok)
		}
	}
	if got, ok := readRecord(shardKey(7), long+"fields of a later version"); !ok || got != moved {
		t.Errorf("a record of a later version became %+v, %v", got, ok)
	}
	for _, bad := range []string{short[:len(short)-1], long[:len(long)-1], short + "x", ""} {
		if got, ok := readRecord(shardKey(7), bad); ok {
			t.Errorf("%q became %+v", bad, got)
		}
	}
	if _, ok := readRecord("key", short); ok {
		t.Error("a key of three bytes is taken")
	}
}
