package region

import (
	"slices"
	"testing"

	"github.com/peerage-go/peerage/sharding/protocol"
)

// A region that is refused says why, once, is not registered, and goes on asking
// until it is.
func TestRefusedRegionsSayWhyOnce(t *testing.T) {
	b := newBench(t, &Floors{})
	refusal := &protocol.RegisterRefused{Conflict: protocol.Conflict{Setting: "role", Here: `"a"`, There: `"b"`}}
	b.hear(&protocol.RegisterAck{Head: b.head()})
	said := func() int {
		n := 0
		for _, e := range b.trace {
			if e.Kind == TraceRefused && e.Detail == `role is "a" here, "b" there` {
				n++
			}
		}
		return n
	}
	if b.hear(refusal); said() != 1 || b.c.Registered() {
		t.Errorf("said %d times, registered %v", said(), b.c.Registered())
	}
	if b.hear(refusal); said() > 0 {
		t.Error("said again")
	}
	b.now = b.c.Deadline()
	b.step(Tick{})
	want[*protocol.Register](b)
	if b.hear(&protocol.RegisterAck{Head: b.head()}); !b.c.Registered() {
		t.Error("not registered in the end")
	}
}

// A node that does not run the type says so; one that does tells its settings.
func TestRegistersWithItsSettings(t *testing.T) {
	for _, foreign := range []bool{false, true} {
		b := newBench(t, &Floors{})
		b.c = New(Config{Self: self, Type: "counter", Shards: 8, Capacity: 3, Foreign: foreign}, &Floors{})
		b.view(boss, self)
		got := want[*protocol.Register](b).Settings
		if foreign != (got == protocol.Settings{}) || !foreign && !slices.Equal([]uint32{got.Shards, got.Capacity}, []uint32{8, 3}) {
			t.Errorf("foreign %v: %+v", foreign, got)
		}
	}
}
