package route

import "testing"

func TestSortReturned(t *testing.T) {
	items := func(numbers ...uint64) (out []Item[int]) {
		for _, n := range numbers {
			out = append(out, Item[int]{number: n})
		}
		return out
	}
	for _, c := range []struct {
		back        []Item[int]
		sent        uint64
		again, lost int
	}{
		{items(), 5, 0, 0},
		{items(5), 5, 1, 0},
		{items(3, 4, 5), 5, 3, 0},
		{items(3, 5), 5, 1, 1},
		{items(3, 4), 5, 0, 2},
		{items(1, 2, 4, 5), 5, 2, 2},
	} {
		again, lost := sortReturned(c.back, c.sent)
		if len(again) != c.again || len(lost) != c.lost {
			t.Errorf("back %v of %d: %d again, %d lost; want %d, %d", c.back, c.sent, len(again), len(lost), c.again, c.lost)
		}
	}
}
