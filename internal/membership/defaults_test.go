package membership

import (
	"testing"

	"github.com/peerage-go/peerage/internal/lint/settingstest"
)

// The page of settings states the defaults that a node fills in.
func TestDefaultsAreAsDocumented(t *testing.T) {
	const page = "../../docs/CONFIGURATION.md"
	filled := Config{}.withDefaults()
	// Members is filled in where it is used (scaleWithMembers).
	settingstest.CompareDefaults(t, page, "peerage.Config", filled, "Members")
	settingstest.CompareDefaults(t, page, "peerage.Discovery", filled.Discovery)
	if membersUsual != 200 {
		t.Errorf("the page states 200 members, the code has %d", membersUsual)
	}
}
