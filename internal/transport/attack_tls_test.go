package transport

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
)

// TestAttackAnotherHostsCertificate: the holder of a certificate of the same authority, for
// another host, claims a member's address. With Name empty, as with a config of the
// application's that names no server, it is refused, whether it dials or answers.
func TestAttackAnotherHostsCertificate(t *testing.T) {
	ca := newAuthority(t)
	stolen := ca.sign(t, newKey(t), func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(10, 9, 9, 9)} })
	for name, start := range map[string]func(*world) *node{
		"files":  func(w *world) *node { return w.withFiles(2, newCertFiles(t, ca.issue(t), ca)) },
		"config": func(w *world) *node { return w.secure(2, ca.mutual(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{T: t}
			b := start(w)
			a, err := w.introduce(b, ca.client(t, stolen), validHello(func(h *hello) { h.Addr = "127.0.0.1:7101" }))
			if err != nil || a.verdict != verdictRefused || a.refusal.code != FailIdentity {
				t.Errorf("answer %+v, %v", a, err)
			}
			a, err = w.introduce(b, ca.client(t, ca.issue(t)), validHello(func(h *hello) { h.ID, h.Addr = 77, "127.0.0.1:7101" }))
			if err != nil || a.verdict == verdictRefused {
				t.Errorf("an honest one: answer %+v, %v", a, err)
			}
			if n := b.Counters().HandshakeFailures[FailIdentity].Load(); n != 1 {
				t.Errorf("%d are counted", n)
			}
		})
	}
}

// TestAttackTheCallbackOfATLSConfig: GetConfigForClient returns a config that accepts any
// client, or no config while the outer one requires no certificate. No client without a
// certificate is accepted.
func TestAttackTheCallbackOfATLSConfig(t *testing.T) {
	ca := newAuthority(t)
	good := ca.mutual(t)
	open := good.Clone()
	open.ClientAuth = tls.NoClientCert
	for name, c := range map[string]struct {
		base, chosen *tls.Config
		in           bool
	}{
		"an open one":           {good, open, false},
		"none, on an open base": {open, nil, false},
		"none, on a good base":  {good, nil, true},
		"a good one":            {open, good, true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := c.base.Clone()
			cfg.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.chosen, nil }
			w := &world{T: t}
			b := w.secure(2, cfg)
			if a, err := w.introduce(b, ca.client(t, pair{}), validHello(nil)); err == nil {
				t.Errorf("without a certificate: answer %+v", a)
			}
			a, err := w.introduce(b, ca.client(t, ca.issue(t)), validHello(nil))
			if in := err == nil && a.verdict != verdictRefused; in != c.in {
				t.Errorf("with a certificate: answer %+v, %v", a, err)
			}
		})
	}
}
