package testsize

import "testing"

func TestSizes(t *testing.T) {
	for value, all := range map[string]bool{"": false, "1": true} {
		t.Setenv(Env, value)
		want := 2
		switch {
		case testing.Short():
			want, all = 1, false
		case all:
			want = 3
		}
		if got := Runs(1, 2, 3); got != want || Full() != all {
			t.Errorf("with %s=%q: %d, full %v; want %d, %v", Env, value, got, Full(), want, all)
		}
	}
}
