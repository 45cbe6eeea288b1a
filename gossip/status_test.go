package gossip

import (
	"strconv"
	"testing"
)

func TestRepetitionsPushNothingOut(t *testing.T) {
	var r recentList
	r.add(Recent{Kind: "first"})
	for range 10 * recentMax {
		for _, who := range []string{"a", "b", "c"} {
			r.add(Recent{Kind: "denied", Detail: who})
		}
	}
	got := r.list()
	if len(got) != 4 || got[0].Kind != "first" || got[3].Repeated != 10*recentMax-1 {
		t.Errorf("the list is %v", got)
	}
	for i := range 3 * recentMax {
		r.add(Recent{Kind: strconv.Itoa(i)})
		r.add(Recent{Kind: strconv.Itoa(i)})
	}
	got = r.list()
	for i, x := range got {
		if want := strconv.Itoa(2*recentMax + i); x.Kind != want || x.Repeated != 1 {
			t.Fatalf("at %d stands %v, want %s", i, x, want)
		}
	}
	if len(got) != recentMax {
		t.Errorf("%d events", len(got))
	}
}
