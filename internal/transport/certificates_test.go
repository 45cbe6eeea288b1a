package transport

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

func TestLoadCertificatesReportsProblems(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	now := time.Now()
	for name, c := range map[string]struct {
		with func(*certFiles)
		want string
	}{
		"no paths":             {func(f *certFiles) { f.Cert, f.Key, f.CA = "", "", "" }, "Cert is empty"},
		"negative":             {func(f *certFiles) { f.CheckEvery = -1 }, "CheckEvery -1ns is negative"},
		"no such file":         {func(f *certFiles) { f.Key = f.Key + "x" }, "no such file"},
		"another one's key":    {func(f *certFiles) { f.split(ca.issue(t)); f.put(f.Key, ca.issue(t).key) }, "private key does not match"},
		"no PEM":               {func(f *certFiles) { f.put(f.Cert, []byte("x")) }, "failed to find any PEM data"},
		"too long":             {func(f *certFiles) { f.put(f.CA, make([]byte, certificateBytesMax+1)) }, "longer than 1048576 bytes"},
		"no authority":         {func(f *certFiles) { f.put(f.CA, nil) }, "authorities: no certificate in PEM"},
		"a key as authority":   {func(f *certFiles) { f.put(f.CA, ca.issue(t).key) }, `authorities: a PEM block of type "PRIVATE KEY"`},
		"of another authority": {func(f *certFiles) { f.trust(other) }, "signed by unknown authority"},
		"expired": {func(f *certFiles) {
			f.replace(ca.sign(t, newKey(t), func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Minute) }))
		}, "has expired or is not yet valid"},
		"not yet valid": {func(f *certFiles) {
			f.replace(ca.sign(t, newKey(t), func(c *x509.Certificate) { c.NotBefore = now.Add(time.Minute) }))
		}, "has expired or is not yet valid"},
		"for servers only": {func(f *certFiles) {
			f.replace(ca.sign(t, newKey(t), func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[:1] }))
		}, "as a client's: x509: certificate specifies an incompatible key usage"},
		"without the name": {func(f *certFiles) { f.Name = "peerage.example" }, "peerage.example"},
	} {
		f := newCertFiles(t, ca.issue(t), ca)
		c.with(f)
		if _, err := LoadCertificates(f.CertificateFiles); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v does not say %q", name, err, c.want)
		}
	}
}

// A certificate of an intermediate authority is good if that authority's certificate stands behind it in the
// file, and everything in the file can be read.
func TestCertificatesOfAnIntermediateAuthority(t *testing.T) {
	root, between := newAuthority(t), newAuthority(t)
	der, err := x509.CreateCertificate(rand.Reader, between.cert, root.cert, &between.key.PublicKey, root.key)
	if err != nil {
		t.Fatal(err)
	}
	own := between.issue(t)
	chain := func(der []byte) pair {
		block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
		return pair{append(append([]byte(nil), own.cert...), block...), own.key}
	}
	for name, c := range map[string]struct {
		file pair
		want string // "" for none
	}{
		"with the intermediate one": {chain(der), ""},
		"without it":                {own, "signed by unknown authority"},
		"with a broken one":         {chain([]byte("x")), "malformed certificate"},
	} {
		_, err := LoadCertificates(newCertFiles(t, c.file, root).CertificateFiles)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A node whose certificate does not cover its own address would be rejected by every
// dialling node.
func TestTheCertificateCoversTheAddress(t *testing.T) {
	ca := newAuthority(t)
	f := newCertFiles(t, ca.sign(t, newKey(t), func(c *x509.Certificate) { c.DNSNames = []string{"peerage.example"} }), ca)
	cfg := TCPConfig{Config: Config{ID: 1, Name: "a", Cluster: "c"}, Advertise: "192.0.2.7:0", Certificates: f.load()}
	if _, err := NewTCP(cfg); err == nil || !strings.Contains(err.Error(), "192.0.2.7") {
		t.Errorf("an address that it does not cover: %v", err)
	}
	f.Name = "peerage.example"
	cfg.Certificates = f.load()
	tr, err := NewTCP(cfg)
	if err != nil {
		t.Fatalf("with a name for all: %v", err)
	}
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
}

func TestTLSThatLetsAnyoneInIsRefused(t *testing.T) {
	ca := newAuthority(t)
	good := Config{ID: 1, Name: "a", Cluster: "c"}
	for want, with := range map[string]func(*TCPConfig){
		"has no certificate":             func(c *TCPConfig) { c.TLS.Certificates = nil },
		"ClientAuth is NoClientCert":     func(c *TCPConfig) { c.TLS.ClientAuth = tls.NoClientCert },
		"ClientAuth is RequestClient":    func(c *TCPConfig) { c.TLS.ClientAuth = tls.RequestClientCert },
		"ClientAuth is VerifyClientCert": func(c *TCPConfig) { c.TLS.ClientAuth = tls.VerifyClientCertIfGiven },
		"ClientAuth is RequireAnyClient": func(c *TCPConfig) { c.TLS.ClientAuth = tls.RequireAnyClientCert },
		"InsecureSkipVerify":             func(c *TCPConfig) { c.TLS.InsecureSkipVerify = true },
		"both set":                       func(c *TCPConfig) { c.Certificates = newCertFiles(t, ca.issue(t), ca).load() },
		"expired": func(c *TCPConfig) {
			c.TLS = ca.config(t, ca.sign(t, newKey(t), func(x *x509.Certificate) { x.NotAfter = time.Now().Add(-time.Minute) }))
		},
	} {
		cfg := TCPConfig{Config: good, TLS: ca.mutual(t)}
		with(&cfg)
		if tr, err := NewTCP(cfg); err == nil {
			t.Errorf("%s: accepted", want)
			_ = tr.Close()
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// A certificate is renewed, with a new key, while connections are open: none breaks, new
// connections use the new certificate, and the NodeID stays bound to the first key, at
// nodes that had a connection before as well as at new ones.
func TestReloadDropsNothing(t *testing.T) {
	w := &world{T: t}
	ca := newAuthority(t)
	fa, fb := newCertFiles(t, ca.issue(t), ca), newCertFiles(t, ca.issue(t), ca)
	a, b := w.withFiles(1, fa), w.withFiles(2, fb)
	a.Learn(b.Self())
	b.Learn(a.Self())
	a.send(b, Message, "before")
	b.send(a, Message, "before")
	a.awaitFrames(1)
	b.awaitFrames(1)

	ends := time.Now().Add(30 * time.Minute).Truncate(time.Second)
	fb.replace(ca.sign(t, newKey(t), func(c *x509.Certificate) { c.NotAfter = ends.UTC() }))
	w.poll("reloaded", func() bool {
		s, ok := b.Counters().Certificates()
		return ok && s == CertificateStats{NotAfter: ends.UTC(), Reloads: 1}
	})
	if fb.count("certificate files reloaded") != 1 {
		t.Errorf("log:\n%s", fb.out.String())
	}

	a.send(b, Message, "after")
	a.send(b, Bulk, "after") // a new connection to the new certificate
	b.send(a, Bulk, "after") // and one from it
	b.awaitFrames(3)
	a.awaitFrames(2)
	c := w.withFiles(3, newCertFiles(t, ca.issue(t), ca))
	c.Learn(b.Self())
	c.send(b, Message, "from one who never saw the former")
	b.awaitFrames(4)
	for _, n := range []*node{a, b} {
		for _, ev := range []PeerEventType{Lost, AcceptedLost, DialFailed} {
			if k := n.count(ev, Control) + n.count(ev, Message) + n.count(ev, Bulk); k != 0 {
				t.Errorf("%s: %d times %v: %s", n.Self().Name, k, ev, n.story())
			}
		}
	}
	for _, n := range []*node{a, c} {
		if key := n.e.credentials.keys.byID[2]; key != b.e.credentials.first.key {
			t.Errorf("%s knows the node by %v", n.Self().Name, key)
		}
	}
}

// A peer that hangs up in the handshake is no mistake in certificates, so no operator is warned;
// one of another authority is.
func TestOnlyCertificatesAreWarnedOf(t *testing.T) {
	w := &world{T: t}
	ca := newAuthority(t)
	var book logBook
	a := w.withFiles(1, newCertFiles(t, ca.issue(t), ca), book.configure)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for i := 0; ; i++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if i == 0 {
				_ = conn.(*net.TCPConn).SetLinger(0) // a reset, as of a process that is killed
			}
			_ = conn.Close()
		}
	}()
	for range 2 {
		if _, err := a.Probe(w.ctx(), listener.Addr().String()); err == nil {
			t.Error("a node was found where none is")
		}
	}
	gone, cancel := context.WithCancel(w.ctx())
	cancel()
	if _, err := a.Probe(gone, listener.Addr().String()); err == nil {
		t.Error("a node was found where none is")
	}
	const line = "TLS handshake with a node failed"
	if n := book.count(line); n != 0 {
		t.Errorf("%d warnings:\n%s", n, &book.out)
	}
	other := newAuthority(t)
	b := w.withFiles(2, newCertFiles(t, other.issue(t), other))
	if _, err := a.Probe(w.ctx(), b.Self().Addr); err == nil {
		t.Error("a node of another authority was found")
	}
	if n := book.count(line); n != 1 {
		t.Errorf("%d warnings of another authority:\n%s", n, &book.out)
	}
}

// The authority itself is replaced in the usual three steps.
func TestTheAuthorityIsReplaced(t *testing.T) {
	w := &world{T: t}
	old, next := newAuthority(t), newAuthority(t)
	formerly := old.issue(t)
	fa, fb := newCertFiles(t, old.issue(t), old), newCertFiles(t, old.issue(t), old)
	a, b := w.withFiles(1, fa), w.withFiles(2, fb)
	meet := func(step string) {
		t.Helper()
		if _, err := a.Probe(w.ctx(), b.Self().Addr); err != nil {
			t.Errorf("%s: %v", step, err)
		}
		if _, err := b.Probe(w.ctx(), a.Self().Addr); err != nil {
			t.Errorf("%s: %v", step, err)
		}
	}
	meet("at first")
	fa.trust(old, next)
	meet("one believes both")
	fb.trust(old, next)
	fa.replace(next.issue(t))
	meet("one has a certificate of the new authority")
	fb.replace(next.issue(t))
	meet("both have")
	fa.trust(next)
	fb.trust(next)
	meet("the old one is gone")
	w.turnedAway(b, next.client(t, formerly), "unknown certificate authority")
}

// Files that cannot be used, as between two writes, change nothing.
func TestHalfAReloadKeepsTheFormer(t *testing.T) {
	ca := newAuthority(t)
	f := newCertFiles(t, ca.issue(t), ca)
	f.split(ca.issue(t))
	c := f.load()
	former := c.current()
	next := ca.issue(t)
	f.put(f.Cert, next.cert)
	for range 3 {
		if c.current() != former {
			t.Fatal("half a reload was taken over")
		}
	}
	if s := c.Stats(); s.Reloads != 0 || s.ReloadFailures != 1 {
		t.Errorf("%+v", s)
	}
	if n := f.count("certificate files cannot be used"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, f.out.String())
	}
	f.put(f.Key, next.key)
	if c.current() == former {
		t.Error("the whole reload was not taken over")
	}
	if err := os.Remove(f.CA); err != nil {
		t.Fatal(err)
	}
	if s := c.Stats(); s.Reloads != 1 || s.ReloadFailures != 2 {
		t.Errorf("%+v", s)
	}
	expired := ca.sign(t, newKey(t), func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Second) })
	f.trust(ca)
	f.replace(expired)
	if s := c.Stats(); s.Reloads != 1 || s.ReloadFailures != 3 || s.NotAfter.Before(time.Now()) {
		t.Errorf("an expired one: %+v", s)
	}
}

func TestExpiryIsWarnedOf(t *testing.T) {
	ca := newAuthority(t)
	f := newCertFiles(t, ca.sign(t, newKey(t), func(c *x509.Certificate) { c.NotAfter = time.Now().Add(5 * time.Minute) }), ca)
	c := f.load()
	c.current()
	c.current()
	if n := f.count("expires soon"); n != 1 {
		t.Errorf("warned %d times", n)
	}
	f.replace(ca.issue(t))
	c.current()
	if n := f.count("expires soon"); n != 1 {
		t.Errorf("warned of a fresh one")
	}
}

// Files are not read more often than CheckEvery.
func TestFilesAreLookedAtNowAndThen(t *testing.T) {
	ca := newAuthority(t)
	f := newCertFiles(t, ca.issue(t), ca)
	f.CheckEvery = time.Hour
	c := f.load()
	former := c.current()
	f.replace(ca.issue(t))
	if c.current() != former {
		t.Error("the files were looked at again")
	}
	c.checked = c.checked.Add(-time.Hour)
	if c.current() == former {
		t.Error("the files were not looked at")
	}
}

func TestAllKindsOfKeys(t *testing.T) {
	w := &world{T: t}
	ca := newAuthority(t)
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b := w.withFiles(2, newCertFiles(t, ca.issue(t), ca))
	for i, first := range []pair{ca.sign(t, edwards, nil), ca.sign(t, rsaKey(t), nil), ca.issue(t)} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			f := newCertFiles(t, first, ca)
			a := w.withFiles(10+i, f)
			for range 2 {
				if _, err := a.Probe(w.ctx(), b.Self().Addr); err != nil {
					t.Error(err)
				}
				if _, err := b.Probe(w.ctx(), a.Self().Addr); err != nil {
					t.Error(err)
				}
				f.replace(ca.issue(t))
			}
		})
	}
}
