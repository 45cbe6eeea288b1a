package replica

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/testsize"
	"github.com/peerage-go/peerage/replicator"
)

var testMemory = replication.Memory{Sweep: 5, MinGeneration: 3, MaxForgottenStamp: 4, Ran: 6,
	Agreed: []replication.AgreedDeletion{{Print: 1 << 60, Sweep: 3}, {Print: 1<<60 + 1, Sweep: 4}}}

// manyKeysBytes returns a file of some hundred keys, small and of several pages, agreed
// deletions, and free pages. Its last two transactions have the same content, so that
// either head record leads to it.
func manyKeysBytes(t testing.TB) []byte {
	t.Helper()
	put := func(d *Durable, from, to, elements int, gone ...string) {
		t.Helper()
		var recs []replication.Item
		for i := from; i < to; i++ {
			key := fmt.Sprintf("keep/%04d", i)
			rec := replication.Item{Key: key, Kind: crdt.KindORSet}
			s := &crdt.ORSet[string]{}
			for j := range elements {
				s.Add(1, fmt.Sprint("element ", i, " ", j))
			}
			if rec.Bytes = s.Append(nil); i%3 == 0 {
				v := &textMap{}
				v.Delete("a", crdt.Stamp{Time: 1})
				rec = replication.Item{Key: key, Kind: crdt.KindLWWMap, Bytes: v.Append(nil)}
			}
			recs = append(recs, rec)
		}
		if err := d.writeBatch(testMemory, recs, gone...); err != nil {
			t.Fatal(err)
		}
	}
	return writtenFile(t, filepath.Join(t.TempDir(), "many"), func(d *Durable) error {
		put(d, 0, 400, 2)
		put(d, 100, 110, 300)
		put(d, 200, 260, 40)
		put(d, 200, 260, 3, "keep/0020", "keep/0021")
		put(d, 50, 51, 2)
		put(d, 50, 51, 2)
		return nil
	})
}

// contentOf opens a file of these bytes and returns everything that it holds. A file that
// keeps OpenDurable busy for a minute fails the test.
func contentOf(t testing.TB, path string, b []byte) (content map[string]string, err error) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var d *Durable
		if d, err = OpenDurable(DurableConfig{Path: path, Owner: "c/r", Prefixes: []string{""}}); err != nil {
			return
		}
		defer d.Close()
		content = map[string]string{}
		if err = d.readRecords(func(r replication.Item) error {
			content[r.Key] = fmt.Sprintf("%d %d %x", r.Gen, r.Kind, r.Bytes)
			return nil
		}); err != nil {
			return
		}
		var m replication.Memory
		m, err = d.memory()
		content["memory"] = fmt.Sprint(m)
	}()
	select {
	case <-done:
		return content, err
	case <-time.After(time.Minute):
		t.Fatal("OpenDurable has not returned after a minute")
		return nil, nil
	}
}

// overwrite returns a copy of whole with some bytes overwritten: anywhere, or in the head
// and the elements of a page, by any bytes, or by a small number.
func overwrite(rng *rand.Rand, whole []byte) (b []byte, at int) {
	b = bytes.Clone(whole)
	page := os.Getpagesize()
	switch at = rng.IntN(len(b) - 8); rng.IntN(3) {
	case 0:
		at = at/page*page + rng.IntN(64)
	case 1:
		at = at/page*page + rng.IntN(16)
	}
	to := b[at : at+1+rng.IntN(8)]
	fill := rng.IntN(4)
	for i := range to {
		switch fill {
		case 0:
			to[i] = byte(rng.Uint32())
		case 1:
			to[i] = 0
		case 2:
			to[i] = 0xff
		}
	}
	if fill == 3 {
		clear(to)
		to[0] = byte(rng.IntN(len(b)/page + 2))
	}
	return b, at
}

// Bytes overwritten inside a page made bbolt panic, read until its stack overflowed, or give
// less than was stored. Now each file either gives all that was stored or an error that says
// which page or key does not fit, and is left as it was.
func TestOverwrittenBytesAreAnErrorOrHarmless(t *testing.T) {
	whole, dir := manyKeysBytes(t), t.TempDir()
	path := filepath.Join(dir, "file")
	want, err := contentOf(t, path, whole)
	if err != nil || len(want) != 399 {
		t.Fatal(len(want), err)
	}
	rounds := testsize.Runs(500, 500, 4000)
	refused := 0
	for seed := range uint64(rounds) {
		b, at := overwrite(rand.New(rand.NewPCG(seed, 1)), whole)
		got, err := contentOf(t, path, b)
		switch after, _ := os.ReadFile(path); {
		case err == nil && !maps.Equal(got, want):
			t.Fatalf("seed %d: bytes at %d (page %d) changed what the file holds, without an error", seed, at, at/os.Getpagesize())
		case err != nil && !bytes.Equal(after, b):
			t.Fatalf("seed %d: the file was changed: %v", seed, err)
		case err == nil:
			continue
		}
		refused++
		checkDamageText(t, path, err)
		if t.Failed() {
			t.Fatalf("seed %d: bytes at %d (page %d)", seed, at, at/os.Getpagesize())
		}
	}
	if refused < rounds/4 {
		t.Errorf("only %d of %d files were refused", refused, rounds)
	}
}

// checkDamageText checks that an error names the file and what is wrong with it, in words
// of this package.
func checkDamageText(t testing.TB, path string, err error) {
	t.Helper()
	for _, never := range []string{"nil pointer", "runtime error", "index out of range", "assertion", "pages contradict"} {
		if strings.Contains(err.Error(), never) {
			t.Errorf("%v", err)
		}
	}
	for _, always := range []string{replicator.ErrDurable.Error(), path} {
		if !strings.Contains(err.Error(), always) {
			t.Errorf("%v", err)
		}
	}
}
