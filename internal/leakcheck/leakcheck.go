// Package leakcheck fails the tests of a package that leave goroutines behind.
package leakcheck

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience bounds the wait for goroutines that end by themselves. memberlist's Shutdown does not
// wait for a probe in flight: its goroutine ends with the probe's interval, and on a busy machine
// later than goleak waits.
const patience = 30 * time.Second

// Run runs the tests and returns the code to exit with: that of the tests, or 1 if they passed
// and goroutines are left.
func Run(m *testing.M) int {
	code := m.Run()
	if code != 0 {
		return code
	}
	if err := await(func() error { return goleak.Find() }, time.Now().Add(patience)); err != nil {
		fmt.Fprintln(os.Stderr, "leakcheck: the tests passed, but", err)
		return 1
	}
	return 0
}

// await calls find until it returns nil or the deadline has passed, and returns its last result.
func await(find func() error, deadline time.Time) error {
	for {
		err := find() // waits for some time by itself
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
