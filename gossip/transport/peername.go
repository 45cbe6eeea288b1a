package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
)

// checkServerTLS refuses configs of the accepting side with which strangers would be
// let in, or with which no node could connect.
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

// checkedServer returns the config of the accepting side. What GetConfigForClient
// returns is checked in each handshake, as the config itself is at start: the callback
// could otherwise let anyone in.
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
// is reached: unless the application has said by which other name its nodes are known,
// or judges certificates itself.
func asksForHost(cfg *TCPConfig) bool {
	if cfg.Certificates != nil {
		return cfg.Certificates.files.Name == ""
	}
	t := cfg.TLS
	return t != nil && t.ServerName == "" && !t.InsecureSkipVerify && t.VerifyConnection == nil &&
		t.VerifyPeerCertificate == nil && t.GetConfigForClient == nil
}

// namesHost reports why the far end must not be the node that it says it is: its
// certificate does not name the host of its address. The side that dials has asked for
// the host that it dialled; this asks for the one that a node names itself, on both
// sides.
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
