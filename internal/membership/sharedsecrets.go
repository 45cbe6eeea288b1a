package membership

import (
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"net/netip"
)

// Limits of SharedSecrets, as those of package transport.
const (
	sharedSecretBytesMin = 32
	sharedSecretsMax     = 4
)

// derivedKeys returns the keys for memberlist's datagrams derived from shared secrets, in
// their order.
func derivedKeys(secrets [][]byte) [][]byte {
	var keys [][]byte
	for _, s := range secrets {
		key, err := hkdf.Key(sha256.New, s, nil, "peerage datagrams 1", 32)
		if err != nil {
			return nil // only for lengths that are not used here
		}
		keys = append(keys, key)
	}
	return keys
}

// validateSecrets checks SharedSecrets without showing them.
func (c *Config) validateSecrets(e *ConfigError) {
	e.checkSetting(len(c.SharedSecrets) <= sharedSecretsMax, "SharedSecrets", len(c.SharedSecrets), "at most 4: every one is tried")
	for i, s := range c.SharedSecrets {
		e.checkSetting(len(s) >= sharedSecretBytesMin, "SharedSecrets", fmt.Sprintf("[%d] of %d bytes", i, len(s)),
			"a secret has at least 32 bytes from a random source, since guesses can be tried out on recorded handshakes")
	}
	e.checkSetting(len(c.SharedSecrets) == 0 || c.TLS == nil && c.Certificates == nil, "SharedSecrets", len(c.SharedSecrets),
		"Certificates or TLS is set as well: choose one")
}

// isPrivate reports whether a host is an address that is not routed on the internet: any
// reader is then on the operator's own network.
func isPrivate(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && (ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast())
}

// validateOpenNetwork requires protection of both halves of the port. SharedSecrets keep
// unknown nodes and forgers out, but not readers: that suffices if the advertised address
// of this node is private.
func (c *Config) validateOpenNetwork(e *ConfigError, host string) {
	if len(c.SharedSecrets) > 0 {
		e.checkSetting(isPrivate(host), "Listen", c.Listen,
			"other nodes reach this one at "+host+", which is not a private address, and SharedSecrets encrypt no connection: any host on the path could read everything; set Certificates instead, or InsecureTransport as well")
		return
	}
	e.checkSetting(c.TLS != nil || c.Certificates != nil, "Listen", c.Listen,
		"not a loopback address, and neither Certificates nor TLS is set: any host on the network could join, read and forge (SecretKeys cover datagrams only); set one of them, or SharedSecrets on a private network, or InsecureTransport")
	e.checkSetting(len(c.SecretKeys) > 0 || c.NoDiscovery, "SecretKeys", 0,
		"Listen = "+c.Listen+" is not a loopback address, and TLS does not cover memberlist's datagrams: any host on the network could forge them; set a key, or NoDiscovery, or InsecureTransport")
}
