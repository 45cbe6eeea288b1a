package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
)

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

// asksForHost reports whether a node's certificate must name the host at which the node
// is reached: unless the application has set another name for its nodes, or verifies
// certificates itself.
func asksForHost(cfg *TCPConfig) bool {
	if cfg.Certificates != nil {
		return cfg.Certificates.files.Name == ""
	}
	t := cfg.TLS
	return t != nil && t.ServerName == "" && !t.InsecureSkipVerify && t.VerifyConnection == nil &&
		t.VerifyPeerCertificate == nil && t.GetConfigForClient == nil
}

// namesHost refuses a far end whose certificate does not name the host of its advertised
// address. The dialling side has already checked the dialled host; namesHost checks the
// advertised one, on both sides.
func (e *engine) namesHost(cert *x509.Certificate, id *identity) *refusal {
	if !e.judgesHost {
		return nil
	}
	host, _, err := net.SplitHostPort(id.Addr)
	if err == nil {
		err = cert.VerifyHostname(host)
	}
	if err != nil {
		return &refusal{code: FailIdentity, reason: fmt.Sprintf("the certificate shown does not stand for %s: %v", id, err)}
	}
	return nil
}
