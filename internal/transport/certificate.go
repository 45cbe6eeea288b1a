package transport

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"time"
)

// certificate is one state of the files, immutable.
type certificate struct {
	tls.Certificate
	leaf        *x509.Certificate
	authorities *x509.CertPool
	key         keyHash
	// sum is the hash of the files.
	sum [32]byte
}

// parseCertificate parses the contents of the files.
func parseCertificate(cert, key, authorities []byte) (*certificate, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	pool, err := parseAuthorities(authorities)
	if err != nil {
		return nil, err
	}
	if _, ok := pair.PrivateKey.(crypto.Signer); !ok {
		return nil, fmt.Errorf("a private key of type %T cannot sign", pair.PrivateKey)
	}
	return &certificate{Certificate: pair, leaf: pair.Leaf, authorities: pool, key: hashKey(pair.Leaf.RawSubjectPublicKeyInfo)}, nil
}

// parseAuthorities accepts only certificates: AppendCertsFromPEM would skip what it
// cannot read.
func parseAuthorities(b []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	n := 0
	for {
		var block *pem.Block
		if block, b = pem.Decode(b); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("authorities: a PEM block of type %q", block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("authorities: %w", err)
		}
		pool.AddCert(cert)
		n++
	}
	if n == 0 {
		return nil, errors.New("authorities: no certificate in PEM")
	}
	return pool, nil
}

// check returns why other nodes with the same authorities would reject this certificate,
// on either side of a connection.
func (c *certificate) check(name string, now time.Time) error {
	between := x509.NewCertPool()
	for _, der := range c.Certificate.Certificate[1:] {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return err
		}
		between.AddCert(cert)
	}
	for _, use := range []struct {
		usage x509.ExtKeyUsage
		name  string
	}{{x509.ExtKeyUsageServerAuth, "server"}, {x509.ExtKeyUsageClientAuth, "client"}} {
		_, err := c.leaf.Verify(x509.VerifyOptions{Roots: c.authorities, Intermediates: between, CurrentTime: now,
			KeyUsages: []x509.ExtKeyUsage{use.usage}})
		if err != nil {
			return fmt.Errorf("as a %s's: %w", use.name, err)
		}
	}
	if name == "" {
		return nil
	}
	return c.leaf.VerifyHostname(name)
}

// server returns the config of one accepted connection. Sessions are not resumed: each
// connection is verified against the current authorities.
func (c *certificate) server(name string) *tls.Config {
	cfg := &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{c.Certificate},
		ClientCAs:              c.authorities,
		ClientAuth:             tls.RequireAndVerifyClientCert,
		SessionTicketsDisabled: true,
	}
	if name != "" {
		cfg.VerifyConnection = func(s tls.ConnectionState) error { return s.PeerCertificates[0].VerifyHostname(name) }
	}
	return cfg
}

// client returns the config of one connection to host. The certificate is sent whatever
// authorities the server lists, so that the server can report why it rejects it.
func (c *certificate) client(host string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &c.Certificate, nil
		},
		RootCAs:    c.authorities,
		ServerName: host,
	}
}

// checkTLS refuses configs that would admit or trust unknown nodes, or with which no node
// could connect.
func checkTLS(cfg *tls.Config, now time.Time) error {
	own := cfg.VerifyPeerCertificate != nil || cfg.VerifyConnection != nil
	if cfg.GetConfigForClient == nil { // else each config that it returns is checked: checkedServer
		if err := checkServerTLS(cfg); err != nil {
			return err
		}
	}
	if cfg.InsecureSkipVerify && !own {
		return errors.New("transport: TLS.InsecureSkipVerify without VerifyPeerCertificate or VerifyConnection: anyone would be believed")
	}
	if leaf := staticLeaf(cfg); leaf != nil && now.After(leaf.NotAfter) {
		return fmt.Errorf("transport: the certificate of TLS expired at %v", leaf.NotAfter)
	}
	return nil
}

// staticLeaf returns the certificate that a config shows, if it is fixed.
func staticLeaf(cfg *tls.Config) *x509.Certificate {
	if cfg == nil || len(cfg.Certificates) == 0 || cfg.GetCertificate != nil || cfg.GetConfigForClient != nil {
		return nil
	}
	first := &cfg.Certificates[0]
	if first.Leaf != nil {
		return first.Leaf
	}
	if len(first.Certificate) == 0 {
		return nil
	}
	leaf, err := x509.ParseCertificate(first.Certificate[0])
	if err != nil {
		return nil // the handshake will report it
	}
	return leaf
}

// covers returns why other nodes, which dial addr, would reject the certificate.
func (c *Certificates) covers(addr string) error {
	if c.files.Name != "" {
		return nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	if err := c.inUse.Load().leaf.VerifyHostname(host); err != nil {
		return fmt.Errorf("transport: other nodes reach this one at %s, for which %s does not stand: %w; sign one for it, or set CertificateFiles.Name",
			addr, c.files.Cert, err)
	}
	return nil
}
