package transport

import (
	"crypto"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// certificateBytesMax bounds each file.
const certificateBytesMax = 1 << 20

// CertificateFiles names the files of a node's certificate; peerage.CertificateFiles documents
// its fields, apart from Logger.
type CertificateFiles struct {
	Cert, Key, CA string
	Name          string
	CheckEvery    time.Duration
	// Logger receives reloads, failures to reload and certificates about to expire; nil
	// discards.
	Logger *slog.Logger
}

// Certificates are a node's certificate, key and authorities, read from files and
// read again when those change. Give it to TCPConfig.Certificates. Safe for
// concurrent use; one may serve several transports.
//
// A change takes effect at the next handshake. Open connections are not affected: they
// outlive their certificate's expiry, and an authority's removal. If the files cannot be
// used, as between the writing of a certificate and of its key, the last valid ones stay
// in use and the failure is counted and logged once. The files are compared as a whole,
// since times of modification repeat.
type Certificates struct {
	files CertificateFiles
	log   *slog.Logger
	inUse atomic.Pointer[certificate]

	reloads, failures atomic.Uint64

	// mu makes one goroutine check the files; other goroutines continue with the
	// certificate in use.
	mu      sync.Mutex
	checked time.Time
	// failed is the last failure, so that it is counted once; warned is set once the
	// coming expiry of the certificate in use was logged.
	failed string
	warned bool
}

// CertificateStats is a snapshot for metrics.
type CertificateStats struct {
	// NotAfter is when the certificate in use expires.
	NotAfter time.Time
	// Reloads counts adopted changes, ReloadFailures those that could not be used.
	Reloads, ReloadFailures uint64
}

// LoadCertificates reads the files, and blocks until they are read. The error lists all
// problems.
func LoadCertificates(files CertificateFiles) (*Certificates, error) {
	var errs []error
	for _, f := range []struct{ field, path string }{{"Cert", files.Cert}, {"Key", files.Key}, {"CA", files.CA}} {
		if f.path == "" {
			errs = append(errs, fmt.Errorf("transport: CertificateFiles.%s is empty", f.field))
		}
	}
	if files.CheckEvery < 0 {
		errs = append(errs, fmt.Errorf("transport: CertificateFiles.CheckEvery %v is negative", files.CheckEvery))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	orDefault(&files.CheckEvery, time.Second)
	if files.Logger == nil {
		files.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Certificates{files: files, log: files.Logger, checked: time.Now()}
	first, err := c.readFiles()
	if err != nil {
		return nil, err
	}
	c.inUse.Store(first)
	return c, nil
}

// Stats checks the files if CheckEvery has passed, and returns the counters.
func (c *Certificates) Stats() CertificateStats {
	return CertificateStats{NotAfter: c.current().leaf.NotAfter, Reloads: c.reloads.Load(), ReloadFailures: c.failures.Load()}
}

// current returns the certificate in use, after a check that is due.
func (c *Certificates) current() *certificate {
	if c.mu.TryLock() {
		defer c.mu.Unlock()
		if now := time.Now(); now.Sub(c.checked) >= c.files.CheckEvery {
			c.checked = now
			c.adoptChanges(now)
		}
	}
	return c.inUse.Load()
}

// adoptChanges adopts the files if they have changed. The caller holds mu.
func (c *Certificates) adoptChanges(now time.Time) {
	former := c.inUse.Load()
	next, err := c.readFiles()
	switch {
	case err != nil:
		if c.failed != err.Error() {
			c.failed = err.Error()
			c.log.Error("certificate files cannot be used; the former stay in use until they expire; see the error, and write sound files",
				slog.Any("error", err), slog.Time("expires", former.leaf.NotAfter))
			c.failures.Add(1) // as below
		}
	case next.sum != former.sum:
		c.inUse.Store(next)
		c.failed, c.warned = "", false
		c.log.Info("certificate files reloaded", slog.Time("expires", next.leaf.NotAfter), slog.Bool("new_key", next.key != former.key))
		c.reloads.Add(1) // last: a reader of the count must find the log line
	default:
		c.failed = ""
	}
	c.warnOfExpiry(now)
}

// warnOfExpiry warns once when less than a fifth of a certificate's life is left: it
// should have been renewed by then.
func (c *Certificates) warnOfExpiry(now time.Time) {
	leaf := c.inUse.Load().leaf
	if left := leaf.NotAfter.Sub(now); !c.warned && left < leaf.NotAfter.Sub(leaf.NotBefore)/5 {
		c.warned = true
		c.log.Warn("the certificate expires soon and was not renewed", slog.Time("expires", leaf.NotAfter), slog.String("file", c.files.Cert))
	}
}

// readFiles reads and checks the files.
func (c *Certificates) readFiles() (*certificate, error) {
	var parts [3][]byte
	sum := sha256.New()
	paths := []string{c.files.Cert, c.files.Key, c.files.CA}
	for i, path := range paths {
		// A file that serves several purposes is read once, so that all parts come from
		// one version of it.
		b := parts[slices.Index(paths, path)]
		if b == nil {
			var err error
			if b, err = readBounded(path); err != nil {
				return nil, fmt.Errorf("transport: certificate files: %w", err)
			}
		}
		parts[i] = b
		fmt.Fprintf(sum, "%d:", len(b)) // a hash takes all
		sum.Write(b)
	}
	cert, err := parseCertificate(parts[0], parts[1], parts[2])
	if err == nil {
		err = cert.verifyForPeers(c.files.Name, time.Now())
	}
	if err != nil {
		return nil, fmt.Errorf("transport: certificate %s, key %s, authorities %s: %w", c.files.Cert, c.files.Key, c.files.CA, err)
	}
	sum.Sum(cert.sum[:0])
	return cert, nil
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, certificateBytesMax+1))
	if err == nil && len(b) > certificateBytesMax {
		err = fmt.Errorf("%s is longer than %d bytes", path, certificateBytesMax)
	}
	return b, err
}

// server returns the config of accepted connections. Each handshake checks the files, not
// the accept loop.
func (c *Certificates) server() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return c.current().server(c.files.Name), nil
	}}
}

// client returns the config of a connection to host.
func (c *Certificates) client(host string) *tls.Config {
	if c.files.Name != "" {
		host = c.files.Name
	}
	return c.current().client(host)
}

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
func (c *certificate) verifyForPeers(name string, now time.Time) error {
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
		return errors.New("transport: TLS.InsecureSkipVerify without VerifyPeerCertificate or VerifyConnection: any certificate would be accepted")
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

// checkServerTLS refuses configs of the accepting side that would admit unknown nodes, or
// with which no node could connect.
func checkServerTLS(cfg *tls.Config) error {
	own := cfg.VerifyPeerCertificate != nil || cfg.VerifyConnection != nil
	switch {
	case len(cfg.Certificates) == 0 && cfg.GetCertificate == nil:
		return errors.New("transport: TLS has no certificate: set Certificates or GetCertificate")
	case cfg.ClientAuth != tls.RequireAndVerifyClientCert && (cfg.ClientAuth != tls.RequireAnyClientCert || !own):
		return fmt.Errorf("transport: TLS.ClientAuth is %v, so anyone could connect: set RequireAndVerifyClientCert", cfg.ClientAuth)
	}
	return nil
}

// checkedServer returns the config of the accepting side. The result of
// GetConfigForClient is checked in each handshake, as the config itself is at start:
// otherwise the callback could admit any node.
func checkedServer(cfg *tls.Config) *tls.Config {
	choose := cfg.GetConfigForClient
	if choose == nil {
		return cfg
	}
	base := cfg.Clone()
	base.GetConfigForClient = nil
	checked := base.Clone()
	checked.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		chosen, err := choose(hello)
		if err != nil {
			return nil, err
		}
		if chosen == nil {
			chosen = base
		}
		return chosen, checkServerTLS(chosen)
	}
	return checked
}
