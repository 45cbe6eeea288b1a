package replication

import (
	"sync"
	"testing"

	"github.com/peerage-go/peerage/crdt"
)

// Functions of updates read one snapshot at the same time: reading must not change it,
// also if the value came from another node. (For the race detector.)
func TestSnapshotsMayBeReadAtTheSameTime(t *testing.T) {
	var multi crdt.ORMultiMap[string, string]
	var counts crdt.PNCounterMap[string]
	var places crdt.ORMap[string, string]
	multi.Add(1, "k", "v")
	counts.Add(1, "k", 1)
	places.At("k").Add(1, "v")
	c := New(Config{Self: 7})
	var items []Item
	for key, v := range map[string]crdt.Value{"multi": &multi, "counts": &counts, "places": &places} {
		items = append(items, Item{Key: key, Kind: v.Kind(), Bytes: v.Append(nil)})
	}
	if err := c.Restore(items); err != nil {
		t.Fatal(err)
	}
	for key, read := range map[string]func(v crdt.Value) bool{
		"multi":  func(v crdt.Value) bool { return len(v.(*crdt.ORMultiMap[string, string]).Values("k")) == 1 },
		"counts": func(v crdt.Value) bool { n, _ := v.(*crdt.PNCounterMap[string]).Count("k"); return n == 1 },
		"places": func(v crdt.Value) bool { return v.(*crdt.ORMap[string, string]).At("k").Has("v") },
	} {
		var readers sync.WaitGroup
		for range 4 {
			s := c.Snapshot(key)
			readers.Go(func() {
				if !read(s.Value) {
					t.Errorf("%s: not what was written", key)
				}
			})
		}
		readers.Wait()
	}
}
