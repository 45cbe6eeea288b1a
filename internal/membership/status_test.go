package membership

import (
	"strconv"
	"testing"
)

func TestRepetitionsPushNothingOut(t *testing.T) {
	var r recentList
	r.addRecent(Recent{Kind: "first"})
	for range 10 * recentMax {
		for _, who := range []string{"a", "b", "c"} {
			r.addRecent(Recent{Kind: "denied", Detail: who})
		}
	}
	got := r.listRecent()
	if len(got) != 4 || got[0].Kind != "first" || got[3].Repeated != 10*recentMax-1 {
		t.Errorf("the list is %v", got)
	}
	for i := range 3 * recentMax {
		r.addRecent(Recent{Kind: strconv.Itoa(i)})
		r.addRecent(Recent{Kind: strconv.Itoa(i)})
	}
	got = r.listRecent()
	for i, x := range got {
		if want := strconv.Itoa(2*recentMax + i); x.Kind != want || x.Repeated != 1 {
			t.Fatalf("at %d stands %v, want %s", i, x, want)
		}
	}
	if len(got) != recentMax {
		t.Errorf("%d events", len(got))
	}
}
