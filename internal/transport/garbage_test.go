package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/wire"
)

// stranger opens a bare connection to n.
func (w *world) stranger(n *node) net.Conn {
	w.Helper()
	var from network = &sockets{}
	if w.net != nil {
		h := &memHost{n: w.net, addr: "192.0.2.1:9", ready: sync.NewCond(&w.net.mu)}
		from = h
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := from.dial(ctx, n.Self().Addr)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = conn.Close() })
	return conn
}

// hung blocks until the far end has hung up, and returns the bytes received until then.
func (w *world) hung(conn net.Conn) []byte {
	w.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		w.Fatal(err)
	}
	sent, err := io.ReadAll(conn)
	if e, ok := err.(net.Error); ok && e.Timeout() {
		w.Fatalf("the far end did not hang up; it sent %q", sent)
	}
	return sent
}

func quickHandshake(c *Config) { c.HandshakeTimeout = 100 * time.Millisecond }

// validHello returns the bytes of a good hello, changed by f.
func validHello(f func(*hello)) []byte {
	h := &hello{identity: identity{Peer: Peer{ID: 9, Name: "nine", Addr: "192.0.2.1:9", Versions: wire.OwnVersions()}, cluster: "test",
		settings: map[string]string{"lease": "1s"}}, number: 1}
	if f != nil {
		f(h)
	}
	return appendHello(nil, h)
}

func TestGarbageCostsACountedClosedConnection(t *testing.T) {
	random := make([]byte, 4096)
	for i := range random {
		random[i] = byte(i*7 + i/256 + 1)
	}
	for name, c := range map[string]struct {
		bytes  []byte
		hangUp bool
		want   Failure
	}{
		"HTTP":                       {[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), false, FailNotOurs},
		"TLS hello":                  {[]byte{0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03}, false, FailNotOurs},
		"random bytes":               {random, false, FailNotOurs},
		"nothing":                    {nil, false, FailTimeout},
		"nothing, then hang up":      {nil, true, FailHungUp},
		"half a prelude":             {[]byte(magic + "\x00"), false, FailTimeout},
		"half a prelude, hang up":    {[]byte(magic + "\x00"), true, FailHungUp},
		"huge length":                {[]byte(magic + "\x00\x01\x00\x01\xff\xff\xff\xff"), false, FailOversize},
		"huge length of a version 9": {[]byte(magic + "\x00\x09\x00\x09\xff\xff\xff\xff"), false, FailOversize},
		"an empty hello":             {appendPrelude(nil, wire.OwnVersions(), 0), false, FailMalformed},
		"a hello of zeroes":          {append(appendPrelude(nil, wire.OwnVersions(), 100), make([]byte, 100)...), false, FailMalformed},
		"half a hello":               {validHello(nil)[:20], false, FailTimeout},
		"half a hello, hang up":      {validHello(nil)[:20], true, FailHungUp},
		"nobody's hello":             {validHello(func(h *hello) { h.ID = 0 }), false, FailMalformed},
		"a purpose of the future":    {validHello(func(h *hello) { h.purpose = 77 }), false, FailMalformed},
		"too long a name":            {validHello(func(h *hello) { h.Name = strings.Repeat("x", 129) }), false, FailMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(w *world) {
				var log logBook
				timeout := patient
				if c.want == FailTimeout {
					timeout = quickHandshake
				}
				b := w.start(2, timeout, log.configure)
				conn := w.stranger(b)
				if _, err := conn.Write(c.bytes); err != nil {
					w.Fatal(err)
				}
				if c.hangUp {
					_ = conn.Close()
				} else if sent := w.hung(conn); len(sent) > 0 {
					w.Errorf("a stranger was told %q", sent)
				}
				w.poll("counted as "+c.want.String(), func() bool { return b.Counters().HandshakeFailures[c.want].Load() == 1 })
				if n := b.Counters().Garbage(); n != 1 {
					w.Errorf("%d garbage connections counted", n)
				}
				if n := log.count("connection closed in the handshake", "failure="+c.want.String()+" "); n != 1 {
					w.Errorf("logged %d times:\n%s", n, &log.out)
				}
				w.poll("the slot is free", func() bool { return b.Counters().Strangers.Load() == 0 })
				a := w.start(1)
				w.poll("afterwards", func() bool {
					_, err := a.Probe(w.ctx(), b.Self().Addr)
					if err != nil && c.want != FailTimeout { // else a handshake is to be quick, and the machine may not be
						w.Fatalf("afterwards: %v", err)
					}
					return err == nil
				})
			})
		})
	}
}

func TestWireVersionRefusalNamesBothVersions(t *testing.T) {
	everywhere(t, func(w *world) {
		b := w.start(2)
		conn := w.stranger(b)
		h := validHello(nil)
		h[len(magic)+1], h[len(magic)+3] = 98, 99
		if _, err := conn.Write(h); err != nil {
			w.Fatal(err)
		}
		sent := w.hung(conn)
		if len(sent) < preludeBytes {
			w.Fatalf("answer %q", sent)
		}
		versions, n, err := decodePrelude(sent[:preludeBytes])
		if err != nil || versions != wire.OwnVersions() || n != len(sent)-preludeBytes {
			w.Fatalf("prelude: %v, %d, %v", versions, n, err)
		}
		a, err := decodeAnswer(versions, sent[preludeBytes:])
		if err != nil || a.verdict != verdictRefused || a.refusal.code != FailVersion {
			w.Fatalf("answer %+v, %v", a, err)
		}
		if want := fmt.Sprintf("wire versions are %v there", wire.OwnVersions()); !strings.HasPrefix(a.refusal.reason, want) {
			w.Errorf("reason %q, want %q", a.refusal.reason, want)
		}
		w.poll("counted", func() bool { return b.Counters().HandshakeFailures[FailVersion].Load() == 1 })
	})
}

// Nodes whose ranges of wire versions overlap are peers; others are rejected, with both ranges
// on both sides.
func TestNodesWithoutACommonWireVersionAreRefused(t *testing.T) {
	versions := func(oldest, newest uint16) func(*Config) {
		return func(c *Config) { c.Versions = wire.Versions{Oldest: oldest, Newest: newest} }
	}
	everywhere(t, func(w *world) {
		b := w.start(2, versions(3, 4))
		for i, c := range []struct {
			oldest, newest uint16
			fits           bool
		}{{3, 3, true}, {4, 9, true}, {3, 4, true}, {5, 9, false}, {1, 2, false}} {
			a := w.start(gossip.NodeID(10+i), versions(c.oldest, c.newest))
			peer, err := a.Probe(w.ctx(), b.Self().Addr)
			if c.fits {
				if err != nil || peer.Versions != b.Self().Versions {
					w.Errorf("%v meets %v: %v, %v", a.Self().Versions, b.Self().Versions, peer, err)
				}
				continue
			}
			var refused *RefusedError
			if !errors.As(err, &refused) || refused.Code != FailVersion || refused.Here != a.Self().Versions || refused.There != b.Self().Versions {
				w.Errorf("%v meets %v: %v", a.Self().Versions, b.Self().Versions, err)
			}
		}
	})
}

// A setting that only the later of two versions has does not separate nodes; one that both
// have does.
func TestSettingsOfAnotherVersion(t *testing.T) {
	node := func(newest uint16, settings map[string]string) *identity {
		return &identity{Peer: Peer{Versions: wire.Versions{Oldest: 3, Newest: newest}}, settings: settings}
	}
	old, later := node(3, map[string]string{"Ping": "1s"}), node(4, map[string]string{"Ping": "1s", "Zones": "2"})
	same, other := node(3, map[string]string{"Ping": "1s", "Zones": "2"}), node(4, map[string]string{"Ping": "2s", "Zones": "2"})
	if incompatible(old, later) != nil || incompatible(later, old) != nil {
		t.Error("a setting that only the later version has separates nodes")
	}
	if incompatible(old, same) == nil || incompatible(old, other) == nil || incompatible(other, old) == nil {
		t.Error("settings that differ are accepted")
	}
}

// A hello and an answer of a later version are read without the fields that it has added, and
// its refusal is read too.
func TestHandshakesOfLaterVersions(t *testing.T) {
	later := wire.Versions{Oldest: wire.Newest, Newest: wire.Newest + 1}
	id := identity{Peer: Peer{ID: 1, Name: "a", Versions: later}}
	extend := func(b []byte, sumBytes int) []byte { // with an unknown field
		body := b[preludeBytes : len(b)-sumBytes]
		return append(body[:len(body):len(body)], "a field of a later version"...)
	}
	sent := &hello{identity: id, purpose: purposeProbe, number: 7}
	h, err := decodeHello(later, appendSum(extend(appendHello(nil, sent), sumBytes)))
	if err != nil || h.number != 7 || h.Versions != later {
		t.Errorf("hello %+v, %v", h, err)
	}
	a, err := decodeAnswer(later, appendSum(extend(appendAnswer(nil, &answer{verdict: verdictWelcome, identity: id}), sumBytes)))
	if err != nil || a.ID != 1 || a.Versions != later {
		t.Errorf("answer %+v, %v", a, err)
	}
	refused := appendAnswer(nil, &answer{verdict: verdictRefused, refusal: refusal{code: FailVersion, reason: "no"}})
	if a, err := decodeAnswer(later, extend(refused, 0)); err != nil || a.refusal.reason != "no" {
		t.Errorf("refusal %+v, %v", a, err)
	}
}

func TestASlowHelloIsCutOffThoughBytesKeepComing(t *testing.T) {
	everywhere(t, func(w *world) {
		b := w.start(2, quickHandshake)
		conn := w.stranger(b)
		stop := make(chan struct{})
		var dripping sync.WaitGroup
		dripping.Go(func() {
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for _, x := range validHello(nil) {
				select {
				case <-tick.C:
				case <-stop:
					return
				}
				if _, err := conn.Write([]byte{x}); err != nil {
					return
				}
			}
		})
		w.hung(conn)
		close(stop)
		dripping.Wait()
		w.poll("counted", func() bool { return b.Counters().HandshakeFailures[FailTimeout].Load() == 1 })
	})
}

func TestStrangersHaveAFixedNumberOfSlots(t *testing.T) {
	everywhere(t, func(w *world) {
		b := w.make(2, "", func(c *Config) { c.StrangersMax = 3; c.HandshakeTimeout = patience })
		b.e.acceptor.strangers.draw = func(n int) int { return n - 1 } // no early drop
		b.run()
		var slots []net.Conn
		for range 3 {
			slots = append(slots, w.stranger(b))
		}
		w.poll("all slots taken", func() bool { return b.Counters().Strangers.Load() == 3 })
		slots = append(slots, w.stranger(b))
		w.hung(slots[0]) // the oldest
		w.poll("counted as busy", func() bool { return b.Counters().HandshakeFailures[FailBusy].Load() == 1 })
		if n := b.Counters().Strangers.Load(); n != 3 {
			w.Errorf("%d strangers in 3 slots", n)
		}
		for _, c := range slots {
			_ = c.Close()
		}
		w.poll("slots free", func() bool { return b.Counters().Strangers.Load() == 0 })
		a := w.start(1)
		if _, err := a.Probe(w.ctx(), b.Self().Addr); err != nil {
			w.Error(err)
		}
	})
}

func TestAcceptedConnectionsAreBounded(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.start(1), w.start(2, func(c *Config) { c.AcceptedMax = 2 })
		for range 2 {
			s, err := a.DialStream(b.Self().Addr, patience)
			if err != nil {
				w.Fatal(err)
			}
			defer s.Close()
		}
		_, err := a.DialStream(b.Self().Addr, patience)
		if r, ok := err.(*RefusedError); !ok || r.Code != FailBusy {
			w.Errorf("a third one: %v", err)
		}
	})
}

// The log states the cause, and a stranger that comes again and again is one line a minute.
func TestTheLogIsBounded(t *testing.T) {
	inMemory(t, func(w *world) { // virtual time stands still
		var log logBook
		b := w.start(2, log.configure)
		const times = 60
		for range times {
			conn := w.stranger(b)
			if _, err := conn.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
				w.Fatal(err)
			}
			w.hung(conn)
		}
		w.poll("all counted", func() bool { return b.Counters().Garbage() == times })
		if n := log.count("failure=not_ours"); n != 1 {
			w.Errorf("%d lines, want one\n%s", n, &log.out)
		}
	})
}

// logBook holds a node's log.
type logBook struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *logBook) configure(c *Config) { c.Logger = slog.New(slog.NewTextHandler(l, nil)) }

// Write takes a line.
func (l *logBook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(b)
}

// count returns how many lines hold all of parts.
func (l *logBook) count(parts ...string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for line := range strings.Lines(l.out.String()) {
		has := true
		for _, p := range parts {
			has = has && strings.Contains(line, p)
		}
		if has {
			n++
		}
	}
	return n
}

// Every Failure has a counter and a log line, and is in this table or in that of garbage.
func TestEveryRefusalIsCountedAndLogged(t *testing.T) {
	seen := map[Failure]bool{FailOther: true, FailTLS: true, // TestNodesWithoutAGoodCertificateStayOut
		FailSecret:  true, // TestAttackWithoutTheSharedSecret
		FailNotOurs: true, FailMalformed: true, FailOversize: true, FailTimeout: true, FailHungUp: true}
	class := func(f func(*hello)) []byte {
		return validHello(func(h *hello) { h.purpose, h.number = purpose(Message), 5; f(h) })
	}
	version := validHello(nil)
	version[len(magic)+1] = 9
	for _, c := range []struct {
		code  Failure
		bytes []byte
		level string
	}{
		{FailVersion, version, "WARN"},
		{FailCluster, class(func(h *hello) { h.cluster = "other" }), "WARN"},
		{FailSetting, class(func(h *hello) { h.settings = map[string]string{"lease": "2s"} }), "WARN"},
		{FailForgotten, class(func(h *hello) { h.ID = 66 }), "INFO"},
		{FailSuperseded, class(func(h *hello) { h.ID, h.number = 7, 4 }), "INFO"},
		{FailDropped, class(func(h *hello) { h.ID = 67 }), "INFO"},
		{FailIdentity, class(func(h *hello) { h.ID = 2 }), "WARN"},
		{FailBusy, class(func(h *hello) { h.ID = 8 }), "WARN"},
	} {
		seen[c.code] = true
		t.Run(c.code.String(), func(t *testing.T) {
			everywhere(t, func(w *world) {
				var log logBook
				b := w.start(2, log.configure, func(cfg *Config) {
					cfg.AcceptedMax = 2
					if c.code == FailBusy {
						cfg.AcceptedMax = 1
					}
				})
				b.Forget(66)
				b.SetMembers(2, 67)
				b.SetMembers(2)
				standing := w.stranger(b)
				if _, err := standing.Write(class(func(h *hello) { h.ID = 7 })); err != nil {
					w.Fatal(err)
				}
				b.awaitEvent(Accepted, Message, 7)
				conn := w.stranger(b)
				if _, err := conn.Write(c.bytes); err != nil {
					w.Fatal(err)
				}
				sent := w.hung(conn)
				if len(sent) < preludeBytes {
					w.Fatalf("answer %q", sent)
				}
				a, err := decodeAnswer(wire.OwnVersions(), sent[preludeBytes:])
				if err != nil || a.verdict != verdictRefused || a.refusal.code != c.code {
					w.Fatalf("answer %+v, %v", a, err)
				}
				if n := b.Counters().HandshakeFailures[c.code].Load(); n != 1 {
					w.Errorf("counted %d", n)
				}
				if n := log.count("level="+c.level, "refused a node", "failure="+c.code.String()+" ", "reason="); n != 1 {
					w.Errorf("logged %d times:\n%s", n, &log.out)
				}
			})
		})
	}
	for f := range failures {
		if !seen[f] {
			t.Errorf("no test refuses as %v", f)
		}
	}
}

// A node that sends a good hello and then reads nothing gives its slot back: the
// answer has a deadline too.
func TestADiallerThatReadsNoAnswerIsCutOff(t *testing.T) {
	for name, p := range map[string]purpose{"class": purpose(Message), "stream": purposeStream, "probe": purposeProbe} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{T: t, net: NewNetwork(NetworkConfig{Seed: 1, SocketBytes: 16})}
				b := w.start(2, quickHandshake)
				conn := w.stranger(b)
				if _, err := conn.Write(validHello(func(h *hello) { h.purpose = p })); err != nil {
					t.Fatal(err)
				}
				w.poll("the slot is free", func() bool {
					return b.Counters().Strangers.Load() == 0 && b.Counters().Accepted.Load() == 0
				})
				if n := b.Counters().HandshakeFailures[FailTimeout].Load(); n != 1 && p != purposeProbe {
					t.Errorf("counted %d", n)
				}
			})
		})
	}
}

func FuzzHello(f *testing.F) {
	f.Add(validHello(nil)[preludeBytes:])
	f.Fuzz(func(t *testing.T, body []byte) {
		checkHello(t, body)
		checkHello(t, appendSum(slices.Clip(body)))
	})
}

func checkHello(t *testing.T, body []byte) {
	h, err := decodeHello(wire.OwnVersions(), body)
	if err != nil {
		return
	}
	again := appendHello(nil, h)
	if !bytes.Equal(again[preludeBytes:], body) {
		// A number may be written in more bytes than it needs; its meaning must stay.
		h2, err := decodeHello(wire.OwnVersions(), again[preludeBytes:])
		if err != nil || h2.Peer != h.Peer || h2.number != h.number || len(h2.settings) != len(h.settings) {
			t.Fatalf("%x came back as %x", body, again)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(uint16(1), appendAnswer(nil, &answer{verdict: verdictWelcome, identity: identity{Peer: Peer{ID: 1}}})[preludeBytes:])
	f.Add(uint16(2), appendAnswer(nil, &answer{verdict: verdictRefused, refusal: refusal{code: FailCluster, reason: "why"}})[preludeBytes:])
	f.Fuzz(func(t *testing.T, version uint16, body []byte) {
		a, err := decodeAnswer(wire.Versions{Oldest: version, Newest: version}, body)
		if err == nil && a.verdict != verdictRefused && a.ID == 0 {
			t.Fatalf("took %+v of version %d", a, version)
		}
	})
}

func FuzzPrelude(f *testing.F) {
	f.Add(appendPrelude(nil, wire.OwnVersions(), 5))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, n, err := decodePrelude(b); err == nil && n > helloBytesMax {
			t.Fatalf("%d bytes are allowed", n)
		}
	})
}

// FuzzHandshake lets a whole node take arbitrary bytes.
//
// It failed once with "context deadline exceeded" and no input: that is the fuzzer
// of Go before 1.27, which may take the end of -fuzztime for a failure on a busy
// machine (golang.org/issue/75804). Give a number of runs instead, as in
// -fuzztime 100000x. (It could hang, too: see below.)
func FuzzHandshake(f *testing.F) {
	f.Add(validHello(nil))
	f.Add(append(validHello(nil), appendFrame(nil, KindView, []byte("x"))...))
	f.Add(validHello(func(h *hello) { h.purpose = purposeStream }))
	f.Add(validHello(func(h *hello) { h.purpose = purposeProbe }))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add(wire.AppendU64([]byte(magic), 1<<63))
	f.Add(append(validHello(func(h *hello) { h.purpose = purposeStream }), make([]byte, 8<<10)...))
	net := NewNetwork(NetworkConfig{SocketBytes: 4 << 10})
	tr, err := net.Transport(MemoryConfig{Config: Config{ID: 2, Name: "b", Cluster: "test",
		Settings: map[string]string{"lease": "1s"}, HandshakeTimeout: time.Minute}})
	if err != nil {
		f.Fatal(err)
	}
	if err := tr.Start(); err != nil {
		f.Fatal(err)
	}
	// A good hello may ask for a raw stream. A reader must take it while its bytes are
	// being written: a socket buffers a bounded number.
	closed, taken := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(taken)
		for {
			select {
			case s := <-tr.Streams():
				_ = s.Close()
			case <-closed:
				return
			}
		}
	}()
	f.Cleanup(func() { _ = tr.Close(); close(closed); <-taken })
	f.Fuzz(func(t *testing.T, b []byte) {
		w := &world{T: t, net: net}
		conn := w.stranger(&node{Transport: tr, e: tr.engine, w: w})
		_, _ = conn.Write(b) // it may be cut off in the middle
		_ = conn.Close()
		w.poll("it ends", func() bool { return tr.counters.Strangers.Load() == 0 && tr.counters.Accepted.Load() == 0 })
	})
}
