package gossip

import (
	"bytes"
	"slices"
	"sync"

	"github.com/hashicorp/memberlist"
)

// RotateKeys replaces the keys that encrypt memberlist's gossip: the first encrypts
// from now on, all decrypt. At no moment does this node encrypt with a key that is
// neither the old nor the new first one, nor miss a key that was in use before and
// stays. Nobody misses a word when a new key goes round in three steps, each done on
// every node before the next begins:
//
//	RotateKeys({old, new})   everybody understands the new key
//	RotateKeys({new, old})   everybody speaks it
//	RotateKeys({new})        the old one is worth nothing any more
//
// Stats.Undecryptable tells whether somebody was left behind. A node that gossips
// with a wrong key stays a member: memberlist only helps to find nodes.
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
		return ErrNoKeys
	case n.discovery == nil:
		return nil // nothing is gossiped
	}
	n.discovery.keyring.rotate(keys)
	n.inbox.put(call(func(l *loop) {
		l.keys.rotated(&l.acts)
		l.publishKeys()
	}))
	n.record("keys rotated", 0, 0, "", false)
	return nil
}

// CheckKeys returns nil if RotateKeys could take keys, or a *ConfigError that names
// what is wrong with them, without the keys.
func CheckKeys(keys [][]byte) error {
	var e ConfigError
	cfg := Config{SecretKeys: keys}
	cfg.validateKeys(&e)
	e.check(len(keys) > 0, "SecretKeys", 0, "encryption cannot be turned off in a running node")
	if len(e.Problems) > 0 {
		return &e
	}
	return nil
}

// SecretKeys returns a copy of the keys as they stand: what the next incarnation
// starts with. nil without encryption.
func (n *Node) SecretKeys() [][]byte {
	if n.discovery == nil || n.discovery.keyring.ring == nil {
		return copyKeys(n.cfg.SecretKeys)
	}
	return n.discovery.keyring.keys()
}

// keyring changes memberlist's, whose readers take no lock: they keep the slice of
// keys that stood when they began.
type keyring struct {
	mu   sync.Mutex
	ring *memberlist.Keyring
}

func (k *keyring) open(keys [][]byte) (err error) {
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

func (k *keyring) keys() [][]byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return copyKeys(k.ring.GetKeys())
}

// rotate makes keys the ring's, the first one first.
//
// memberlist's RemoveKey closes the gap in the very slice that its readers may be
// walking through: under their eyes a key that stays would vanish. Only the last key
// leaves no gap. So the keys that stay are moved to the front first, which means to
// make each the primary for an instant; then the others go, from the end; then the
// new ones come. Keys that stay are known to all nodes, as far as the operator goes
// step by step; a new key is never used before its turn.
//
// Its errors are about keys of a wrong size, and such as are not there: neither is
// among keys.
func (k *keyring) rotate(keys [][]byte) {
	keys = copyKeys(keys)
	k.mu.Lock()
	defer k.mu.Unlock()
	first := keys[0]
	_ = k.ring.AddKey(first)
	_ = k.ring.UseKey(first)
	if old := k.ring.GetKeys(); !trailing(old, keys) {
		for _, key := range slices.Backward(slices.Clone(old)) {
			if holds(keys, key) {
				_ = k.ring.UseKey(key)
			}
		}
		_ = k.ring.UseKey(first)
	}
	for _, key := range slices.Backward(slices.Clone(k.ring.GetKeys())) {
		if !holds(keys, key) {
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
		if !holds(stay, key) {
			gone = true
		} else if gone {
			return false
		}
	}
	return true
}

func holds(keys [][]byte, key []byte) bool {
	return slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, key) })
}

func copyKeys(keys [][]byte) [][]byte {
	var out [][]byte
	for _, k := range keys {
		out = append(out, bytes.Clone(k))
	}
	return out
}
