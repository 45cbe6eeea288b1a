package peeragetest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
)

// seedVariable is the environment variable that sets the seed.
const seedVariable = "PEERAGETEST_SEED"

// chooseSeed returns the seed of the environment, or a random one, and logs it.
func chooseSeed(t testing.TB) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("peeragetest: %s is not a number: %q", seedVariable, text)
		}
	}
	t.Logf("peeragetest: seed %d; %s=%d repeats it", seed, seedVariable, seed)
	return seed
}

// newRand returns one of the sources that a seed feeds.
func newRand(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

// inBubble reports whether the caller is in a bubble of testing/synctest: outside, Wait
// panics.
func inBubble() (yes bool) {
	defer func() { yes = recover() == nil }()
	synctest.Wait()
	return
}
