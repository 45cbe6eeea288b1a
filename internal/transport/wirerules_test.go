package transport

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/wire"
)

// TestRecordsAreTaggedAsDocumented checks the keys and tags of a connection with a shared secret
// against their definition: nodes of all releases must agree on them.
func TestRecordsAreTaggedAsDocumented(t *testing.T) {
	secret, there, here := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32), bytes.Repeat([]byte{3}, 32)
	for _, dialled := range []bool{true, false} {
		c := &sealedConn{dialled: dialled}
		if err := c.derive(secret, here, there); err != nil {
			t.Fatal(err)
		}
		for side, s := range map[string]*sealer{"dialler": &c.out, "acceptor": &c.in} {
			if !dialled {
				s = map[string]*sealer{"dialler": &c.in, "acceptor": &c.out}[side]
			}
			key, err := hkdf.Key(sha256.New, secret, append(bytes.Clone(here), there...), "peerage frames 1 of the "+side, sha256.Size)
			if err != nil {
				t.Fatal(err)
			}
			for number := range uint64(3) {
				mac := hmac.New(sha256.New, key)
				mac.Write(append(binary.BigEndian.AppendUint64(nil, number), "length, bytes"...))
				if got := s.tag([]byte("length, "), []byte("bytes")); !bytes.Equal(got, mac.Sum(nil)[:sealTagBytes]) {
					t.Errorf("dialled %v: record %d of the %s has another tag", dialled, number, side)
				}
			}
		}
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write(append([]byte("peerage hint 1"), here...))
	if got := hintOf(secret, here); !bytes.Equal(got, mac.Sum(nil)[:sealHintBytes]) || bytes.Equal(got, hintOf(secret, there)) {
		t.Errorf("the hint is %x", got)
	}
}

// TestHellosThatAreNone checks that a hello with impossible fields is refused: a setting without a
// name, no node, a purpose that is none; and an answer without a verdict.
func TestHellosThatAreNone(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*hello)
		want   error // nil for any
		good   bool
	}{
		"good":                      {func(*hello) {}, nil, true},
		"for a class":               {func(h *hello) { h.purpose = purpose(classes) - 1 }, nil, true},
		"for a class that is none":  {func(h *hello) { h.purpose = purpose(classes) }, nil, false},
		"below the probe":           {func(h *hello) { h.purpose = purposeProbe - 1 }, nil, false},
		"for a stream":              {func(h *hello) { h.purpose = purposeStream }, nil, true},
		"beyond the last":           {func(h *hello) { h.purpose = purposeStream + 1 }, nil, false},
		"a setting without a name":  {func(h *hello) { h.settings = map[string]string{"": "x"} }, errNameless, false},
		"no node":                   {func(h *hello) { h.ID = 0 }, errNoNodeID, false},
		"a setting without a value": {func(h *hello) { h.settings = map[string]string{"x": ""} }, nil, true},
	} {
		h := &hello{identity: identity{Peer: Peer{ID: 7, Name: "a", Addr: "x:1"}, cluster: "c"}, purpose: purposeProbe}
		c.change(h)
		b := appendHello(nil, h)
		got, err := decodeHello(h.Versions, b[preludeBytes:])
		if (err == nil) != c.good || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if c.good && (got.purpose != h.purpose || got.ID != 7) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if _, err := decodeAnswer(wire.OwnVersions(), nil); err == nil {
		t.Error("an empty answer is one")
	}
}

// TestALinkHasOneOwner checks that a node which is learnt again is dialled once.
func TestALinkHasOneOwner(t *testing.T) {
	inMemory(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		for range 3 {
			a.Learn(b.Self())
		}
		if a.within(time.Minute, func() bool { return a.countLocked(Connected, Control) > 1 }) || a.count(Connected, Control) != 1 || b.Counters().Replaced.Load() != 0 {
			w.Errorf("connected %d times, %d replaced", a.count(Connected, Control), b.Counters().Replaced.Load())
		}
	})
}

// TestFailuresAreForgottenWithAConnection checks that a link which was connected for long redials
// immediately after a loss, however many dials had failed before.
func TestFailuresAreForgottenWithAConnection(t *testing.T) {
	inMemory(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		w.net.SetPaths(a.addr(), b.addr(), Path{Cut: Rejected})
		a.Learn(b.Self())
		a.await("refusals", func() bool { return a.countLocked(Refused, Control) > 20 })
		w.net.Heal()
		a.awaitEvent(Connected, Control, 2)
		passTime(time.Minute)
		before := a.count(Refused, Control)
		since := time.Now()
		w.net.Crash(b.addr())
		a.await("a refusal", func() bool { return a.countLocked(Refused, Control) > before })
		if took := time.Since(since); took > 5*time.Millisecond {
			w.Errorf("redialled %v after the loss", took)
		}
	})
}

// TestANodeDialsItselfForItself checks which nodes are looked for at the own address: this one, and any.
func TestANodeDialsItselfForItself(t *testing.T) {
	inMemory(t, func(w *world) {
		a := w.start(1)
		for want, good := range map[gossip.NodeID]bool{0: true, 1: true, 2: false} {
			conn, peer, err := a.e.dialler.connect(w.ctx(), a.addr(), purposeProbe, want)
			if (err == nil) != good || good && peer.ID != 1 || !good && !errors.Is(err, errOwnAddress) {
				w.Errorf("node %v at the own address: %+v, %v", want, peer, err)
			}
			if err == nil {
				a.e.life.closeConn(conn)
			}
		}
		if a.e.stopCalls(); !a.e.events.muted.Load() {
			w.Error("a dead process has events")
		}
	})
}

// TestUrgentFramesOfAFlowAreExpress checks which frames pass a long backlog: urgent ones of a flow
// whose earlier frames were taken.
func TestUrgentFramesOfAFlowAreExpress(t *testing.T) {
	l := testLink(t)
	l.shared.flows[KindView] = flowOfText
	l.express.credit = expressBytes
	for l.backlog.bytes < expressFrom {
		if err := l.sendFrame(KindView, []byte("7 "+strings.Repeat("x", 10_000))); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]place{"5 x": inBacklog, "5! x": inExpress, "0! x": inBacklog, "7! x": inBacklog} {
		if _, at := l.placeLocked(100, KindView, []byte(text)); at != want {
			t.Errorf("%q waits at %d, want %d", text, at, want)
		}
	}
	if _, at := l.placeLocked(pieceBytes, KindView, []byte("5 x")); at != inBacklog {
		t.Errorf("a frame of one piece waits at %d", at)
	}
	if f, at := l.placeLocked(pieceBytes+1, KindView, []byte("5 x")); at != inLane || f != 5 {
		t.Errorf("a frame of more than a piece, of flow %d, waits at %d", f, at)
	}
	if err := l.sendFrame(KindView, []byte("5! x")); err != nil || l.express.blocks.frames != 1 {
		t.Errorf("%d frames in express: %v", l.express.blocks.frames, err)
	}
	if err := l.sendFrame(KindView, append([]byte("6 "), make([]byte, pieceBytes)...)); err != nil {
		t.Fatal(err)
	}
	n, frames := l.emptyLocked(), l.lanes.frames+l.backlog.frames+l.express.blocks.frames
	if n < 5 || frames != 0 || l.framesLocked() != 0 || l.queued() != 0 || l.backlog.first != nil || len(l.lanes.order) != 0 {
		t.Errorf("%d frames were dropped, %d are left, %d bytes", n, frames, l.queued())
	}
}

// TestARestNeedsNoFurtherFrame checks that the owner writes the rest of a direct write although
// nothing else waits.
func TestARestNeedsNoFurtherFrame(t *testing.T) {
	l := testLink(t)
	l.rest, l.flight, l.flightFrames = []byte("rest"), 4, 1
	if b := l.takeNext(); string(b.bytes) != "rest" {
		t.Errorf("the next block is %q", b.bytes)
	}
	l.broken = errReplaced
	if l.takeNext() != nil {
		t.Error("a broken connection has a next block")
	}
}

// TestTheAdvertisedAddress checks what other nodes are told, by the setting and the listener.
func TestTheAdvertisedAddress(t *testing.T) {
	at, any := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 7101}, &net.TCPAddr{IP: net.IPv4zero, Port: 7101}
	for name, c := range map[string]struct {
		advertise string
		at        *net.TCPAddr
		want      string // "" for an error
	}{
		"by the listener":          {"", at, "10.0.0.1:7101"},
		"every address":            {"", any, ""},
		"set":                      {"host.example:9", any, "host.example:9"},
		"the port of the listener": {"host.example:0", any, "host.example:7101"},
		"no host":                  {":7101", at, ""},
		"no port":                  {"host.example", at, ""},
		"the longest":              {strings.Repeat("x", addrBytesMax-2) + ":9", at, strings.Repeat("x", addrBytesMax-2) + ":9"},
		"too long":                 {strings.Repeat("x", addrBytesMax-1) + ":9", at, ""},
	} {
		if got, err := advertised(c.advertise, c.at); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestDatagramsGoToNamesToo checks that a datagram is sent to an address with a name of a host.
func TestDatagramsGoToNamesToo(t *testing.T) {
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = udp.Close() }()
	s := &sockets{udp: udp}
	_, port, err := net.SplitHostPort(udp.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "localhost"} {
		if err := s.writePacket([]byte(host), net.JoinHostPort(host, port)); err != nil {
			t.Fatal(err)
		}
		if err := udp.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		if n, _, err := udp.ReadFromUDP(b); err != nil || string(b[:n]) != host {
			t.Errorf("to %s: %q, %v", host, b[:n], err)
		}
	}
	if err := s.writePacket(nil, "no port"); err == nil {
		t.Error("an address without a port is one")
	}
}

// TestTheCertificateOfAConfig checks which certificate a config is known to show.
func TestTheCertificateOfAConfig(t *testing.T) {
	shown := newAuthority(t).mutual(t).Certificates
	der, leafless := shown[0], shown[0]
	leafless.Leaf = nil
	parsed, err := x509.ParseCertificate(der.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cfg  *tls.Config
		want bool
	}{
		"no config":      {nil, false},
		"none":           {&tls.Config{}, false},
		"with its leaf":  {&tls.Config{Certificates: []tls.Certificate{{Leaf: parsed}}}, true},
		"without a leaf": {&tls.Config{Certificates: []tls.Certificate{leafless}}, true},
		"without bytes":  {&tls.Config{Certificates: []tls.Certificate{{}}}, false},
		"malformed":      {&tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{{1}}}}}, false},
		"by a function": {&tls.Config{Certificates: shown,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, nil }}, false},
		"by another config": {&tls.Config{Certificates: shown,
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, nil }}, false},
	} {
		if leaf := staticLeaf(c.cfg); (leaf != nil) != c.want || leaf != nil && !leaf.Equal(parsed) {
			t.Errorf("%s: %v", name, leaf)
		}
	}
}

// TestEndsOfConnectionsInMemory checks that the calls of a dead process keep their deadlines, that
// bytes which a cut held are lost with the connection, and that a cut of one direction ends idle
// connections as well.
func TestEndsOfConnectionsInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b := twoHosts(t, NetworkConfig{})
		near, far := connection(t, a, b)
		if _, err := near.Write([]byte("abc")); err != nil {
			t.Fatal(err)
		}
		n.SetPaths(a.addr, b.addr, Path{Cut: Dropped})
		if _, err := near.Write([]byte("defgh")); err != nil || far.(*memConn).unread() != 8 {
			t.Errorf("%d bytes are on their way: %v", far.(*memConn).unread(), err)
		}
		if passTime(6 * time.Second); far.(*memConn).unread() != 3 {
			t.Errorf("%d bytes are unread, want those that arrived", far.(*memConn).unread())
		}
	})
	for _, forth := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			n, a, b := twoHosts(t, NetworkConfig{})
			near, _ := connection(t, a, b)
			began := time.Now()
			if from, to := a.addr, b.addr; forth {
				n.SetPath(from, to, Path{Cut: Dropped})
			} else {
				n.SetPath(to, from, Path{Cut: Dropped})
			}
			if _, err := near.Read(make([]byte, 1)); err == nil || time.Since(began) != 8*time.Second {
				t.Errorf("forth %v: ended after %v: %v", forth, time.Since(began), err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		n, a, b := twoHosts(t, NetworkConfig{})
		near, _ := connection(t, a, b)
		if err := near.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		n.Crash(a.addr)
		if _, err := near.Read(make([]byte, 1)); err == nil || time.Since(began) != time.Second {
			t.Errorf("a read of a dead process ended after %v: %v", time.Since(began), err)
		}
	})
}

// TestALostListenerIsKnownByItsErrors checks which errors mean that waiting is of no use.
func TestALostListenerIsKnownByItsErrors(t *testing.T) {
	for err, want := range map[error]bool{
		syscall.EINVAL: true, syscall.EBADF: true, syscall.ENOTSOCK: true, syscall.EMFILE: false, syscall.ECONNABORTED: false, nil: false,
	} {
		if got := listenerLost(err); got != want {
			t.Errorf("%v: lost %v", err, got)
		}
	}
}

// TestBoundsOfHandshakes checks the last value within a bound, and the first one beyond it: of hellos, of
// shared secrets, and of the life of a certificate that is left.
func TestBoundsOfHandshakes(t *testing.T) {
	for n, good := range map[int]bool{0: true, helloBytesMax: true, helloBytesMax + 1: false} {
		if _, got, err := decodePrelude(appendPrelude(nil, wire.OwnVersions(), n)); (err == nil) != good || good && got != n {
			t.Errorf("a hello of %d bytes: %d, %v", n, got, err)
		}
	}
	secret := make([]byte, secretBytesMin)
	for _, c := range []struct {
		n    int
		last []byte
		good bool
	}{{0, nil, true}, {secretsMax, secret, true}, {secretsMax + 1, secret, false}, {1, secret[1:], false}} {
		all := make([][]byte, c.n)
		for i := range all {
			all[i] = secret
		}
		if c.n > 0 {
			all[c.n-1] = c.last
		}
		if err := checkSecrets(all); (err == nil) != c.good {
			t.Errorf("%d secrets, the last of %d bytes: %v", c.n, len(c.last), err)
		}
	}
	ca := newAuthority(t)
	f := newCertFiles(t, ca.issue(t), ca)
	c := f.load()
	leaf := c.inUse.Load().leaf
	fifth := leaf.NotAfter.Add(-leaf.NotAfter.Sub(leaf.NotBefore) / 5)
	if c.warnOfExpiry(fifth); f.count("expires soon") != 0 {
		t.Error("a certificate with a fifth of its life is about to expire")
	}
	if c.warnOfExpiry(fifth.Add(1)); f.count("expires soon") != 1 {
		t.Error("a certificate with less than a fifth of its life is not about to expire")
	}
}

// TestUnverifiedPeersNeedAnOwnCheck checks that a config which skips the verification of servers is
// accepted only with a function that verifies.
func TestUnverifiedPeersNeedAnOwnCheck(t *testing.T) {
	for _, own := range []bool{false, true} {
		cfg := newAuthority(t).mutual(t)
		cfg.InsecureSkipVerify = true
		if own {
			cfg.VerifyConnection = func(tls.ConnectionState) error { return nil }
		}
		if err := checkTLS(cfg, time.Now()); (err == nil) != own {
			t.Errorf("with its own check %v: %v", own, err)
		}
	}
}

// TestANodeStaysAtItsHost checks that a node which connects from another host than before is refused, with
// a reason that names both, and that no stranger is on a network in memory.
func TestANodeStaysAtItsHost(t *testing.T) {
	c := credentials{keys: newKeyTable(10, func(gossip.NodeID) bool { return true })}
	h := &hello{identity: identity{Peer: Peer{ID: 7, Name: "a", Addr: "x:1"}}, purpose: purpose(Message)}
	if r := c.bindSource(addressed{from: "192.0.2.1:5"}, h); r != nil {
		t.Errorf("the first host: %+v", r)
	}
	r := c.bindSource(addressed{from: "192.0.2.2:5"}, h)
	if r == nil || r.code != FailIdentity || !strings.Contains(r.reason, "192.0.2.2") || !strings.Contains(r.reason, "x:1") {
		t.Errorf("another host: %+v", r)
	}
	if r := c.bindSource(addressed{from: "192.0.2.1:6"}, h); r != nil {
		t.Errorf("the first host again: %+v", r)
	}
	h.purpose = purposeProbe
	if r := c.bindSource(addressed{from: "192.0.2.2:5"}, h); r != nil {
		t.Errorf("a probe: %+v", r)
	}
	inMemory(t, func(w *world) {
		if !w.make(1, "").e.Authenticated() {
			w.Error("a network in memory has strangers")
		}
	})
}
