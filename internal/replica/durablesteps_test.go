package replica

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/core/replication"
)

// FuzzDurableSteps writes batches into a file and deletes keys, closes and opens it, and copies
// it as if its process had been killed between two batches: two bytes for each step. After each
// step the file holds what was written last, and nothing else.
func FuzzDurableSteps(f *testing.F) {
	f.Add([]byte{0, 1, 1, 1, 2, 0, 3, 0})
	f.Add([]byte{0, 200, 0, 201, 3, 0, 1, 200, 3, 0, 2, 0, 0, 200, 2, 0})
	f.Add([]byte{4, 0, 0, 1, 4, 9, 2, 0, 1, 1, 2, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		path := filepath.Join(t.TempDir(), "f")
		d := openAll(t, path)
		defer func() { d.Close() }()
		want := map[string]string{}
		var m replication.Memory
		for i := 0; i+2 <= len(script) && i < 60; i += 2 {
			what, n := script[i]%5, script[i+1]
			key := fmt.Sprint("key/", n%8)
			var err error
			switch what {
			case 0: // two keys, the second one with a large value
				small, large := &crdt.ORSet[string]{}, &crdt.ORSet[string]{}
				small.Add(1, fmt.Sprint(i, n))
				large.Add(1, strings.Repeat("x", 64*int(n)))
				items := []replication.Item{
					{Key: key, Gen: uint64(i), Kind: crdt.KindORSet, Bytes: small.Append(nil)},
					{Key: "large", Gen: uint64(n), Kind: crdt.KindORSet, Bytes: large.Append(nil)},
				}
				for _, it := range items {
					want[it.Key] = shownItem(&it)
				}
				err = d.writeBatch(m, items)
			case 1: // a key goes, if it is there
				delete(want, key)
				err = d.writeBatch(m, nil, key)
			case 2: // a stop and a start
				err = d.Close()
				d = openAll(t, path)
			case 3: // a kill: the file as it is
				var b []byte
				if b, err = os.ReadFile(path); err == nil {
					var got map[string]string
					got, err = contentOf(t, filepath.Join(t.TempDir(), "copy"), b)
					if delete(got, "memory"); err == nil && !maps.Equal(got, want) {
						t.Fatalf("step %d: after a kill the file holds %v, want %v", i/2, got, want)
					}
				}
			case 4: // what is remembered of deletions
				m.Sweep += uint64(n)
				m.Ran = uint64(i)
				err = d.writeBatch(m, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			checkDurable(t, d, want, m)
		}
	})
}

func shownItem(it *replication.Item) string {
	return fmt.Sprintf("%d %d %x", it.Gen, it.Kind, it.Bytes)
}

// checkDurable compares what an open file holds.
func checkDurable(t *testing.T, d *Durable, want map[string]string, m replication.Memory) {
	t.Helper()
	got := map[string]string{}
	if err := d.readRecords(func(r replication.Item) error {
		got[r.Key] = shownItem(&r)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got, want) {
		t.Fatalf("the file holds %v, want %v", got, want)
	}
	if is, err := d.memory(); err != nil || is.Sweep != m.Sweep || is.Ran != m.Ran {
		t.Fatalf("remembers %+v, %v, want %+v", is, err, m)
	}
}
