package shared

import (
	"testing"

	"pgregory.net/rapid"
)

// TestTableIsAMap compares the hash table with a Go map, with hashes that collide.
func TestTableIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table Table
		plain := map[uint32]uint32{} // slot -> hash
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			slot := rapid.Uint32Range(0, 60).Draw(t, "slot")
			hash, ok := plain[slot]
			switch {
			case ok && rapid.Bool().Draw(t, "move"):
				to := slot + 1000
				table.Move(hash, slot, to)
				table.Move(hash, to, slot)
			case ok:
				table.Drop(hash, slot)
				delete(plain, slot)
			default:
				hash = rapid.SampledFrom([]uint32{0, 1, 7, 8, 15, 0xffffffff, 0xfffffff8}).Draw(t, "hash")
				table.Put(hash, slot)
				plain[slot] = hash
			}
			if table.N != len(plain) {
				t.Fatalf("%d entries, must be %d", table.N, len(plain))
			}
			for s, h := range plain {
				if table.index(h, s) < 0 {
					t.Fatalf("slot %d with hash %x is lost", s, h)
				}
			}
		}
	})
}
