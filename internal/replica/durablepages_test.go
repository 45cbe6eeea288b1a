package replica

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/testsize"
	"go.etcd.io/bbolt"
)

// pageOf returns the number of the first page of a kind in a file, with at least so many
// elements.
func pageOf(t *testing.T, b []byte, kind uint16, count int) int {
	t.Helper()
	size := os.Getpagesize()
	for id := 2; id < len(b)/size; id++ {
		p := b[id*size:]
		if binary.NativeEndian.Uint16(p[8:]) == kind && int(binary.NativeEndian.Uint16(p[10:])) >= count {
			return id
		}
	}
	t.Fatalf("no page of kind %d", kind)
	return 0
}

// Each page that does not fit is named, with what does not.
func TestPagesThatDoNotFitAreNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	d, err := OpenDurable(DurableConfig{Path: path, Owner: "c/r", Prefixes: []string{""}})
	if err != nil {
		t.Fatal(err)
	}
	var recs []replication.Item
	for i := range 300 {
		s := &crdt.ORSet[string]{}
		s.Add(1, fmt.Sprint("element ", i))
		recs = append(recs, replication.Item{Key: fmt.Sprintf("keep/%04d", i), Kind: crdt.KindORSet, Bytes: s.Append(nil)})
	}
	if err := d.writeBatch(testMemory, recs); err != nil {
		t.Fatal(err)
	}
	d.Close()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	size, order := os.Getpagesize(), binary.NativeEndian
	branch, leaf := pageOf(t, whole, branchPage, 2), pageOf(t, whole, leafPage, 20)
	m, sound := readMetas(bytes.NewReader(whole))
	if sound != 2 {
		t.Fatalf("%d sound meta records", sound)
	}
	free := int(m.freelist)
	branchAt, leafAt, freeAt := branch*size, leaf*size, free*size
	for name, c := range map[string]struct {
		page int
		what string
		at   int
		to   uint64
		bits int
	}{
		"a branch leads to itself":          {branch, "also used elsewhere", branchAt + pageHead + 8, uint64(branch), 64},
		"a branch leads to a sibling twice": {branch, "also used elsewhere", branchAt + pageHead + elementBytes + 8, order.Uint64(whole[branchAt+pageHead+8:]), 64},
		"a branch leads out of the file":    {branch, "in a file of", branchAt + pageHead + 8, 1 << 40, 64},
		"a branch leads to a head record":   {branch, "leads to page 1", branchAt + pageHead + 8, 1, 64},
		"another page":                      {leaf, "its number is that of page 77", leafAt, 77, 64},
		"another kind":                      {leaf, "of kind 0x4", leafAt + 8, 4, 16},
		"a leaf becomes a branch":           {leaf, "", leafAt + 8, branchPage, 16},
		"too many elements":                 {leaf, "declares 65535 elements", leafAt + 10, 65535, 16},
		"fewer elements":                    {leaf, "begins at", leafAt + 10, 5, 16},
		"no elements":                       {leaf, "no elements", leafAt + 10, 0, 16},
		"more pages than there are":         {leaf, "of length 4294967295", leafAt + 12, 1<<32 - 1, 32},
		"a kind of element":                 {leaf, "is of kind 0x7", leafAt + pageHead, 7, 32},
		"an offset":                         {leaf, "begins at", leafAt + pageHead + 4, 1 << 31, 32},
		"a key of no bytes":                 {leaf, "a key of 0", leafAt + pageHead + 8, 0, 32},
		"a long value":                      {leaf, "bytes, where", leafAt + pageHead + 12, 1<<32 - 1, 32},
		"the order of keys":                 {leaf, "order of keys", leafAt + int(order.Uint32(whole[leafAt+pageHead+4:])) + pageHead, 1<<64 - 1, 64},
		"a free list of another kind":       {free, "not a list of free pages", freeAt + 8, leafPage, 16},
		"a free list without end":           {free, "free pages, in", freeAt + 10, 65534, 16},
		"a long free list without end":      {free, "as free behind", freeAt + 10, 65535, 16},
		"a page in use listed as free":      {free, "", freeAt + pageHead, uint64(leaf), 64},
		"a page that is not listed":         {-1, "neither free nor in use", freeAt + 10, 0, 16},
	} {
		b := append([]byte{}, whole...)
		switch c.bits {
		case 16:
			order.PutUint16(b[c.at:], uint16(c.to))
		case 32:
			order.PutUint32(b[c.at:], uint32(c.to))
		default:
			order.PutUint64(b[c.at:], c.to)
		}
		_, err := contentOf(t, path, b)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		checkDamageText(t, path, err)
		page := fmt.Sprintf("page %d: ", c.page)
		if c.page < 0 {
			page = "page "
		}
		for _, want := range []string{page, c.what, "move it aside", "the other members then fill this node"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, without %q", name, err, want)
			}
		}
	}
}

// What this package writes is never taken for damaged, whatever was written, deleted and
// set aside before.
func TestSoundFilesPassTheCheckOfPages(t *testing.T) {
	rounds := testsize.Runs(2, 2, 6)
	for seed := range uint64(rounds) {
		rng := rand.New(rand.NewPCG(seed, 2))
		path := filepath.Join(t.TempDir(), "file")
		want, keys := map[string]string{}, 1+rng.IntN(1000)
		for range 8 {
			d := openAll(t, path)
			got := map[string]string{}
			if err := d.readRecords(func(r replication.Item) error { got[r.Key] = string(r.Bytes); return nil }); err != nil || !maps.Equal(got, want) {
				t.Fatalf("seed %d: %d keys, not %d: %v", seed, len(got), len(want), err)
			}
			for range 1 + rng.IntN(6) {
				gone := randomGone(rng, want)
				if err := d.writeBatch(testMemory, randomRecords(rng, want, keys), gone...); err != nil {
					t.Fatal(err)
				}
			}
			if rng.IntN(8) == 0 {
				if _, err := d.SetAside(); err != nil {
					t.Fatal(err)
				}
				clear(want)
			}
			d.Close()
		}
	}
}

func randomRecords(rng *rand.Rand, want map[string]string, keys int) (recs []replication.Item) {
	for range rng.IntN(keys) {
		key := fmt.Sprintf("keep/%0*d", 1+rng.IntN(40), rng.IntN(keys))
		v := &textMap{}
		for range 1 + rng.IntN(1+rng.IntN(1+rng.IntN(400))) {
			v.Set("name", fmt.Sprint(rng.IntN(1000)), crdt.Stamp{Time: rng.Uint64N(1 << 40), Node: 1})
			v.Delete(fmt.Sprint("gone", rng.IntN(1000)), crdt.Stamp{Time: 1})
		}
		rec := replication.Item{Key: key, Kind: crdt.KindLWWMap, Bytes: v.Append(nil)}
		recs, want[key] = append(recs, rec), string(rec.Bytes)
	}
	return recs
}

// randomGone takes keys out of want: some, most, or all.
func randomGone(rng *rand.Rand, want map[string]string) (gone []string) {
	part := []float64{0, 0.1, 0.9, 1}[rng.IntN(4)]
	for key := range want {
		if rng.Float64() < part {
			gone = append(gone, key)
		}
	}
	for _, key := range gone {
		delete(want, key)
	}
	return gone
}

// Bytes flipped in a record at the head of the file made bbolt take the other one: the state
// before the last write, which had been acknowledged, without an error.
func TestDamagedHeadRecordIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	whole := writtenFile(t, path, func(d *Durable) (err error) {
		for gen := range uint64(2) {
			err = errors.Join(err, d.writeBatch(testMemory, []replication.Item{{Key: "keep/x", Gen: gen + 1}}))
		}
		return err
	})
	both := bytes.Clone(whole)
	for page := range 2 {
		for at := range metaBytes {
			b := bytes.Clone(whole)
			b[page*os.Getpagesize()+metaAt+at] ^= 1 << (at % 8)
			got, err := contentOf(t, path, b)
			if want := fmt.Sprintf("page %d: its head record", page); err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("byte %d of head record %d: %v, %v", at, page, got, err)
			}
			checkDamageText(t, path, err)
		}
		both[page*os.Getpagesize()+metaAt+20]++
	}
	if _, err := contentOf(t, path, both); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Error(err)
	}
}

// A file keeps its header and the agreed deletions, also if those are not written again.
// A file of another format, and names that this package does not write, are refused.
func TestFormatOfDurableFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	whole := writtenFile(t, path, func(d *Durable) error {
		header := testMemory
		header.Agreed = nil
		return errors.Join(d.writeBatch(testMemory, nil), d.writeBatch(header, nil))
	})
	put := func(entry, value []byte) func(tx *bbolt.Tx) error {
		return func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put(entry, value) }
	}
	for what, f := range map[string]func(tx *bbolt.Tx) error{
		"":                                    func(*bbolt.Tx) error { return nil },
		`entry "memory": wrong checksum`:      put(memoryKey, appendMemory(nil, testMemory)),
		`entry "agreed": wrong checksum`:      put(agreedKey, appendAgreed(nil, testMemory.Agreed)),
		`entry "agreed": `:                    put(agreedKey, sealed("agreed", []byte{200})),
		`of another format: "durable keys 3"`: put(formatKey, []byte("durable keys 3")),
		`unknown entry "nemory"`:              put([]byte("nemory"), nil),
		`unknown bucket "bges"`:               func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("bges")); return err },
	} {
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		d := openAll(t, path)
		if m, err := d.memory(); err != nil || !reflect.DeepEqual(m, testMemory) {
			t.Errorf("%+v, %v", m, err)
		}
		if err := d.db.Update(f); err != nil {
			t.Fatal(err)
		}
		d.Close()
		d, err := OpenDurable(DurableConfig{Path: path, Owner: "c/r", Prefixes: []string{""}})
		switch {
		case what == "" && err != nil, what != "" && (err == nil || !strings.Contains(err.Error(), what)):
			t.Errorf("%v, not %q", err, what)
		case err == nil:
			d.Close()
		}
	}
}
