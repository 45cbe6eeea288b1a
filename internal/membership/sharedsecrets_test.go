package membership

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func sharedSecret(i int) []byte { return bytes.Repeat([]byte{byte(i)}, sharedSecretBytesMin) }

// TestAttackAClusterWithASharedSecret: nodes with the secret form a cluster, and gossip
// with keys derived from it; a node with another secret, or without, stays out.
func TestAttackAClusterWithASharedSecret(t *testing.T) {
	addrs := freeAddrs(t, 4)
	with := func(secrets ...[]byte) Config {
		return Config{Join: addrs[:2], BootstrapExpect: 2, SharedSecrets: secrets}
	}
	a := startTCP(t, addrs[0], with(sharedSecret(1)))
	b := startTCP(t, addrs[1], with(sharedSecret(1), sharedSecret(2))) // on its way to a new one
	other, none := startTCP(t, addrs[2], with(sharedSecret(3))), startTCP(t, addrs[3], with())
	eventually(t, time.Minute, "the two with a secret in common stand in a view, and gossip", func() bool {
		return len(a.SecretKeys()) == 1 && a.View() != nil && len(a.View().Members) == 2 && b.LeaseValid()
	})
	if other.View() != nil || none.View() != nil {
		t.Error("a node without the secret was admitted, or forms a cluster")
	}
	if bytes.Contains(a.SecretKeys()[0], sharedSecret(1)) {
		t.Error("the secret itself encrypts datagrams")
	}
}

// TestValidateSharedSecrets: they suffice only on a private network.
func TestValidateSharedSecrets(t *testing.T) {
	for name, c := range map[string]struct {
		with func(*Config)
		want string
	}{
		"private":             {func(c *Config) {}, ""},
		"private, advertised": {func(c *Config) { c.Listen, c.Advertise = "0.0.0.0:7101", "192.168.1.9:7101" }, ""},
		"public":              {func(c *Config) { c.Listen = "203.0.113.9:7101" }, "which is not a private address"},
		"a name":              {func(c *Config) { c.Listen, c.Advertise = "0.0.0.0:7101", "db.example:7101" }, "which is not a private address"},
		"public, trusted":     {func(c *Config) { c.Listen, c.InsecureTransport = "203.0.113.9:7101", true }, ""},
		"short":               {func(c *Config) { c.SharedSecrets = [][]byte{[]byte("hunter2")} }, "at least 32 bytes"},
		"too many":            {func(c *Config) { c.SharedSecrets = append(testKeys(1, 2, 3, 4), testKey(5)) }, "at most 4"},
		"none":                {func(c *Config) { c.SharedSecrets = nil }, "any host on the network could join"},
	} {
		cfg := Config{Listen: "10.0.0.7:7101", Bootstrap: true, SharedSecrets: [][]byte{sharedSecret(1)}}
		c.with(&cfg)
		err := cfg.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) || err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
