package transport

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// TestLimitsOfAConfig checks that a setting at its limit is accepted, and that one beyond it is reported.
func TestLimitsOfAConfig(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	settings := func(n int) map[string]string {
		all := map[string]string{}
		for i := range n {
			all[fmt.Sprint(i)] = ""
		}
		return all
	}
	for name, c := range map[string]struct {
		change func(*Config)
		want   string // "" for a good one
	}{
		"the longest name":         {func(c *Config) { c.Name = long(nameBytesMax) }, ""},
		"a longer name":            {func(c *Config) { c.Name = long(nameBytesMax + 1) }, "Name"},
		"the longest cluster":      {func(c *Config) { c.Cluster = long(nameBytesMax) }, ""},
		"a longer cluster":         {func(c *Config) { c.Cluster = long(nameBytesMax + 1) }, "Cluster"},
		"as many settings":         {func(c *Config) { c.Settings = settings(settingsMax) }, ""},
		"more settings":            {func(c *Config) { c.Settings = settings(settingsMax + 1) }, "Settings has 65"},
		"the longest setting":      {func(c *Config) { c.Settings = map[string]string{long(settingNameMax): long(settingValueMax)} }, ""},
		"a longer name of one":     {func(c *Config) { c.Settings = map[string]string{long(settingNameMax + 1): ""} }, "Settings["},
		"a longer value":           {func(c *Config) { c.Settings = map[string]string{"a": long(settingValueMax + 1)} }, "Settings["},
		"a setting without a name": {func(c *Config) { c.Settings = map[string]string{"": "x"} }, "Settings["},
		"the largest frames":       {func(c *Config) { c.Message.FrameBytesMax, c.HalfFrameBytesMax = 1<<30, 1<<30 }, ""},
		"larger frames":            {func(c *Config) { c.Message.FrameBytesMax, c.HalfFrameBytesMax = 1<<30+1, 1<<31 }, "FrameBytesMax 1073741825"},
		"frames of less than none": {func(c *Config) { c.Message.FrameBytesMax = -1 }, "FrameBytesMax -1"},
		"a queue for two frames": {func(c *Config) {
			c.Message = classLimits{FrameBytesMax: 100, QueueBytesMax: 2 * (100 + frameBytesAround)}
		}, ""},
		"a shorter queue": {func(c *Config) {
			c.Message = classLimits{FrameBytesMax: 100, QueueBytesMax: 2*(100+frameBytesAround) - 1}
		}, "QueueBytesMax"},
		"half frames of each class": {func(c *Config) { c.HalfFrameBytesMax = 8 << 20 }, ""},
		"less for half frames":      {func(c *Config) { c.HalfFrameBytesMax = 8<<20 - 1 }, "HalfFrameBytesMax"},
		"equal pauses":              {func(c *Config) { c.BackoffMin, c.BackoffMax = time.Minute, time.Minute }, ""},
		"no time to dial":           {func(c *Config) { c.DialTimeout = -1 }, "DialTimeout -1ns is negative"},
	} {
		cfg := Config{ID: 1, Name: "a", Cluster: "c"}
		c.change(&cfg)
		err := cfg.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error about %q", name, err, c.want)
		}
	}
}

// TestASignatureIsOfItsKeyAndBytes checks, for each kind of key, that a proof holds for the bytes that were
// signed and for its own key alone. A key of another kind proves nothing.
func TestASignatureIsOfItsKeyAndBytes(t *testing.T) {
	said, other := []byte("statement"), []byte("another statement")
	sum := sha256.Sum256(said)
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	exchange, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string][]byte{}
	for name, public := range map[string]crypto.PublicKey{"ed25519": edwards.Public(), "ecdsa": curve.Public(), "x25519": exchange.PublicKey(), "rsa": rsaKey(t).Public()} {
		if keys[name], err = x509.MarshalPKIXPublicKey(public); err != nil {
			t.Fatal(err)
		}
	}
	rsaSigner := rsaKey(t)
	if keys["rsa"], err = x509.MarshalPKIXPublicKey(rsaSigner.Public()); err != nil {
		t.Fatal(err)
	}
	signed := map[string][]byte{"ed25519": ed25519.Sign(edwards, said)}
	if signed["ecdsa"], err = ecdsa.SignASN1(rand.Reader, curve, sum[:]); err != nil {
		t.Fatal(err)
	}
	if signed["rsa"], err = rsa.SignPSS(rand.Reader, rsaSigner, crypto.SHA256, sum[:], &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}); err != nil {
		t.Fatal(err)
	}
	for kind, signature := range signed {
		for of, key := range keys {
			p := keyProof{key, signature}
			if p.signs(said) != (of == kind) || p.signs(other) {
				t.Errorf("a signature of %s, with the key of %s: holds for what was signed: %v, for another: %v", kind, of, p.signs(said), p.signs(other))
			}
		}
		if (keyProof{[]byte("no key"), signature}).signs(said) {
			t.Errorf("a signature of %s holds without a key", kind)
		}
	}
}

// portless is a network without sockets: it notes what is sent, and answers inquiries with outcome.
type portless struct {
	network
	sent    []string
	fails   error
	outcome inquiryOutcome
	ended   error
}

func (p *portless) writePacket(_ []byte, addr string) error {
	if p.fails == nil {
		p.sent = append(p.sent, addr)
	}
	return p.fails
}

func (p *portless) inquire(ctx context.Context, _ Peer, _ beaconNonce) Inquiry {
	p.ended = ctx.Err()
	return Inquiry{Outcome: p.outcome}
}

func newPortless() (*portless, *datagrams) {
	p, life := &portless{}, &lifetime{}
	life.ctx, life.cancel = context.WithCancel(context.Background())
	return p, &datagrams{net: p, life: life, counters: new(Counters), log: newLimitedLogger(slog.New(slog.DiscardHandler))}
}

// TestADatagramIsSentOrCounted checks that a datagram which cannot be sent is counted, and is an error only
// if it is too large or the transport is closed: memberlist would give up a probe for another error.
func TestADatagramIsSentOrCounted(t *testing.T) {
	p, d := newPortless()
	var out bytes.Buffer
	d.log = newLimitedLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	for name, c := range map[string]struct {
		bytes int
		fails error
		want  error
		sent  uint64
	}{
		"the largest": {packetBytesMax, nil, nil, 1},
		"a larger":    {packetBytesMax + 1, nil, ErrFrameTooLarge, 0},
		"not sent":    {1, syscall.EPERM, nil, 0},
	} {
		p.fails = c.fails
		before, drops := d.counters.PacketsSent.Load(), d.counters.Drops[DropPacketSend].Load()
		bytes := d.counters.PacketBytesSent.Load()
		err := d.writeTo(make([]byte, c.bytes), "192.0.2.1:1")
		sent, dropped := d.counters.PacketsSent.Load()-before, d.counters.Drops[DropPacketSend].Load()-drops
		if !errors.Is(err, c.want) || sent != c.sent || dropped != 1-c.sent || d.counters.PacketBytesSent.Load()-bytes != c.sent*uint64(c.bytes) {
			t.Errorf("%s: %v, %d sent, %d dropped", name, err, sent, dropped)
		}
		if said := strings.Contains(out.String(), "datagram not sent"); said != (c.fails != nil) || said && !strings.Contains(out.String(), "to=192.0.2.1:1") {
			t.Errorf("%s: logs %q", name, out.String())
		}
		out.Reset()
	}
	p.fails = nil
	d.life.cancel()
	if err := d.writeTo([]byte("x"), "192.0.2.1:1"); err != ErrClosed || len(p.sent) != 1 {
		t.Errorf("after the end: %v, sent to %v", err, p.sent)
	}
}

// TestInquiriesAreCountedByTheirOutcome checks the counters of inquiries, and that an inquiry ends with the
// transport.
func TestInquiriesAreCountedByTheirOutcome(t *testing.T) {
	p, d := newPortless()
	for i, c := range []struct {
		outcome           inquiryOutcome
		answered, refused uint64
	}{{Answered, 1, 0}, {PortUnreachable, 1, 1}, {0, 1, 1}, {Answered, 2, 1}} {
		p.outcome = c.outcome
		if q := d.askPort(t.Context(), Peer{ID: 2}); q.Outcome != c.outcome || p.ended != nil {
			t.Errorf("inquiry %d: %+v, %v", i, q, p.ended)
		}
		n := d.counters
		if n.BeaconsAsked.Load() != uint64(i+1) || n.BeaconsAnswered.Load() != c.answered || n.BeaconsRefused.Load() != c.refused {
			t.Errorf("inquiry %d: %d asked, %d answered, %d refused", i, n.BeaconsAsked.Load(), n.BeaconsAnswered.Load(), n.BeaconsRefused.Load())
		}
	}
}

// TestFailedHandshakesAreLogged checks which failures of a dial are warned of: secrets and certificates that
// do not match are faults of the configuration, and all other failures may pass.
func TestFailedHandshakesAreLogged(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string // "" for no line
	}{
		"no common secret":     {fmt.Errorf("a: %w", errSecret), "no shared secret in common"},
		"a certificate":        {&tlsError{errors.New("unknown authority")}, "TLS handshake"},
		"an alert of the peer": {&net.OpError{Op: "remote error", Err: errors.New("bad certificate")}, "TLS handshake"},
		"a failed read":        {&net.OpError{Op: "read", Err: syscall.ECONNRESET}, ""},
		"a deadline":           {os.ErrDeadlineExceeded, ""},
	} {
		var out bytes.Buffer
		d := &dialler{log: newLimitedLogger(slog.New(slog.NewTextHandler(&out, nil)))}
		d.noteTLS("192.0.2.1:1", c.err)
		if got := out.String(); (got == "") != (c.want == "") || !strings.Contains(got, c.want) || got != "" && (!strings.Contains(got, "192.0.2.1:1") || !strings.Contains(got, "level=WARN")) {
			t.Errorf("%s: logged %q, want a line with %q", name, got, c.want)
		}
	}
}

// TestTheUsualPathHoldsForConnections checks that a connection follows the usual path of its network: what
// is sent while that path is cut arrives when it is open again.
func TestTheUsualPathHoldsForConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b := twoHosts(t, NetworkConfig{})
		near, far := connection(t, a, b)
		n.SetUsual(Path{Cut: Dropped})
		if _, err := near.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		time.AfterFunc(time.Second, func() { n.SetUsual(Path{}) })
		got := make([]byte, 1)
		if _, err := far.Read(got); err != nil || string(got) != "x" {
			t.Errorf("%q, %v after the cut", got, err)
		}
		if took := time.Since(began); took < time.Second || took > 5*time.Second {
			t.Errorf("arrived after %v of a cut of one second", took)
		}
		_ = near.Close()
		_ = far.Close()
	})
}

// TestBytesWithoutAcknowledgementEndAConnection checks that a connection of which only the way back is cut
// ends sooner if bytes were sent on it, as no acknowledgement comes.
func TestBytesWithoutAcknowledgementEndAConnection(t *testing.T) {
	for _, sends := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n, a, b := twoHosts(t, NetworkConfig{})
			near, far := connection(t, a, b)
			began := time.Now()
			n.SetPath(b.addr, a.addr, Path{Cut: Dropped})
			want := n.cfg.UnackedTimeout + keepAliveGrace
			if sends {
				want = n.cfg.UnackedTimeout
				if _, err := near.Write([]byte("x")); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := near.Read(make([]byte, 1)); !errors.Is(err, syscall.ETIMEDOUT) || time.Since(began) != want {
				t.Errorf("bytes were sent: %v; ended after %v: %v, want %v", sends, time.Since(began), err, want)
			}
			_ = far.Close()
		})
	}
}

// TestAStoppedLinkWakesItsOwner checks that the owner of a link which waits for frames learns of the stop.
func TestAStoppedLinkWakesItsOwner(t *testing.T) {
	l := testLink(t)
	l.stopLink(DropClosed)
	select {
	case <-l.wake:
	default:
		t.Error("the owner of a stopped link is not woken")
	}
}

// TestAllConnectionsAreMarkedAsEnded checks that no connection of a transport hands out frames after its end.
func TestAllConnectionsAreMarkedAsEnded(t *testing.T) {
	a := &inbounds{byKey: map[connKey]*inbound{}}
	for cl := range classes {
		a.byKey[connKey{2, cl}] = &inbound{class: cl}
	}
	a.markEnded()
	for k, in := range a.byKey {
		if !in.ended.Load() {
			t.Errorf("the connection of class %v goes on", k.class)
		}
	}
}

// TestRecordsBeginAnewAfterAShortBacklog checks that an urgent frame passes no earlier frame of its flow,
// also if that was queued while the backlog was short, and so was not recorded.
func TestRecordsBeginAnewAfterAShortBacklog(t *testing.T) {
	l := testLink(t)
	l.shared.flows[KindView] = flowOfText
	l.express.credit = expressBytes
	send := func(text string) {
		t.Helper()
		if err := l.sendFrame(KindView, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	fill := func() {
		for l.backlog.bytes < expressFrom {
			send("7 " + strings.Repeat("x", 10_000))
		}
		send("7 recorded")
	}
	fill()
	for l.backlog.bytes > 0 {
		l.takeNext()
	}
	send("5 not recorded")
	fill()
	l.express.credit = expressBytes
	if _, at := l.placeLocked(10, KindView, []byte("5! x")); at != inBacklog {
		t.Errorf("an urgent frame waits at %d, and passes an earlier one of its flow", at)
	}
	if _, at := l.placeLocked(10, KindView, []byte("6! x")); at != inExpress {
		t.Errorf("an urgent frame of another flow waits at %d, want express", at)
	}
}

// TestAFrameInPiecesCountsOnce checks that the counters of received frames have a frame that came in pieces
// once, when its last piece has come, beside frames that came whole.
func TestAFrameInPiecesCountsOnce(t *testing.T) {
	e, in, _ := handing()
	var got []string
	e.Handle(KindView, func(_ gossip.NodeID, p []byte) { got = append(got, string(p)) })
	b := newFrameBuffer(1 << 10)
	for _, step := range []struct {
		bytes  []byte
		frames uint64
	}{
		{frameOf(KindView, 1|firstPiece, string(piece(4, "pi"))), 0},
		{frameOf(KindView, 0, "whole"), 1},
		{frameOf(KindView, 1, "ec"), 2},
	} {
		before, received := e.counters.Class[0].FramesReceived.Load(), e.counters.Class[0].BytesReceived.Load()
		b.received(copy(b.space(), step.bytes))
		if err := e.receiver.handOut(in, b); err != nil {
			t.Fatal(err)
		}
		now, bytes := e.counters.Class[0].FramesReceived.Load(), e.counters.Class[0].BytesReceived.Load()
		if now != step.frames || now < before || bytes-received != uint64(len(step.bytes)) {
			t.Errorf("%d frames after %q, want %d; %d bytes of %d", now, got, step.frames, bytes-received, len(step.bytes))
		}
	}
	if want := []string{"whole", "piec"}; !slices.Equal(got, want) {
		t.Errorf("handed out %q, want %q", got, want)
	}
}

// TestARawStreamIsSummedUnlessAuthenticated checks that a raw stream whose bytes change is counted and
// logged, and that a connection which authenticates its bytes gets no sums.
func TestARawStreamIsSummedUnlessAuthenticated(t *testing.T) {
	var out bytes.Buffer
	s := &streams{counters: new(Counters), log: newLimitedLogger(slog.New(slog.NewTextHandler(&out, nil)))}
	summed, ok := s.summed(addressed{from: "192.0.2.1:1"}).(*summedConn)
	if !ok {
		t.Fatal("a connection in the clear has no sums")
	}
	if summed.corrupt(); s.counters.CorruptFrames.Load() != 1 || !strings.Contains(out.String(), "192.0.2.1:1") {
		t.Errorf("%d are counted, logged %q", s.counters.CorruptFrames.Load(), out.String())
	}
	for _, conn := range []net.Conn{secureConn{}, &sealedConn{}} {
		if s.summed(conn) != conn {
			t.Errorf("%T has sums", conn)
		}
	}
}

// TestOnlyLinksInTheClearAreBoundToTheirHost checks that a node is not bound to its host by a certificate's
// connection, by a raw stream, or where connections have no host. A full table of keys is no fault of the
// node.
func TestOnlyLinksInTheClearAreBoundToTheirHost(t *testing.T) {
	c := credentials{keys: newKeyTable(1, func(gossip.NodeID) bool { return true })}
	hello := func(id gossip.NodeID, p purpose) *hello {
		return &hello{identity: identity{Peer: Peer{ID: id, Name: "a", Addr: "x:1"}}, purpose: p}
	}
	for what, conn := range map[string]net.Conn{"a raw stream": addressed{from: "192.0.2.9:1"}, "a certificate": secureConn{}, "no host": addressed{from: "memory"}} {
		p := purpose(Message)
		if what == "a raw stream" {
			p = purpose(classes)
		}
		if r := c.bindSource(conn, hello(7, p)); r != nil || len(c.keys.byID) != 0 {
			t.Errorf("%s: %+v, %d nodes are bound", what, r, len(c.keys.byID))
		}
	}
	last := purpose(classes - 1)
	if r := c.bindSource(addressed{from: "192.0.2.1:1"}, hello(7, last)); r != nil || len(c.keys.byID) != 1 {
		t.Errorf("the last class: %+v, %d nodes are bound", r, len(c.keys.byID))
	}
	if r := c.bindSource(addressed{from: "192.0.2.2:1"}, hello(8, last)); r == nil || r.code != FailBusy || strings.Contains(r.reason, "another host") {
		t.Errorf("a full table: %+v", r)
	}
}
