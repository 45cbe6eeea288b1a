package driver

import (
	"slices"
	"testing"
)

func TestALoopbackDeliversWhatStepsAdd(t *testing.T) {
	var l Loopback[int]
	l.Deliver(func(int) { t.Error("an empty loopback delivers") })
	var got []int
	l.Add(3)
	l.Add(1)
	l.Deliver(func(n int) {
		if got = append(got, n); n > 1 {
			l.Add(n - 1)
		}
	})
	if want := []int{3, 1, 2, 1}; !slices.Equal(got, want) {
		t.Errorf("delivered %v, want %v", got, want)
	}
	l.Deliver(func(n int) { t.Errorf("%d is delivered again", n) })
}
