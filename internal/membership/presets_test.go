package membership

import (
	"time"

	"github.com/peerage-go/peerage/internal/clock"
)

// localConfig is lanConfig with shorter intervals of discovery, for nodes of one host.
func localConfig() Config {
	c := lanConfig()
	c.SettleAfter = 500 * time.Millisecond
	c.Discovery.ProbeInterval = 500 * time.Millisecond
	c.Discovery.GossipInterval = 100 * time.Millisecond
	c.Discovery.RejoinInterval = time.Second
	return c
}

// testConfig is localConfig with a quick ReformAfter, on the clock that testing/synctest
// drives. Call it inside the bubble.
func testConfig() Config {
	c := localConfig()
	c.ReformAfter = 5 * time.Second
	c.Clock = clock.Runtime()
	return c
}

// TestConfig is testConfig, for the examples of package membership_test.
var TestConfig = testConfig
