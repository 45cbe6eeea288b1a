package demo

import (
	"errors"
	"fmt"
	"time"

	"github.com/peerage-go/peerage/internal/harness"
)

// Config holds the settings of a demo.
type Config struct {
	Nodes    int
	Counters int
	Shards   int
	Every    time.Duration
	WarmUp   time.Duration
	Between  time.Duration
	AtOnce   bool
	Enforce  bool
	// Open keeps the last process serving its dashboard until the context ends.
	Open bool
	// Command is how this program was started, for the commands to try next.
	Command string
}

// tellAfter is how long after a kill the demo tells what became of it.
func (c *Config) tellAfter() time.Duration { return min(c.Between, harness.BoundMajority) }

// killedTogether returns how many of the left processes are killed at the next instant.
func (c *Config) killedTogether(left int) int {
	if c.AtOnce {
		return left - 1
	}
	return 1
}

// Validate reports all settings out of range, by the names of their flags.
func (c *Config) Validate() error {
	var errs []error
	if c.Nodes < 2 || c.Nodes > 9 {
		errs = append(errs, fmt.Errorf("--nodes is %d: choose 2 to 9", c.Nodes))
	}
	if c.Counters < 1 || c.Counters > 10_000 {
		errs = append(errs, fmt.Errorf("--counters is %d: choose 1 to 10000", c.Counters))
	}
	if c.Shards < 1 || c.Shards > 4096 {
		errs = append(errs, fmt.Errorf("--shards is %d: choose 1 to 4096", c.Shards))
	}
	if c.Every < time.Millisecond || c.Every > time.Second {
		errs = append(errs, fmt.Errorf("--every is %v: choose 1ms to 1s", c.Every))
	}
	for name, d := range map[string]time.Duration{"warm-up": c.WarmUp, "between": c.Between} {
		if d < 100*time.Millisecond || d > 20*time.Second {
			errs = append(errs, fmt.Errorf("--%s is %v: choose 100ms to 20s", name, d))
		}
	}
	return errors.Join(errs...)
}
