package transport

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/peerage-go/peerage/internal/wire"
)

func secret(i int) []byte { return bytes.Repeat([]byte{byte(i)}, secretBytesMin) }

// sharing starts a node with shared secrets.
func (w *world) sharing(id int, secrets ...[]byte) *node {
	w.Helper()
	w.secrets = secrets
	defer func() { w.secrets = nil }()
	return w.start(nodeID(id))
}

// TestSharedSecrets: nodes with a secret in common are peers: frames of all sizes, raw
// streams, and each step of a rotation.
func TestSharedSecrets(t *testing.T) {
	for name, c := range map[string]struct{ a, b [][]byte }{
		"one":                {[][]byte{secret(1)}, [][]byte{secret(1)}},
		"rotation, begun":    {[][]byte{secret(1)}, [][]byte{secret(1), secret(2)}},
		"rotation, half":     {[][]byte{secret(1), secret(2)}, [][]byte{secret(2), secret(1)}},
		"rotation, finished": {[][]byte{secret(2), secret(1)}, [][]byte{secret(2)}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{T: t}
			a, b := w.sharing(1, c.a...), w.sharing(2, c.b...)
			a.Learn(b.Self())
			b.Learn(a.Self())
			large := strings.Repeat("x", 3*recordBytesMax+7)
			for _, s := range []string{"small", large, ""} {
				a.send(b, Message, s)
				b.send(a, Message, s)
			}
			if got := b.awaitFrames(3); got[1] != "1:"+large {
				t.Errorf("a frame of %d bytes arrived with %d", len(large), len(got[1]))
			}
			a.awaitFrames(3)
			s, err := a.DialStream(b.Self().Addr, patience)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if _, err := s.Write([]byte("hello")); err != nil {
				t.Error(err)
			}
			got := make([]byte, 5)
			if _, err := io.ReadFull(<-b.Streams(), got); err != nil || string(got) != "hello" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// TestAttackWithoutTheSharedSecret: a node without the secret, or with another one, is
// refused in both directions, and receives no part of the secret.
func TestAttackWithoutTheSharedSecret(t *testing.T) {
	w := &world{T: t}
	b := w.sharing(2, secret(1))
	for name, stranger := range map[string]*node{"another secret": w.sharing(3, secret(9)), "no secret": w.start(4)} {
		before := b.Counters().HandshakeFailures[FailSecret].Load()
		_, err := stranger.Probe(w.ctx(), b.Self().Addr)
		var refused *RefusedError
		if err == nil || errors.As(err, &refused) || strings.Contains(err.Error(), "node-2") {
			t.Errorf("%s: %v", name, err)
		}
		w.poll("it is counted", func() bool { return b.Counters().HandshakeFailures[FailSecret].Load() == before+1 })
		if _, err := b.Probe(w.ctx(), stranger.Self().Addr); !errors.Is(err, errSecret) {
			t.Errorf("%s, dialled: %v", name, err)
		}
	}
	conn, err := net.Dial("tcp", b.Self().Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(validHello(nil)); err != nil {
		t.Fatal(err)
	}
	if got, _ := io.ReadAll(conn); len(got) != 0 {
		t.Errorf("a stranger is told %q", got)
	}
}

// middle relays connections to a node, records what was sent to it, and may change a
// byte on the way.
type middle struct {
	l    net.Listener
	mu   sync.Mutex
	seen bytes.Buffer
	// flip is the position of the byte to change, counted from the dialler's first; 0 for
	// none.
	flip int
}

func (w *world) between(to *node, flip int) *middle {
	w.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.Fatal(err)
	}
	m := &middle{l: l, flip: flip}
	w.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to.Self().Addr)
			if err != nil {
				_ = from.Close()
				continue
			}
			go func() { _, _ = io.Copy(from, far); _ = from.Close() }()
			go func() { _, _ = io.Copy(io.MultiWriter(m, far), m.changing(from)); _ = far.Close() }()
		}
	}()
	return m
}

func (m *middle) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen.Write(b)
}

type changed struct {
	io.Reader
	left int
}

func (m *middle) changing(r io.Reader) io.Reader { return &changed{r, m.flip} }

func (c *changed) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	if c.left > 0 && c.left <= n {
		b[c.left-1] ^= 1
	}
	c.left -= n
	return n, err
}

// TestAttackOnThePathOfASharedSecret: an attacker on the path without the secret can replay
// recorded bytes, or change one. Both end the connection before a frame is handed out.
func TestAttackOnThePathOfASharedSecret(t *testing.T) {
	w := &world{T: t}
	a, b := w.sharing(1, secret(1)), w.sharing(2, secret(1))
	m := w.between(b, 0)
	if _, err := a.Probe(w.ctx(), m.l.Addr().String()); err != nil {
		t.Fatalf("relayed as it is: %v", err)
	}
	m.mu.Lock()
	recorded := bytes.Clone(m.seen.Bytes())
	m.mu.Unlock()
	conn, err := net.Dial("tcp", b.Self().Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(recorded); err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(conn) // the connection may end with a reset: bytes behind the changed one are not read
	if len(got) > sealReplyBytes {
		t.Errorf("a replay is answered by %d bytes", len(got))
	}
	w.poll("the replay is counted", func() bool { return b.Counters().HandshakeFailures[FailSecret].Load() >= 1 })
	for at := sealHelloBytes + 1; at <= len(recorded); at += 13 {
		if _, err := a.Probe(w.ctx(), w.between(b, at).l.Addr().String()); err == nil {
			t.Errorf("byte %d of %d was changed, and nothing noticed", at, len(recorded))
		}
	}
	if n := b.count(Accepted, Control); n != 0 {
		t.Errorf("%d connections were accepted", n)
	}
}

// TestSecretsThatAreNone: settings that protect nothing are errors, without the secret.
func TestSecretsThatAreNone(t *testing.T) {
	for name, cfg := range map[string]TCPConfig{
		"short":             {SharedSecrets: [][]byte{[]byte("hunter2")}},
		"too many":          {SharedSecrets: [][]byte{secret(1), secret(2), secret(3), secret(4), secret(5)}},
		"certificates, too": {SharedSecrets: [][]byte{secret(1)}, TLS: newAuthority(t).mutual(t)},
	} {
		cfg.Config = Config{ID: 1, Name: "a", Cluster: "c"}
		if tr, err := NewTCP(cfg); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				_ = tr.Close()
			}
		}
	}
}

// TestAttackAStrangerAsksAPlainNode: refusals in the clear name neither the cluster, nor
// a value of a setting, nor a node.
func TestAttackAStrangerAsksAPlainNode(t *testing.T) {
	w := &world{T: t}
	b := w.start(2)
	b.Forget(66)
	version := validHello(nil)
	version[len(magic)+1] = 9
	for name, hello := range map[string][]byte{
		"version":  version,
		"cluster":  validHello(func(h *hello) { h.cluster = "guess" }),
		"setting":  validHello(func(h *hello) { h.settings = map[string]string{"lease": "guess"} }),
		"none":     validHello(func(h *hello) { h.settings = nil }),
		"surplus":  validHello(func(h *hello) { h.settings["guess"] = "1" }),
		"removed":  validHello(func(h *hello) { h.ID = 66 }),
		"identity": validHello(func(h *hello) { h.ID = 2 }),
	} {
		conn := w.stranger(b)
		if _, err := conn.Write(hello); err != nil {
			t.Fatal(err)
		}
		a, err := decodeAnswer(wire.OwnVersions(), w.hung(conn)[preludeBytes:])
		if err != nil || a.verdict != verdictRefused {
			t.Fatalf("%s: %+v, %v", name, a, err)
		}
		for _, secret := range []string{"test", "1s", "node-2", b.Self().Addr} {
			if strings.Contains(a.refusal.reason, secret) {
				t.Errorf("%s: %q names %q", name, a.refusal.reason, secret)
			}
		}
	}
}

// TestAttackAMembersIDFromElsewhere: in the clear, a node that has learnt the NodeID of
// a member cannot use it from another host, neither beside the member's connection nor
// in its place.
func TestAttackAMembersIDFromElsewhere(t *testing.T) {
	w := &world{T: t}
	b := w.start(2)
	hello := func(number uint64) []byte {
		return validHello(func(h *hello) { h.ID, h.purpose, h.number = 7, purpose(Message), number })
	}
	member := w.stranger(b)
	if _, err := member.Write(hello(1)); err != nil {
		t.Fatal(err)
	}
	b.awaitEvent(Accepted, Message, 7)
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 77)}}
	conn, err := from.Dial("tcp", b.Self().Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(hello(2)); err != nil {
		t.Fatal(err)
	}
	a, err := decodeAnswer(wire.OwnVersions(), w.hung(conn)[preludeBytes:])
	if err != nil || a.verdict != verdictRefused || a.refusal.code != FailIdentity {
		t.Errorf("answer %+v, %v", a, err)
	}
	again := w.stranger(b)
	if _, err := again.Write(hello(3)); err != nil {
		t.Fatal(err)
	}
	b.await("the member is back", func() bool { return b.countLocked(Accepted, Message) == 2 })
}
