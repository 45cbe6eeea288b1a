// Package devcerts makes an authority, certificates, keys and settings for the nodes of one
// cluster: for development, and as a pattern for the authority of a real deployment.
package devcerts

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authorityYears is how long the authority is valid.
const authorityYears = 10

// maker writes the files of one call.
type maker struct {
	cfg   Config
	now   time.Time
	ca    *x509.Certificate
	key   crypto.Signer
	files []File
}

// Make writes the files. An authority, keys and settings that stand in the directory already
// are kept, and certificates are renewed.
func Make(cfg Config) ([]File, error) {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	m := &maker{cfg: cfg, now: time.Now()}
	steps := []func() error{m.authority, m.gossipKeys}
	for _, n := range cfg.Nodes {
		steps = append(steps, func() error { return m.node(n) })
	}
	for _, step := range append(steps, m.operator) {
		if err := step(); err != nil {
			return m.files, err
		}
	}
	return m.files, nil
}

// authority takes the authority of the directory, or makes one.
func (m *maker) authority() error {
	const holds = "the authority: all nodes and clients trust it"
	_, err := os.Stat(filepath.Join(m.cfg.Dir, authorityKey))
	if errors.Is(err, fs.ErrNotExist) {
		m.ca = &x509.Certificate{
			Subject: pkix.Name{CommonName: m.cfg.Cluster + " authority"}, NotBefore: m.now.Add(-time.Hour), NotAfter: m.now.AddDate(authorityYears, 0, 0),
			IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		}
		err = m.issue("ca", m.ca, holds, "signs certificates; keep it off the nodes")
	} else if err == nil {
		m.files = append(m.files, File{Path: filepath.Join(m.cfg.Dir, authorityCert), Holds: holds, Kept: true})
	}
	if err != nil {
		return err
	}
	return m.loadAuthority()
}

// loadAuthority parses the files of the authority, to sign by.
func (m *maker) loadAuthority() error {
	cert, err := readPEM(filepath.Join(m.cfg.Dir, authorityCert))
	if err != nil {
		return err
	}
	if m.ca, err = x509.ParseCertificate(cert); err != nil {
		return fmt.Errorf("%s: %w", authorityCert, err)
	}
	key, err := readPEM(filepath.Join(m.cfg.Dir, authorityKey))
	if err != nil {
		return err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("%s: %w", authorityKey, err)
	}
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		return fmt.Errorf("%s holds no key that signs", authorityKey)
	}
	m.key = signer
	return nil
}

// readPEM returns the content of the first block of a file.
func readPEM(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM", path)
	}
	return block.Bytes, nil
}

// gossipKeys makes the key of memberlist's datagrams, which all nodes share.
func (m *maker) gossipKeys() error {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	text := "# AES keys for memberlist's datagrams; the first encrypts\n" + base64.StdEncoding.EncodeToString(key) + "\n"
	return m.keepOrWrite(keysFile, text, "the key of datagrams, the same on all nodes")
}

// node makes the certificate and the settings of a node.
func (m *maker) node(n Node) error {
	host, _, err := net.SplitHostPort(n.Listen)
	if err != nil {
		return err
	}
	cert := &x509.Certificate{
		Subject: pkix.Name{CommonName: n.Name}, NotBefore: m.now.Add(-time.Hour), NotAfter: m.now.Add(m.cfg.Valid), DNSNames: []string{m.cfg.Name},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		cert.IPAddresses = []net.IP{ip}
	} else {
		cert.DNSNames = append(cert.DNSNames, host)
	}
	if err := m.issue(n.Name, cert, "certificate of node "+n.Name, "its private key"); err != nil {
		return err
	}
	return m.keepOrWrite(n.Name+".yaml", nodeSettings(&m.cfg, n, host), "settings of node "+n.Name)
}

// operator makes the certificate and the settings of those who look at the cluster. The
// certificate is no server's and carries no name, so peers refuse its holder.
func (m *maker) operator() error {
	cert := &x509.Certificate{
		Subject: pkix.Name{CommonName: Operator}, NotBefore: m.now.Add(-time.Hour), NotAfter: m.now.Add(m.cfg.Valid),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if err := m.issue(Operator, cert, "certificate of the operator: it opens the HTTP API and is no peer's", "its private key"); err != nil {
		return err
	}
	return m.keepOrWrite(Operator+".yaml", operatorSettings(&m.cfg), "settings of the operator's commands")
}

// issue makes a key and has the authority sign the certificate; an authority signs itself.
func (m *maker) issue(name string, cert *x509.Certificate, holds, keyHolds string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	signer := m.key
	if signer == nil {
		signer = key
	}
	cert.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, m.ca, &key.PublicKey, signer)
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	until := cert.NotAfter.Format(time.DateOnly)
	if err := m.write(name+".pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), holds+"; valid until "+until); err != nil {
		return err
	}
	return m.write(name+".key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), keyHolds)
}

// write replaces a file in one step, so that a node that reads its certificate again never
// sees half of it.
func (m *maker) write(name string, content []byte, holds string) error {
	path := filepath.Join(m.cfg.Dir, name)
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	m.files = append(m.files, File{Path: path, Holds: holds})
	return nil
}

func (m *maker) keepOrWrite(name, content, holds string) error {
	path := filepath.Join(m.cfg.Dir, name)
	if old, err := os.ReadFile(path); err == nil && !bytes.Equal(old, []byte(content)) {
		m.files = append(m.files, File{Path: path, Holds: holds, Kept: true})
		return nil
	}
	return m.write(name, []byte(content), holds)
}
