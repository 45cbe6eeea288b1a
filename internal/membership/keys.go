package membership

import (
	"bytes"
	"slices"
	"sync"

	"github.com/hashicorp/memberlist"
	"github.com/peerage-go/peerage/gossip"
)

// RotateKeys replaces the keys that encrypt memberlist's gossip: the first encrypts
// from now on, all decrypt. This node never encrypts with a key that is neither the old
// nor the new first one, and never lacks a key that was in use before and stays. No
// datagram is lost when a new key is distributed in three steps, each done on every node
// before the next begins:
//
//	RotateKeys({old, new})   every node decrypts with the new key
//	RotateKeys({new, old})   every node encrypts with it
//	RotateKeys({new})        the old key is no longer valid
//
// Stats.Undecryptable grows if a node was left out. A node that gossips with a wrong key
// stays a member: memberlist only helps to find nodes.
//
// It fails with a *ConfigError, changing nothing, or with ErrNoKeys: encryption
// cannot be turned on or off in a running node. The keys are copied. They are those
// of this incarnation; SecretKeys hands them to the next one. It does not block.
func (n *Node) RotateKeys(keys [][]byte) error {
	if err := CheckKeys(keys); err != nil {
		return err
	}
	switch {
	case len(n.cfg.SecretKeys) == 0:
		return gossip.ErrNoKeys
	case n.discovery == nil:
		return nil // there is no gossip
	}
	n.discovery.keyring.replaceKeys(keys)
	n.inbox.putInput(call(func(l *loop) {
		l.keys.onRotation(&l.acts)
		l.publishKeys()
	}))
	n.recordEvent("keys rotated", 0, 0, "", false)
	return nil
}

// CheckKeys returns nil if RotateKeys could take keys, or a *ConfigError that names
// what is wrong with them, without the keys.
func CheckKeys(keys [][]byte) error {
	var e ConfigError
	cfg := Config{SecretKeys: keys}
	cfg.validateKeys(&e)
	e.checkSetting(len(keys) > 0, "SecretKeys", 0, "encryption cannot be turned off in a running node")
	if len(e.Problems) > 0 {
		return &e
	}
	return nil
}

// SecretKeys returns a copy of the present keys, with which the next incarnation must
// start. nil without encryption.
func (n *Node) SecretKeys() [][]byte {
	if n.discovery == nil || n.discovery.keyring.ring == nil {
		return copyKeys(n.cfg.SecretKeys)
	}
	return n.discovery.keyring.copyOfKeys()
}

// keyring changes memberlist's keyring, whose readers take no lock: they keep the slice
// of keys that was current when they began.
type keyring struct {
	mu   sync.Mutex
	ring *memberlist.Keyring
}

func (k *keyring) createRing(keys [][]byte) (err error) {
	keys = copyKeys(keys)
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
	return copyKeys(k.ring.GetKeys())
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
	keys = copyKeys(keys)
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

func copyKeys(keys [][]byte) [][]byte {
	var out [][]byte
	for _, k := range keys {
		out = append(out, bytes.Clone(k))
	}
	return out
}
