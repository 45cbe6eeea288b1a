package load

import (
	"maps"
	"testing"
)

func TestTheNewestElementsOfEachProcess(t *testing.T) {
	got := newestOf([]string{element(0xabc, 2), element(0xabc, 11), element(7, 3), "no element"})
	if want := map[uint64]uint32{0xabc: 11, 7: 3}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
