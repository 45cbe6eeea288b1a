package discovery

import (
	"bytes"
	"slices"
	"sync"

	"github.com/hashicorp/memberlist"
)

// keyring changes memberlist's keyring, whose readers take no lock: they keep the slice
// of keys that was current when they began.
type keyring struct {
	mu   sync.Mutex
	ring *memberlist.Keyring
}

func (k *keyring) createRing(keys [][]byte) (err error) {
	keys = CopyKeys(keys)
	k.ring, err = memberlist.NewKeyring(keys, keys[0])
	return err
}

// inUse returns the keys without copying them, nil without encryption. They must not be
// changed.
func (k *keyring) inUse() [][]byte {
	if k.ring == nil {
		return nil
	}
	return k.ring.GetKeys()
}

func (k *keyring) copyOfKeys() [][]byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return CopyKeys(k.ring.GetKeys())
}

// replaceKeys replaces the ring's keys; the first one encrypts.
//
// memberlist's RemoveKey closes the gap in the same slice that concurrent readers iterate
// over: a reader could miss a key that stays. Only the last key leaves no gap. So the
// keys that stay are moved to the front first, which makes each the primary for an
// instant; then the rest is removed, from the end; then the new ones are added. All nodes
// have the keys that stay, provided the operator goes step by step; a new key is never
// used before its turn.
//
// Errors are ignored: they concern keys of a wrong size and missing keys, and keys
// contains neither.
func (k *keyring) replaceKeys(keys [][]byte) {
	keys = CopyKeys(keys)
	k.mu.Lock()
	defer k.mu.Unlock()
	first := keys[0]
	_ = k.ring.AddKey(first)
	_ = k.ring.UseKey(first)
	if old := k.ring.GetKeys(); !trailing(old, keys) {
		for _, key := range slices.Backward(slices.Clone(old)) {
			if containsKey(keys, key) {
				_ = k.ring.UseKey(key)
			}
		}
		_ = k.ring.UseKey(first)
	}
	for _, key := range slices.Backward(slices.Clone(k.ring.GetKeys())) {
		if !containsKey(keys, key) {
			_ = k.ring.RemoveKey(key)
		}
	}
	for _, key := range keys {
		_ = k.ring.AddKey(key)
	}
}

// trailing reports whether the keys of old that do not stay are the last ones.
func trailing(old, stay [][]byte) bool {
	gone := false
	for _, key := range old {
		if !containsKey(stay, key) {
			gone = true
		} else if gone {
			return false
		}
	}
	return true
}

func containsKey(keys [][]byte, key []byte) bool {
	return slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, key) })
}

// CopyKeys returns a copy of keys.
func CopyKeys(keys [][]byte) [][]byte {
	var out [][]byte
	for _, k := range keys {
		out = append(out, bytes.Clone(k))
	}
	return out
}
