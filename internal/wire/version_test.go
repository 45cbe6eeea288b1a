package wire_test

import (
	"testing"

	"github.com/peerage-go/peerage/internal/wire"
)

func TestVersionsInCommon(t *testing.T) {
	for _, c := range []struct {
		a, b, want wire.Versions
		some       bool
	}{
		{wire.Versions{Oldest: 3, Newest: 3}, wire.Versions{Oldest: 3, Newest: 3}, wire.Versions{Oldest: 3, Newest: 3}, true},
		{wire.Versions{Oldest: 3, Newest: 5}, wire.Versions{Oldest: 4, Newest: 7}, wire.Versions{Oldest: 4, Newest: 5}, true},
		{wire.Versions{Oldest: 3, Newest: 4}, wire.Versions{Oldest: 4, Newest: 9}, wire.Versions{Oldest: 4, Newest: 4}, true},
		{wire.Versions{Oldest: 3, Newest: 4}, wire.Versions{Oldest: 5, Newest: 9}, wire.Versions{}, false},
	} {
		for _, pair := range [][2]wire.Versions{{c.a, c.b}, {c.b, c.a}} {
			if got, some := pair[0].Common(pair[1]); some != c.some || some && got != c.want {
				t.Errorf("%v and %v have %v, %v in common", pair[0], pair[1], got, some)
			}
		}
	}
	if a, b := (wire.Versions{Oldest: 3, Newest: 3}), (wire.Versions{Oldest: 3, Newest: 4}); a.String() != "3" || b.String() != "3 to 4" {
		t.Errorf("%v, %v", a, b)
	}
}
