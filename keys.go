package peerage

import (
	"sync"

	"github.com/peerage-go/peerage/internal/membership"
)

// rotated holds the SecretKeys of the last RotateKeys; nil before the first.
type rotated struct {
	mu   sync.Mutex
	keys [][]byte
}

// RotateKeys replaces Config.SecretKeys in a running node, for this and all further
// incarnations. It also works between incarnations. From now on, the first key encrypts,
// and all keys decrypt. To introduce a new key without losing a datagram, take three steps,
// each on all nodes before the next one:
//
//	RotateKeys({old, new})   all nodes can decrypt with the new key
//	RotateKeys({new, old})   all nodes encrypt with it
//	RotateKeys({new})        no node accepts the old key
//
// It fails with a *ConfigError, or with ErrNoKeys if Config.SecretKeys was empty, and then
// changes nothing. The keys are copied. It does not block. A restarted process
// starts with the keys of its Config, so store the new keys there.
func (n *Node) RotateKeys(keys [][]byte) error {
	n.rotated.mu.Lock()
	defer n.rotated.mu.Unlock()
	problems := problemsOf(func(report func(setting, value, why string)) { membership.CheckKeys(keys, report) })
	if len(problems) > 0 {
		return &ConfigError{problems}
	}
	if len(n.cfg.SecretKeys) == 0 {
		return ErrNoKeys
	}
	n.rotated.keys = make([][]byte, 0, len(keys))
	for _, k := range keys {
		n.rotated.keys = append(n.rotated.keys, append([]byte(nil), k...))
	}
	if s := n.stack.Load(); s != nil {
		return s.gossip.RotateKeys(keys)
	}
	return nil
}

// catchUp gives a new incarnation the keys that were rotated in while it was being built.
func (n *Node) catchUp(s *stack) {
	n.rotated.mu.Lock()
	defer n.rotated.mu.Unlock()
	if n.rotated.keys != nil {
		_ = s.gossip.RotateKeys(n.rotated.keys) // they were checked when they came
	}
}
