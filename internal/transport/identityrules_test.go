package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// TestCertificatesNameTheHostUnlessTheyAreCheckedOtherwise checks when a node's certificate must name the
// host at which the node is reached.
func TestCertificatesNameTheHostUnlessTheyAreCheckedOtherwise(t *testing.T) {
	with := func(change func(*tls.Config)) *TCPConfig {
		cfg := &tls.Config{}
		change(cfg)
		return &TCPConfig{TLS: cfg}
	}
	peer := func([][]byte, [][]*x509.Certificate) error { return nil }
	for name, c := range map[string]struct {
		cfg  *TCPConfig
		want bool
	}{
		"in the clear":         {&TCPConfig{}, false},
		"a config":             {with(func(*tls.Config) {}), true},
		"another name":         {with(func(c *tls.Config) { c.ServerName = "node" }), false},
		"no verification":      {with(func(c *tls.Config) { c.InsecureSkipVerify = true }), false},
		"verified connections": {with(func(c *tls.Config) { c.VerifyConnection = func(tls.ConnectionState) error { return nil } }), false},
		"verified peers":       {with(func(c *tls.Config) { c.VerifyPeerCertificate = peer }), false},
		"a config by the client": {with(func(c *tls.Config) {
			c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, nil }
		}), false},
		"files":                 {&TCPConfig{Certificates: &Certificates{}}, true},
		"files of another name": {&TCPConfig{Certificates: &Certificates{files: CertificateFiles{Name: "node"}}}, false},
	} {
		if got := asksForHost(c.cfg); got != c.want {
			t.Errorf("%s: must name the host: %v", name, got)
		}
	}
}

// TestFilesNameTheirNodes checks that a node dials others by the name of its certificate files, or by their
// host; and that it proves its former key only after the files have changed.
func TestFilesNameTheirNodes(t *testing.T) {
	ca := newAuthority(t)
	f := newCertFiles(t, ca.issue(t), ca)
	for name, want := range map[string]string{"": "host", "node": "node"} {
		certs := f.load()
		certs.files.Name = name
		if got := certs.client("host").ServerName; got != want {
			t.Errorf("files of %q: dialled as %q, want %q", name, got, want)
		}
		c := credentials{certificates: certs, first: certs.current()}
		if id, err := c.presentOn(secureConn{}, dialling); err != nil || id.proof.key != nil {
			t.Errorf("a node that has its first key proves it: %v", err)
		}
	}
}

// TestAnAddressThatIsNoneIsReportedWithCertificates checks that the error is that of the address.
func TestAnAddressThatIsNoneIsReportedWithCertificates(t *testing.T) {
	ca := newAuthority(t)
	certs := newCertFiles(t, ca.issue(t), ca).load()
	_, err := NewTCP(TCPConfig{Config: Config{ID: 1, Name: "a", Cluster: "c"}, Certificates: certs, Advertise: "no port"})
	if err == nil || !strings.Contains(err.Error(), "Advertise") {
		t.Errorf("no address to advertise: %v", err)
	}
}

// TestRecordsOfRawStreamsHaveALength checks that a record without bytes, or of too many, ends a stream as a
// corrupt one, also if its checksum fits.
func TestRecordsOfRawStreamsHaveALength(t *testing.T) {
	record := func(n int) []byte {
		length := [4]byte(binary.BigEndian.AppendUint32(nil, uint32(n)))
		body := make([]byte, n)
		return append(binary.BigEndian.AppendUint64(length[:], recordSum(length, body)), body...)
	}
	for n, want := range map[int]error{0: errRecordSum, 1: nil, recordBytesMax: nil, recordBytesMax + 1: errRecordSum} {
		corrupt := 0
		c := &summedConn{Conn: readConn{Reader: bytes.NewReader(record(n))}, corrupt: func() { corrupt++ }}
		got, err := io.ReadAll(c)
		if !errors.Is(err, want) || (corrupt > 0) != (want != nil) || want == nil && len(got) != n {
			t.Errorf("a record of %d bytes: read %d, %v", n, len(got), err)
		}
	}
}

// readConn is a connection that returns what a reader has.
type readConn struct {
	net.Conn
	io.Reader
}

func (c readConn) Read(b []byte) (int, error) { return c.Reader.Read(b) }

// TestAProbeLeavesNoConnection checks that the connection of a probe is closed when the probe has its answer.
func TestAProbeLeavesNoConnection(t *testing.T) {
	inMemory(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		ctx, cancel := context.WithTimeout(w.Context(), patience)
		defer cancel()
		p, err := a.Probe(ctx, b.addr())
		if err != nil || p.ID != 2 {
			w.Fatalf("%+v, %v", p, err)
		}
		synctest.Wait()
		a.e.life.mu.Lock()
		defer a.e.life.mu.Unlock()
		if left := len(a.e.life.conns); left != 0 {
			w.Errorf("%d connections are open after the probe", left)
		}
	})
}

// TestEachLossOfALongConnectionIsRedialledImmediately checks that connections which lasted are no reason to
// back off, however many are lost, and that short ones are.
func TestEachLossOfALongConnectionIsRedialledImmediately(t *testing.T) {
	for lasted, want := range map[time.Duration]bool{time.Minute: true, time.Millisecond: false} {
		inMemory(t, func(w *world) {
			a, b := w.start(1), w.start(2)
			a.Learn(b.Self())
			a.awaitEvent(Connected, Control, 2)
			immediate := true
			for i := range 4 {
				passTime(lasted)
				since := time.Now()
				b.sever(1, Control, 0)
				a.await("the next connection", func() bool { return a.countLocked(Connected, Control) == i+2 })
				immediate = immediate && time.Since(since) == 0
			}
			if immediate != want {
				w.Errorf("connections of %v are redialled immediately: %v", lasted, immediate)
			}
		})
	}
}

// TestNodesWithoutAControlConnectionMayBeDropped checks that the end of dropped nodes' connections passes
// nodes that have none.
func TestNodesWithoutAControlConnectionMayBeDropped(t *testing.T) {
	inMemory(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		a.Learn(b.Self())
		b.await("an accepted connection", func() bool { return b.countLocked(Accepted, Control) == 1 })
		b.SetMembers(1, 2, 3)
		b.SetMembers(2)
		b.e.inbounds.endDropped([]gossip.NodeID{3, 1, 2})
		b.await("the end of the dropped node's", func() bool { return b.countLocked(AcceptedLost, Control) >= 1 })
	})
}
