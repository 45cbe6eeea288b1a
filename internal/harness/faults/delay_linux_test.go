package faults

import (
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/harness/fleet"
	"github.com/peerage-go/peerage/internal/harness/namespace"
	"github.com/peerage-go/peerage/internal/harness/namespace/namespacetest"
)

// A delay that holds no packet but the datagram of its own measurement has no effect: the
// stand-ins send each other nothing.
func TestADelayWithoutPacketsHasNoEffect(t *testing.T) {
	namespacetest.Enter(t)
	in := newInjector(t, 2, 1, func(f *fleet.Fleet) {
		var err error
		if f.Wall, err = namespace.NewWall(t.Context(), "another", 2); err != nil {
			t.Fatal(err)
		}
	})
	r, err := in.Play(t.Context(), Delay)
	if err != nil || strings.Contains(r.How, "not possible") || len(r.Places) != 1 {
		t.Fatalf("%+v: %v", r, err)
	}
	if d := r.Delay; r.TookEffect || !r.KeepsMemory || d.Packets == 0 || d.Packets > 2 || d.DuringMS < 50 || r.HeldMS < 300 {
		t.Errorf("%+v: %+v", r, d)
	}
	// Here the device exists already, so that none can be made.
	first, err := in.Fleet.Wall.DelayPaths(t.Context(), namespace.Delay{Base: time.Millisecond}, pathsOf([]int{0}, []int{1}, true))
	if err != nil {
		t.Fatal(err)
	}
	if r, err = in.Play(t.Context(), Delay); err != nil || r.TookEffect || !strings.Contains(r.How, "not possible here: making the TUN device") {
		t.Errorf("%+v: %v", r, err)
	}
	if _, err := first.End(t.Context()); err != nil {
		t.Error(err)
	}
}
