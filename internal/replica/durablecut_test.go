package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/replicator"
)

// durableBytes returns a file of durable keys of many pages.
func durableBytes(t testing.TB) []byte {
	t.Helper()
	return writtenFile(t, filepath.Join(t.TempDir(), "whole"), func(d *Durable) error {
		for i := range 20 {
			s := &crdt.ORSet[string]{}
			for j := range 200 {
				s.Add(1, fmt.Sprint("element ", i, j))
			}
			if err := d.writeBatch(replication.Memory{}, []replication.Item{{Key: fmt.Sprint("keep/", i), Kind: crdt.KindORSet, Bytes: s.Append(nil)}}); err != nil {
				return err
			}
		}
		return nil
	})
}

// openAll opens a file of which every key is durable.
func openAll(t testing.TB, path string) *Durable {
	t.Helper()
	d, err := OpenDurable(DurableConfig{Path: path, Owner: "c/r", Prefixes: []string{""}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// writtenFile writes a file and returns its bytes.
func writtenFile(t testing.TB, path string, write func(d *Durable) error) []byte {
	t.Helper()
	d := openAll(t, path)
	if err := write(d); err != nil {
		t.Fatal(err)
	}
	d.Close()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return whole
}

// checkDamaged opens a file of these bytes and checks that an error says which file it is
// and what is wrong with it, in words of this package.
func checkDamaged(t testing.TB, path string, b []byte) error {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := OpenDurable(DurableConfig{Path: path, Owner: "c/r", Prefixes: []string{""}, OpenWait: time.Millisecond})
	if err == nil {
		d.Close()
		return nil
	}
	for _, never := range []string{"nil pointer", "runtime error", "index out of range"} {
		if strings.Contains(err.Error(), never) {
			t.Errorf("%d bytes: %v", len(b), err)
		}
	}
	if !errors.Is(err, replicator.ErrDurable) || !strings.Contains(err.Error(), path) {
		t.Errorf("%d bytes: %v", len(b), err)
	}
	return err
}

// A file that was cut, as by a disk that was full when it was copied, gave "invalid memory
// address or nil pointer dereference" as its error.
func TestTruncatedFilesSayWhatIsMissing(t *testing.T) {
	whole, dir := durableBytes(t), t.TempDir()
	page, cuts := os.Getpagesize(), 0
	for cut := page; cut < len(whole); cut += page / 2 {
		err := checkDamaged(t, filepath.Join(dir, fmt.Sprint("cut", cut)), whole[:cut])
		if err == nil {
			continue // what is missing was reserved for growth
		}
		cuts++
		if cut >= page+metaAt+metaBytes && !strings.Contains(err.Error(), fmt.Sprintf("truncated: it ends after %d bytes", cut)) {
			t.Errorf("cut after %d of %d: %v", cut, len(whole), err)
		}
	}
	if cuts < 10 {
		t.Errorf("only %d cuts were noticed", cuts)
	}
}

// FuzzDurableFile opens files that were cut, in which blocks were never written, and in
// which eight bytes at two places were overwritten.
func FuzzDurableFile(f *testing.F) {
	whole := manyKeysBytes(f)
	want, err := contentOf(f, filepath.Join(f.TempDir(), "whole"), whole)
	if err != nil {
		f.Fatal(err)
	}
	const none = 1 << 31
	f.Add(uint32(len(whole)/2), uint32(0), uint32(0), uint32(none), uint64(0), uint32(none), uint64(0))
	f.Add(uint32(len(whole)), uint32(3), uint32(1), uint32(none), uint64(0), uint32(none), uint64(0))
	f.Add(uint32(len(whole)), uint32(8), uint32(20), uint32(none), uint64(0), uint32(none), uint64(0))
	for at := os.Getpagesize() * 2; at < len(whole); at += os.Getpagesize() * 9 {
		f.Add(uint32(len(whole)), uint32(0), uint32(0), uint32(at), uint64(7), uint32(at+24), uint64(7))
	}
	f.Fuzz(func(t *testing.T, cut, block, blocks, at1 uint32, to1 uint64, at2 uint32, to2 uint64) {
		b := append([]byte{}, whole[:min(int(cut), len(whole))]...)
		const size = 512
		from := min(int(block)*size, len(b))
		clear(b[from:min(from+int(blocks%64)*size, len(b))])
		for at, to := range map[uint32]uint64{at1: to1, at2: to2} {
			if int64(at)+8 <= int64(len(b)) {
				binary.LittleEndian.PutUint64(b[at:], to)
			}
		}
		path := filepath.Join(t.TempDir(), "f")
		got, err := contentOf(t, path, b)
		switch {
		case err != nil:
			checkDamageText(t, path, err)
		case !maps.Equal(got, want):
			t.Error("the file holds something else, without an error")
		}
	})
}
