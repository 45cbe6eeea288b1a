package history

import "testing"

func TestInversionsAreFound(t *testing.T) {
	told := func(node, sender, number uint64) Record {
		return Record{Op: Told, Entity: 1, Node: node, Term: 1, Seq: node, Sender: sender, Value: number}
	}
	for name, tc := range map[string]struct {
		records []Record
		want    int
	}{
		"in order, with gaps": {[]Record{told(1, 7, 1), told(1, 7, 2), told(1, 7, 9)}, 0},
		"two senders":         {[]Record{told(1, 7, 5), told(1, 8, 1), told(1, 7, 6)}, 0},
		"across a move":       {[]Record{told(1, 7, 4), told(2, 7, 5)}, 0},
		"behind its move":     {[]Record{told(1, 7, 5), told(2, 7, 4)}, 1},
		"behind a later one":  {[]Record{told(1, 7, 298), told(1, 7, 144), told(1, 7, 145), told(1, 7, 299)}, 2},
		"twice":               {[]Record{told(1, 7, 3), told(1, 7, 3)}, 1},
		"other records are not messages of a kind": {[]Record{{Op: Handled, Value: 5}, {Op: Handled, Value: 4}}, 0},
	} {
		if got := Inversions(tc.records); len(got) != tc.want {
			t.Errorf("%s: %v, want %d", name, got, tc.want)
		}
	}
}
