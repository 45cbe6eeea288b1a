package namespace

import (
	"strings"
	"testing"
)

// A process whose mounts others see gets no disks.
func TestADiskNeedsMountsOfItsOwn(t *testing.T) {
	here, err := theseNamespaces()
	if err != nil {
		t.Fatal(err)
	}
	if err := PrivateMounts(here); err == nil || !strings.Contains(err.Error(), "names a namespace") {
		t.Errorf("disks in %s: %v", here, err)
	}
}

// The rules of a wall must never reach the network that others use.
func TestAWallNeedsANetworkOfItsOwn(t *testing.T) {
	here, err := theseNamespaces()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewWall(t.Context(), here, 2); err == nil || !strings.Contains(here, "net:") || !strings.Contains(err.Error(), "names a namespace") {
		t.Errorf("a wall in %s: %v", here, err)
	}
}

// Each direction between two of 64 places has a mark of its own.
func TestPathsHaveMarksOfTheirOwn(t *testing.T) {
	seen := map[int]Path{}
	for from := range 64 {
		for to := range 64 {
			p := Path{From: from, To: to}
			if other, twice := seen[p.mark()]; twice {
				t.Fatalf("%v and %v share the mark %d", other, p, p.mark())
			}
			seen[p.mark()] = p
		}
	}
}
