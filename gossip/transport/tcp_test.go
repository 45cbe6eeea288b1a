package transport

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// authority signs certificates for 127.0.0.1.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
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
	return &authority{cert, key, pool}
}

// mutual returns a config for mutual TLS with a certificate of this authority.
func (a *authority) mutual(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "node"},
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		RootCAs: a.pool, ClientCAs: a.pool, ClientAuth: tls.RequireAndVerifyClientCert}
}

func (w *world) secure(id int, cfg *tls.Config) *node {
	w.Helper()
	w.tls = cfg
	defer func() { w.tls = nil }()
	n := w.make(nodeID(id), "")
	n.run()
	return n
}

func TestMutualTLS(t *testing.T) {
	w := &world{T: t}
	ca := newAuthority(t)
	a, b := w.secure(1, ca.mutual(t)), w.secure(2, ca.mutual(t))
	a.Learn(b.Self())
	b.Learn(a.Self())
	a.awaitEvent(Connected, Control, 2)
	for i := range 100 {
		a.send(b, Message, fmt.Sprint(i))
		b.send(a, Message, fmt.Sprint(i))
	}
	b.awaitFrames(100)
	a.awaitFrames(100)
	s, err := a.DialStream(b.Self().Addr, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	a.awaitEvent(Lost, Control, 2)
	a.awaitEvent(Refused, Control, 2)
}

func TestNodesWithoutAGoodCertificateStayOut(t *testing.T) {
	w := &world{T: t}
	ca, other := newAuthority(t), newAuthority(t)
	b := w.secure(2, ca.mutual(t))
	forged := other.mutual(t)
	forged.RootCAs = ca.pool // it believes us; we do not believe it
	without := ca.mutual(t)
	without.Certificates = nil
	want := uint64(0)
	for name, cfg := range map[string]*tls.Config{"of another authority": forged, "none": without} {
		a := w.secure(1, cfg)
		_, err := a.Probe(w.ctx(), b.Self().Addr)
		var refused *RefusedError
		if err == nil || errors.As(err, &refused) || errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: %v", name, err)
		}
		want++
		w.poll("counted", func() bool { return b.Counters().HandshakeFailures[FailTLS].Load() == want })
	}
	unbelieving := other.mutual(t)
	a := w.secure(1, unbelieving)
	if _, err := a.Probe(w.ctx(), b.Self().Addr); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("a node that does not believe us: %v", err)
	}
}

func TestPlainAndTLSNodesDoNotMeet(t *testing.T) {
	w := &world{T: t}
	ca := newAuthority(t)
	plain, secure := w.start(1), w.secure(2, ca.mutual(t))
	if _, err := plain.Probe(w.ctx(), secure.Self().Addr); err == nil {
		t.Error("a plain node got through to a secure one")
	}
	if _, err := secure.Probe(w.ctx(), plain.Self().Addr); err == nil {
		t.Error("a secure node got through to a plain one")
	}
	w.poll("counted", func() bool {
		return plain.Counters().HandshakeFailures[FailNotOurs].Load() == 1 &&
			secure.Counters().HandshakeFailures[FailTLS].Load() == 1
	})
}

func TestTCPTakesOnePortForBoth(t *testing.T) {
	for range 20 {
		tr, err := NewTCP(TCPConfig{Config: Config{ID: 1, Name: "a", Cluster: "c"}, Listen: "127.0.0.1:0", Advertise: "example.org:0"})
		if err != nil {
			t.Fatal(err)
		}
		s := tr.net.(*sockets)
		tcp, udp := s.tcp.Addr().(*net.TCPAddr).Port, s.udp.LocalAddr().(*net.UDPAddr).Port
		if tcp != udp || tr.Self().Addr != fmt.Sprintf("example.org:%d", tcp) {
			t.Errorf("TCP %d, UDP %d, advertised %s", tcp, udp, tr.Self().Addr)
		}
		if err := tr.Close(); err != nil { // never started
			t.Error(err)
		}
	}
}

func TestTCPSaysWhatIsWrong(t *testing.T) {
	good := Config{ID: 1, Name: "a", Cluster: "c"}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for name, c := range map[string]struct {
		cfg  TCPConfig
		want string
	}{
		"no port":         {TCPConfig{Config: good, Listen: "127.0.0.1"}, "Listen"},
		"no host":         {TCPConfig{Config: good, Listen: ":0"}, "Advertise"},
		"bad advertise":   {TCPConfig{Config: good, Advertise: "x"}, `Advertise "x"`},
		"long advertise":  {TCPConfig{Config: good, Advertise: strings.Repeat("x", 300) + ":1"}, "longer"},
		"in use":          {TCPConfig{Config: good, Listen: busy.Addr().String()}, "address already in use"},
		"invalid config":  {TCPConfig{}, "ID is zero"},
		"not our address": {TCPConfig{Config: good, Listen: "192.0.2.1:0"}, "cannot assign"},
	} {
		tr, err := NewTCP(c.cfg)
		if err == nil {
			t.Errorf("%s: no error", name)
			_ = tr.Close()
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q does not say %q", name, err, c.want)
		}
	}
}
