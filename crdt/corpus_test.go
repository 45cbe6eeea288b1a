package crdt

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestCorpusIsThere keeps a few seeds of the fuzz targets in the repository: with
// -rewrite it writes them.
func TestCorpusIsThere(t *testing.T) {
	for i, v := range samples(t) {
		b := v.Append(nil)
		seed := fmt.Sprintf("go test fuzz v1\nbyte('\\x%02x')\n[]byte(%q)\n", byte(v.Kind()), b)
		keep(t, "FuzzDecode", i, seed)
		keep(t, "FuzzJoinDecoded", i, seed+fmt.Sprintf("[]byte(%q)\n", b[:len(b)/2]))
		keep(t, "FuzzScript", i, fmt.Sprintf("go test fuzz v1\nbyte('\\x%02x')\n[]byte(%q)\n", i, randomScript(uint64(100+i), 60)))
	}
}

func keep(t *testing.T, target string, i int, seed string) {
	t.Helper()
	path := filepath.Join("testdata", "fuzz", target, fmt.Sprintf("seed%02d", i))
	if *rewrite {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(seed), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("%v: run with -rewrite", err)
	}
}
