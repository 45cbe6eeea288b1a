package sharding

import (
	"testing"

	"github.com/peerage-go/peerage/internal/lint/settingstest"
)

// The page of settings states the defaults that Register and NewReliable fill in.
func TestDefaultsAreAsDocumented(t *testing.T) {
	const page = "../docs/CONFIGURATION.md"
	var typ Type[string, string]
	typ.withDefaults()
	// The coordinator fills in both.
	settingstest.CompareDefaults(t, page, "sharding.Type", typ, "RebalanceInterval", "MinMembers")
	settingstest.CompareDefaults(t, page, "sharding.Limits", typ.Limits)
	settingstest.CompareDefaults(t, page, "sharding.Replicated", Replicated{Mode: Quorum}.withDefaults(), "Mode")
	settingstest.CompareDefaults(t, page, "sharding.ReliableConfig", ReliableConfig[string]{}.withDefaults())
}
