package discovery

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

func testKey(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 32) }

func testKeys(ids ...int) [][]byte {
	var out [][]byte
	for _, i := range ids {
		out = append(out, testKey(i))
	}
	return out
}

// withKeys returns settings of a node whose gossip is encrypted.

// From any ring to any other and back, keys that stay are always present; readers take no
// lock, as memberlist's.
func TestRotationNeverMissesAKeyThatStays(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 100 {
		before, after := testKeys(rng.Perm(6)[:1+rng.IntN(5)]...), testKeys(rng.Perm(6)[:1+rng.IntN(5)]...)
		var k keyring
		if err := k.createRing(before); err != nil {
			t.Fatal(err)
		}
		var stay [][]byte
		for _, key := range before {
			if containsKey(after, key) {
				stay = append(stay, key)
			}
		}
		primaries := append([][]byte{before[0], after[0]}, stay...)
		began, stop := make(chan struct{}), make(chan struct{})
		var reader sync.WaitGroup
		reader.Go(func() { readRing(t, k.ring.GetKeys, stay, primaries, began, stop) })
		<-began
		for range 20 {
			k.replaceKeys(after)
			if got := k.copyOfKeys(); !bytes.Equal(got[0], after[0]) || len(got) != len(after) ||
				slices.ContainsFunc(after, func(key []byte) bool { return !containsKey(got, key) }) {
				t.Errorf("want %v, got %v", after, got)
			}
			k.replaceKeys(before)
		}
		close(stop)
		reader.Wait()
	}
}

// readRing searches for keys as memberlist does when it decrypts, until stop.
func readRing(t *testing.T, ring func() [][]byte, stay, primaries [][]byte, began, stop chan struct{}) {
	for first := true; ; first = false {
		keys := ring()
		for _, key := range stay {
			if !containsKey(keys, key) {
				t.Errorf("a key that stays is missing from %v", keys)
			}
		}
		if !containsKey(primaries, keys[0]) {
			t.Errorf("%v encrypts before its turn", keys[0][0])
		}
		if first {
			close(began)
		}
		select {
		case <-stop:
			return
		default:
		}
	}
}
