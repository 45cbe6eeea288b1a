package peerage

import (
	"testing"

	"github.com/peerage-go/peerage/internal/lint/settingstest"
)

// The page of settings states the defaults that New fills in. The layers below fill in those
// that are excepted here; each has a test of its own.
func TestDefaultsAreAsDocumented(t *testing.T) {
	settingstest.CompareDefaults(t, "docs/CONFIGURATION.md", "peerage.Config", Config{}.withDefaults(),
		"Listen", "SettleAfter", "ReformAfter", "Members", "Ping", "Lease", "RemoveAfter", "DriftPPM",
		"Capacity", "MinMembers", "RememberedPerSecond")
}
