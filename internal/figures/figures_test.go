package figures

import (
	"strings"
	"testing"
)

// TestRoutesAreLabels: metrics makes a series of each route, by its name.
func TestRoutesAreLabels(t *testing.T) {
	seen := map[string]Route{}
	for r := range Routes {
		name := r.String()
		if name == "" || name != strings.ToLower(name) || strings.ContainsAny(name, " -\"") {
			t.Errorf("route %d is named %q", r, name)
		}
		if other, twice := seen[name]; twice {
			t.Errorf("routes %d and %d are both named %q", other, r, name)
		}
		seen[name] = r
	}
	for name, r := range map[string]Route{"local": RouteLocal, "remote": RouteRemote, "buffered": RouteBuffered} {
		if seen[name] != r {
			t.Errorf("route %d is named %q, want %q", r, r, name)
		}
	}
}
