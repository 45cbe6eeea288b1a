package dots

import (
	"testing"

	"pgregory.net/rapid"
)

// TestBlocksAreSets compares a block with a plain set, through both its forms.
func TestBlocksAreSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b Block
		plain := map[uint64]uint32{}
		width := rapid.Uint64Range(10, BlockLen).Draw(t, "width")
		for i := range uint32(rapid.IntRange(0, 400).Draw(t, "steps")) {
			low := rapid.Uint64Range(0, width-1).Draw(t, "low")
			if _, ok := plain[low]; !ok {
				b.Put(low, i)
				plain[low] = i
			} else if len(plain) > 1 {
				b.Drop(low)
				delete(plain, low)
			}
		}
		n := 0
		b.Each(func(low uint64, slot uint32) {
			if n++; plain[low] != slot {
				t.Fatalf("%d is in slot %d, must be %d", low, slot, plain[low])
			}
		})
		live := b.Live()
		for low := range uint64(BlockLen) {
			slot, ok := b.Get(low)
			if want, has := plain[low]; ok != has || live.Has(low) != has || has && slot != want {
				t.Fatalf("get(%d) gives %d, %v", low, slot, ok)
			}
		}
		if n != len(plain) || int(b.N) != n {
			t.Fatalf("%d dots, block says %d, must be %d", n, b.N, len(plain))
		}
	})
}
