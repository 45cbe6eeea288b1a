package membership

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"
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
func withKeys(keys ...int) Config {
	cfg := testConfig()
	cfg.SecretKeys = testKeys(keys...)
	cfg.Join = memAddrs(3)
	return cfg
}

// Three steps, node after node, with any pauses: no message is lost.
func TestKeysRotateWithoutAGap(t *testing.T) {
	inBubble(t, func(c *cluster) {
		for _, a := range memAddrs(3) {
			c.add(a, withKeys(1))
		}
		c.settled(10*time.Second, c.nodes...)
		all := func() bool {
			return !slices.ContainsFunc(c.nodes, func(m *member) bool { return m.discovery.OtherAddrs() != 2 })
		}
		c.until(10*time.Second, "all discovered", all)
		for _, step := range [][][]byte{testKeys(1, 2), testKeys(2, 1), testKeys(2)} {
			for _, m := range c.nodes {
				if err := m.RotateKeys(step); err != nil {
					t.Fatal(err)
				}
				if got := m.SecretKeys(); !slices.EqualFunc(got, step, bytes.Equal) {
					t.Errorf("the keys are %v", got)
				}
				pass(20 * time.Second)
				if !all() {
					t.Errorf("nodes were lost on the way")
				}
			}
		}
		for _, m := range c.nodes {
			if s := m.Stats(); s.Undecryptable != 0 || s.Suspicions != 0 || s.Faded != 0 {
				t.Errorf("%s: %d undecryptable, %d suspicions, %d faded", m.addr, s.Undecryptable, s.Suspicions, s.Faded)
			}
		}

		// The old key no longer decrypts, the new one does.
		late := c.add("10.0.0.8:7101", withKeys(1))
		next := c.add("10.0.0.9:7101", withKeys(2))
		c.until(20*time.Second, "the one with the new key is discovered", func() bool { return next.discovery.OtherAddrs() == 3 })
		pass(20 * time.Second)
		if late.discovery.OtherAddrs() != 0 {
			t.Error("one with the old key still takes part in gossip")
		}
		if s := c.nodes[0].Stats(); s.Undecryptable == 0 {
			t.Error("and no node counts its datagrams")
		}
		if err := late.RotateKeys(late.SecretKeys()[:0]); err == nil {
			t.Error("no key at all was taken")
		}
		if err := late.RotateKeys(testKeys(2)); err != nil {
			t.Error(err)
		}
		c.until(20*time.Second, "the late one is discovered", func() bool { return late.discovery.OtherAddrs() == 4 })
	})
}

func TestWrongKeysChangeNothing(t *testing.T) {
	inBubble(t, func(c *cluster) {
		m, bare := c.add("10.0.0.1:7101", withKeys(1)), c.add("10.0.0.2:7101", Config{})
		for _, keys := range [][][]byte{nil, {{1, 2}}, {testKey(2), []byte("hunter2")}, testKeys(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17)} {
			if err := m.RotateKeys(keys); !errors.Is(err, ErrSettings) || bytes.Contains([]byte(err.Error()), []byte("hunter2")) {
				t.Errorf("%d keys: %v", len(keys), err)
			}
		}
		if got := m.SecretKeys(); !slices.EqualFunc(got, testKeys(1), bytes.Equal) {
			t.Errorf("the keys are %v", got)
		}
		if err := bare.RotateKeys(testKeys(1)); !errors.Is(err, ErrNoKeys) || bare.SecretKeys() != nil {
			t.Errorf("a node without encryption: %v", err)
		}
	})
}
