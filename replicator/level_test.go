package replicator

import "testing"

func TestLevelNeed(t *testing.T) {
	for _, c := range []struct {
		level Level
		n     int
		want  int
	}{
		{Local, 0, 1}, {Local, 5, 1},
		{To(0), 5, 1}, {To(1), 5, 1}, {To(3), 5, 3}, {To(5), 3, 5},
		{All, 1, 1}, {All, 7, 7},
		{Majority(0, 0), 1, 1}, {Majority(0, 0), 2, 2}, {Majority(0, 0), 3, 2}, {Majority(0, 0), 4, 3}, {Majority(0, 0), 5, 3}, {Majority(0, 0), 9, 5},
		{Majority(0, 5), 3, 3}, {Majority(0, 5), 6, 5}, {Majority(0, 5), 9, 5}, {Majority(0, 5), 11, 6},
		{Majority(1, 0), 3, 3}, {Majority(1, 0), 5, 4}, {Majority(1, 0), 9, 6}, {Majority(9, 0), 9, 9},
		{Majority(2, 5), 5, 5}, {Majority(2, 5), 9, 7}, {Majority(-3, 0), 5, 3},
	} {
		if got := c.level.Need(c.n); got != c.want {
			t.Errorf("%v of %d: need %d, want %d", c.level, c.n, got, c.want)
		}
	}
}

func TestLevelNames(t *testing.T) {
	for level, want := range map[Level]string{Local: "local", To(3): "to(3)", All: "all", Majority(0, 0): "majority", Majority(1, 5): "majority(+1, min 5)"} {
		if level.String() != want {
			t.Errorf("%q, want %q", level, want)
		}
	}
}
