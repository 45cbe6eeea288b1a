package transport

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority signs certificates for 127.0.0.1.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
	pem  []byte
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key := newKey(t)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &authority{cert, key, pool, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// pair is a certificate with its key, in PEM.
type pair struct{ cert, key []byte }

// sign signs a certificate for 127.0.0.1 that is good for both sides, changed by f.
func (a *authority) sign(t *testing.T, key crypto.Signer, f func(*x509.Certificate)) pair {
	t.Helper()
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "node"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	if f != nil {
		f(tmpl)
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pair{pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})}
}

// issue signs a good certificate with a new key.
func (a *authority) issue(t *testing.T) pair {
	t.Helper()
	return a.sign(t, newKey(t), nil)
}

// mutual returns a config for mutual TLS with a certificate of this authority.
func (a *authority) mutual(t *testing.T) *tls.Config {
	t.Helper()
	return a.config(t, a.issue(t))
}

func (a *authority) config(t *testing.T, p pair) *tls.Config {
	t.Helper()
	cert, err := tls.X509KeyPair(p.cert, p.key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert},
		RootCAs: a.pool, ClientCAs: a.pool, ClientAuth: tls.RequireAndVerifyClientCert}
}

// certFiles are a node's files, and the log of their reloads.
type certFiles struct {
	t *testing.T
	CertificateFiles
	logBook
}

func newCertFiles(t *testing.T, p pair, authorities ...*authority) *certFiles {
	t.Helper()
	dir := t.TempDir()
	f := &certFiles{t: t, CertificateFiles: CertificateFiles{Cert: filepath.Join(dir, "tls.pem"),
		Key: filepath.Join(dir, "tls.pem"), CA: filepath.Join(dir, "ca.pem"), CheckEvery: 1}}
	f.Logger = slog.New(slog.NewTextHandler(&f.logBook, nil))
	f.replace(p)
	f.trust(authorities...)
	return f
}

func (f *certFiles) put(path string, b []byte) {
	f.t.Helper()
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		f.t.Fatal(err)
	}
}

func (f *certFiles) replace(p pair) {
	f.t.Helper()
	if f.Cert == f.Key {
		f.put(f.Cert, append(append([]byte(nil), p.cert...), p.key...)) // in one step
		return
	}
	f.put(f.Cert, p.cert)
	f.put(f.Key, p.key)
}

// split puts the key into a file of its own.
func (f *certFiles) split(p pair) {
	f.t.Helper()
	f.Key += ".key"
	f.replace(p)
}

func (f *certFiles) trust(authorities ...*authority) {
	f.t.Helper()
	var all []byte
	for _, a := range authorities {
		all = append(all, a.pem...)
	}
	f.put(f.CA, all)
}

func (f *certFiles) load() *Certificates {
	f.t.Helper()
	c, err := LoadCertificates(f.CertificateFiles)
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

func (w *world) secure(id int, cfg *tls.Config) *node {
	w.Helper()
	w.tls = cfg
	defer func() { w.tls = nil }()
	return w.start(nodeID(id))
}

// withFiles starts a node with certificates from files.
func (w *world) withFiles(id int, f *certFiles, with ...configure) *node {
	w.Helper()
	w.certificates = f.load()
	defer func() { w.certificates = nil }()
	return w.start(nodeID(id), with...)
}
