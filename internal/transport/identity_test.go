package transport

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/wire"
)

func rsaKey(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// client returns the config of a stranger that trusts this authority and shows p.
func (a *authority) client(t *testing.T, p pair) *tls.Config {
	t.Helper()
	cfg := &tls.Config{RootCAs: a.pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS13}
	if p.cert == nil {
		return cfg
	}
	cert, err := tls.X509KeyPair(p.cert, p.key)
	if err != nil {
		t.Fatal(err)
	}
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	return cfg
}

// introduce sends a hello to n over TLS and returns its answer.
func (w *world) introduce(n *node, cfg *tls.Config, hello []byte) (*answer, error) {
	w.Helper()
	conn, err := tls.Dial("tcp", n.Self().Addr, cfg)
	if err != nil {
		return nil, err
	}
	w.Cleanup(func() { _ = conn.Close() })
	return talk(conn, hello)
}

func talk(conn *tls.Conn, hello []byte) (*answer, error) {
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	if _, err := conn.Write(hello); err != nil {
		return nil, err
	}
	version, body, err := readPreluded(conn)
	if err != nil {
		return nil, err
	}
	return decodeAnswer(version, body)
}

// turnedAway expects that a TLS client is turned away by n, and counted.
func (w *world) turnedAway(n *node, cfg *tls.Config, want string) {
	w.Helper()
	before := n.Counters().HandshakeFailures[FailTLS].Load()
	if a, err := w.introduce(n, cfg, validHello(nil)); err == nil || !strings.Contains(err.Error(), want) {
		w.Errorf("answer %+v, error %v; want %q", a, err, want)
	}
	w.poll("counted", func() bool { return n.Counters().HandshakeFailures[FailTLS].Load() == before+1 })
}

func TestNodesWithoutAGoodCertificateStayOut(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	f := newCertFiles(t, ca.sign(t, newKey(t), func(c *x509.Certificate) { c.DNSNames = []string{"peerage.example"} }), ca)
	f.Name = "peerage.example"
	named := func(c *x509.Certificate) { c.DNSNames = []string{"peerage.example"} }
	var log logBook
	w := &world{T: t}
	b := w.withFiles(2, f, log.configure)
	for name, c := range map[string]struct {
		shown pair
		want  string
	}{
		"none":                 {pair{}, "certificate required"},
		"of another authority": {other.sign(t, newKey(t), named), "unknown certificate authority"},
		"expired": {ca.sign(t, newKey(t), func(c *x509.Certificate) { named(c); c.NotAfter = time.Now().Add(-time.Minute) }),
			"expired certificate"},
		"not yet valid": {ca.sign(t, newKey(t), func(c *x509.Certificate) { named(c); c.NotBefore = time.Now().Add(time.Minute) }),
			"expired certificate"},
		"for servers only": {ca.sign(t, newKey(t), func(c *x509.Certificate) { named(c); c.ExtKeyUsage = c.ExtKeyUsage[:1] }),
			"bad certificate"},
		"of another name": {ca.issue(t), "bad certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			(&world{T: t}).turnedAway(b, ca.client(t, c.shown), c.want)
		})
	}
	if n := log.count("failure=tls"); n != 6 {
		t.Errorf("%d lines:\n%s", n, &log.out)
	}
}

// A dialling node rejects a bad certificate, too.
func TestTheOneDialledIsJudgedToo(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	w := &world{T: t}
	a := w.withFiles(1, newCertFiles(t, ca.issue(t), ca))
	for want, shown := range map[string]pair{
		"unknown authority": other.issue(t),
		"expired": ca.sign(t, newKey(t), func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
		}),
		"doesn't contain any IP SANs": ca.sign(t, newKey(t), func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"x"} }),
	} {
		l, err := tls.Listen("tcp", "127.0.0.1:0", ca.config(t, shown))
		if err != nil {
			t.Fatal(err)
		}
		var serving sync.WaitGroup
		serving.Go(func() {
			conn, err := l.Accept()
			if err == nil {
				_, _ = io.Copy(io.Discard, conn) // until it is hung up
				_ = conn.Close()
			}
		})
		_, err = a.Probe(w.ctx(), l.Addr().String())
		var refused *RefusedError
		if err == nil || errors.As(err, &refused) || errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
		_ = l.Close()
		serving.Wait()
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
	s, err := a.DialStream(b.Self().Addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if stats, ok := a.Counters().Certificates(); !ok || time.Until(stats.NotAfter) < time.Minute {
		t.Errorf("statistics of a fixed certificate: %+v, %v", stats, ok)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	a.awaitEvent(Lost, Control, 2)
	a.awaitEvent(Refused, Control, 2)
}

// Only the holder of the key with which a NodeID was first bound can act as that node,
// whether it dials or answers.
func TestANodeIDBelongsToOneKey(t *testing.T) {
	w := &world{T: t}
	ca := newAuthority(t)
	var log logBook
	a := w.withFiles(1, newCertFiles(t, ca.issue(t), ca))
	b := w.withFiles(2, newCertFiles(t, ca.issue(t), ca), log.configure)
	a.Learn(b.Self())
	a.send(b, Message, "x")
	b.awaitFrames(1)

	impostor := w.withFiles(1, newCertFiles(t, ca.issue(t), ca))
	for what, try := range map[string]func() error{
		"probe":  func() error { _, err := impostor.Probe(w.ctx(), b.Self().Addr); return err },
		"stream": func() error { _, err := impostor.DialStream(b.Self().Addr, patience); return err },
		"class": func() error {
			_, _, err := impostor.e.dialler.connect(w.ctx(), b.Self().Addr, purpose(Message), 2)
			return err
		},
		"answer": func() error { _, err := b.Probe(w.ctx(), impostor.Self().Addr); return err },
	} {
		var refused *RefusedError
		if err := try(); !errors.As(err, &refused) || refused.Code != FailIdentity {
			t.Errorf("%s: %v", what, err)
		}
	}
	if in, out := b.Counters().HandshakeFailures[FailIdentity].Load(), b.Counters().DialRefusals[FailIdentity].Load(); in != 3 || out != 1 {
		t.Errorf("counted %d who dialled and %d who answered", in, out)
	}
	// A line for those that dialled from one host, and one for the answer.
	if n := log.count("is bound to the certificate key " + a.e.credentials.first.key.String()); n != 2 {
		t.Errorf("%d lines:\n%s", n, &log.out)
	}
	a.send(b, Message, "y")
	b.awaitFrames(2)
}

// The hello of a node, recorded and sent again by the holder of another
// certificate, gets nowhere: while it lives, after it has gone, and after it was
// removed.
func TestAReplayedHelloIsRefused(t *testing.T) {
	w := &world{T: t}
	ca := newAuthority(t)
	a := w.withFiles(1, newCertFiles(t, ca.issue(t), ca))
	b := w.withFiles(2, newCertFiles(t, ca.issue(t), ca))
	a.Learn(b.Self())
	b.awaitEvent(Accepted, Control, 1)
	hello := appendHello(nil, &hello{identity: a.e.credentials.self, purpose: purpose(Control), number: 1000, want: 2})
	thief := ca.client(t, ca.issue(t))
	expect := func(when string, code Failure) {
		t.Helper()
		before := b.Counters().HandshakeFailures[code].Load()
		got, err := w.introduce(b, thief, hello)
		if err != nil || got.verdict != verdictRefused || got.refusal.code != code {
			t.Errorf("%s: answer %+v, %v", when, got, err)
		}
		if n := b.Counters().HandshakeFailures[code].Load(); n != before+1 {
			t.Errorf("%s: counted %d", when, n-before)
		}
	}
	expect("while it lives", FailIdentity)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	b.awaitEvent(AcceptedLost, Control, 1)
	expect("after it has gone", FailIdentity)
	b.Forget(1)
	expect("after it was removed", FailForgotten)
}

// Only the holder of a key can prove it, and only on the connection at hand.
func TestProofsOfFormerKeysCannotBeForged(t *testing.T) {
	w := &world{T: t}
	ca := newAuthority(t)
	victim := newCertFiles(t, ca.issue(t), ca).load().current()
	b := w.withFiles(2, newCertFiles(t, ca.issue(t), ca))
	other := newCertFiles(t, ca.issue(t), ca).load().current()
	dial := func() *tls.Conn {
		conn, err := tls.Dial("tcp", b.Self().Addr, ca.client(t, ca.issue(t)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	proof := func(c *certificate, conn *tls.Conn, who side, id gossip.NodeID) keyProof {
		p, err := prove(c, conn.ConnectionState(), who, id)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for name, c := range map[string]struct {
		proof func(*tls.Conn) keyProof
		good  bool
	}{
		"good":                  {func(c *tls.Conn) keyProof { return proof(victim, c, dialling, 9) }, true},
		"of another connection": {func(*tls.Conn) keyProof { return proof(victim, dial(), dialling, 9) }, false},
		"of the other side":     {func(c *tls.Conn) keyProof { return proof(victim, c, accepting, 9) }, false},
		"of another node":       {func(c *tls.Conn) keyProof { return proof(victim, c, dialling, 8) }, false},
		"by another key": {func(c *tls.Conn) keyProof {
			return keyProof{victim.leaf.RawSubjectPublicKeyInfo, proof(other, c, dialling, 9).signature}
		}, false},
		"no signature": {func(*tls.Conn) keyProof { return keyProof{key: victim.leaf.RawSubjectPublicKeyInfo} }, false},
		"no key":       {func(*tls.Conn) keyProof { return keyProof{key: []byte("x"), signature: []byte("y")} }, false},
	} {
		conn := dial()
		a, err := talk(conn, validHello(func(h *hello) { h.Addr, h.purpose, h.proof = "127.0.0.1:9", purposeProbe, c.proof(conn) }))
		if err != nil || (a.verdict == verdictWelcome) != c.good || !c.good && a.refusal.code != FailIdentity {
			t.Errorf("%s: answer %+v, %v", name, a, err)
		}
	}
}

// A hello with the receiver's own NodeID is refused, with and without TLS.
func TestOnlyTheKeyHolderIsThisNode(t *testing.T) {
	everywhere(t, func(w *world) {
		b := w.start(2)
		conn := w.stranger(b)
		if _, err := conn.Write(validHello(func(h *hello) { h.ID, h.purpose = 2, purpose(Message) })); err != nil {
			w.Fatal(err)
		}
		sent := w.hung(conn)
		if len(sent) < preludeBytes {
			w.Fatalf("answer %q", sent)
		}
		if a, err := decodeAnswer(wire.OwnVersions(), sent[preludeBytes:]); err != nil || a.refusal.code != FailIdentity {
			w.Errorf("answer %+v, %v", a, err)
		}
		if n := b.Counters().HandshakeFailures[FailIdentity].Load(); n != 1 {
			w.Errorf("counted %d", n)
		}
		if _, err := b.Probe(w.ctx(), b.Self().Addr); err != nil {
			w.Errorf("it may meet itself at a contact point: %v", err)
		}
	})
	w := &world{T: t}
	ca := newAuthority(t)
	b := w.withFiles(2, newCertFiles(t, ca.issue(t), ca))
	a, err := w.introduce(b, ca.client(t, ca.issue(t)), validHello(func(h *hello) { h.ID, h.purpose = 2, purposeProbe }))
	if err != nil || a.refusal.code != FailIdentity {
		t.Errorf("a probe in our name with another key: %+v, %v", a, err)
	}
}

func TestKeysAreABoundedNumber(t *testing.T) {
	live := map[gossip.NodeID]bool{1: true, 2: true}
	table := newKeyTable(4, func(id gossip.NodeID) bool { return live[id] })
	key := func(b byte) keyHash { return keyHash{b} }
	for id := gossip.NodeID(1); id <= 20; id++ {
		if r := table.claim(id, key(byte(id))); r != nil {
			t.Fatalf("node %d: %v", id, r)
		}
		if len(table.byID) > 4 || len(table.order) != len(table.byID) {
			t.Fatalf("%d bound, %d in order", len(table.byID), len(table.order))
		}
	}
	for id := range live {
		if r := table.claim(id, key(99)); r == nil || r.code != FailIdentity {
			t.Errorf("node %d, which lives, was bound anew", id)
		}
	}
	live[19], live[20] = true, true
	if r := table.claim(30, key(30)); r == nil || r.code != FailBusy {
		t.Errorf("with live ones only: %v", r)
	}
	if r := table.claim(20, key(20)); r != nil {
		t.Errorf("a live one: %v", r)
	}
}

// A handshake that is not finished in TLS is cut off like any other.
func TestASlowTLSHandshakeIsCutOff(t *testing.T) {
	w := &world{T: t}
	timeout := 50 * time.Millisecond
	ca := newAuthority(t)
	for _, sent := range []string{"", "\x16\x03\x01\x02\x00\x01"} {
		b := w.withFiles(2, newCertFiles(t, ca.issue(t), ca), quickHandshake)
		conn := w.stranger(b)
		if _, err := conn.Write([]byte(sent)); err != nil {
			t.Fatal(err)
		}
		w.hung(conn)
		w.poll("counted", func() bool { return b.Counters().HandshakeFailures[FailTimeout].Load() == 1 })
		w.poll("the slot is free", func() bool { return b.Counters().Strangers.Load() == 0 })
	}
	// And after TLS, with a good certificate and half a hello. A machine that is too slow
	// for TLS within the time gets more of it.
	w.poll("half a hello behind TLS", func() bool {
		timeout *= 2
		b := w.withFiles(2, newCertFiles(t, ca.issue(t), ca), func(c *Config) { c.HandshakeTimeout = timeout })
		conn, err := tls.Dial("tcp", b.Self().Addr, ca.client(t, ca.issue(t)))
		if err != nil {
			return false
		}
		defer conn.Close()
		if _, err := conn.Write(validHello(nil)[:9]); err != nil {
			return false
		}
		w.hung(conn)
		w.poll("counted", func() bool { return b.Counters().HandshakeFailures[FailTimeout].Load() == 1 })
		return true
	})
}

// A dialled host that sends no byte of TLS is given up, too, and does not delay Close.
func TestADialIntoSilenceEnds(t *testing.T) {
	w := &world{T: t}
	ca := newAuthority(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // its backlog accepts
	a := w.withFiles(1, newCertFiles(t, ca.issue(t), ca), quickHandshake)
	if _, err := a.Probe(w.ctx(), l.Addr().String()); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v", err)
	}
	b := w.withFiles(2, newCertFiles(t, ca.issue(t), ca), func(c *Config) { c.HandshakeTimeout = time.Hour })
	b.Learn(Peer{ID: 3, Addr: l.Addr().String()})
	w.poll("it waits", func() bool { return b.Counters().Dials.Load() == 1 })
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
