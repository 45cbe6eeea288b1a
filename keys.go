package peerage

import (
	"sync"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/gossip/transport"
)

// rotated are the SecretKeys that RotateKeys was last given; nil before.
type rotated struct {
	mu   sync.Mutex
	keys [][]byte
}

// RotateKeys replaces Config.Gossip.SecretKeys in a running node, for this and all
// further incarnations, also while there is none. The first key encrypts from now on,
// all decrypt. A new key goes round in three steps, each done on every node before
// the next begins, and nobody misses a word:
//
//	RotateKeys({old, new})   everybody understands the new key
//	RotateKeys({new, old})   everybody speaks it
//	RotateKeys({new})        the old one is worth nothing any more
//
// It fails with a *gossip.ConfigError or gossip.ErrNoKeys, changing nothing: see
// gossip.Node.RotateKeys. The keys are copied. It does not block. A restarted process
// starts with the Config it is given, so keep its keys where the new ones are.
func (n *Node) RotateKeys(keys [][]byte) error {
	n.rotated.mu.Lock()
	defer n.rotated.mu.Unlock()
	if err := gossip.CheckKeys(keys); err != nil {
		return err
	}
	if len(n.cfg.Gossip.SecretKeys) == 0 {
		return gossip.ErrNoKeys
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

// catchUp gives a new incarnation the keys that were rotated in while it was made.
func (n *Node) catchUp(s *stack) {
	n.rotated.mu.Lock()
	defer n.rotated.mu.Unlock()
	if n.rotated.keys != nil {
		_ = s.gossip.RotateKeys(n.rotated.keys) // they were checked when they came
	}
}

// loadCertificates reads CertificateFiles, if they are given.
func (c *Config) loadCertificates() error {
	if c.CertificateFiles == nil {
		return nil
	}
	files := *c.CertificateFiles
	if files.Logger == nil {
		files.Logger = c.Logger
	}
	var err error
	c.Gossip.Certificates, err = transport.LoadCertificates(files)
	return err
}
