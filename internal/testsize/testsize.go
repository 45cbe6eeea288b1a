// Package testsize sets how long the random campaigns of the tests are. A user who runs
// `go test ./...` waits for a sample of each. CI plays them in full, as one should before a
// change of a core is committed.
package testsize

import (
	"os"
	"testing"
)

// Env makes tests play their campaigns in full if it is set to anything.
const Env = "PEERAGE_CAMPAIGN"

// Runs returns how many runs a campaign has: few in short mode, in which the race detector makes
// each one slow, all if Env is set, and otherwise a sample.
func Runs(few, sample, all int) int {
	switch {
	case testing.Short():
		return few
	case Full():
		return all
	}
	return sample
}

// OnlyFull skips a test that only CI plays: it runs if Env is set, and this is not short mode.
// A test in internal/lint checks that a command of .ci/run plays each test that calls it.
func OnlyFull(t testing.TB) {
	t.Helper()
	if !Full() {
		t.Skip("CI plays it; to play it here, set " + Env + "=1, without -short")
	}
}

// Full reports whether campaigns are played in full: Env is set, and this is not short mode.
func Full() bool { return os.Getenv(Env) != "" && !testing.Short() }
