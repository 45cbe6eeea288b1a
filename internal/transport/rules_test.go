package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip"
)

// A beacon has its length and its magic; anything else is memberlist's.
func TestBeaconsAreKnownByLengthAndMagic(t *testing.T) {
	b := beacon(beaconQuestion, 7, newBeaconNonce(), netip.Addr{})
	other := slices.Clone(b)
	other[0] ^= 1
	for name, c := range map[string]struct {
		b    []byte
		want bool
	}{
		"a beacon": {b, true}, "one byte less": {b[:len(b)-1], false}, "one byte more": {append(slices.Clone(b), 0), false},
		"another magic": {other, false}, "nothing": {nil, false},
	} {
		if got := isBeacon(c.b); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The accepting side requires a certificate that it verifies: by its pool, or by functions of
// the application.
func TestServersVerifyTheirClients(t *testing.T) {
	peer := func([][]byte, [][]*x509.Certificate) error { return nil }
	state := func(tls.ConnectionState) error { return nil }
	with := func(auth tls.ClientAuthType, change func(*tls.Config)) *tls.Config {
		cfg := &tls.Config{ClientAuth: auth, Certificates: make([]tls.Certificate, 1)}
		if change != nil {
			change(cfg)
		}
		return cfg
	}
	for name, c := range map[string]struct {
		cfg  *tls.Config
		want bool
	}{
		"verified":                  {with(tls.RequireAndVerifyClientCert, nil), true},
		"no certificate of its own": {with(tls.RequireAndVerifyClientCert, func(c *tls.Config) { c.Certificates = nil }), false},
		"a function for its own": {with(tls.RequireAndVerifyClientCert, func(c *tls.Config) {
			c.Certificates, c.GetCertificate = nil, func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, nil }
		}), true},
		"any":                           {with(tls.RequireAnyClientCert, nil), false},
		"any, peers verified":           {with(tls.RequireAnyClientCert, func(c *tls.Config) { c.VerifyPeerCertificate = peer }), true},
		"any, connections verified":     {with(tls.RequireAnyClientCert, func(c *tls.Config) { c.VerifyConnection = state }), true},
		"if given, peers verified":      {with(tls.VerifyClientCertIfGiven, func(c *tls.Config) { c.VerifyPeerCertificate = peer }), false},
		"requested, peers verified":     {with(tls.RequestClientCert, func(c *tls.Config) { c.VerifyPeerCertificate = peer }), false},
		"none, connections verified":    {with(tls.NoClientCert, func(c *tls.Config) { c.VerifyConnection = state }), false},
		"verified, and by own function": {with(tls.RequireAndVerifyClientCert, func(c *tls.Config) { c.VerifyConnection = state }), true},
	} {
		if err := checkServerTLS(c.cfg); (err == nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Nodes that the view has dropped may connect for control messages only, so that nodes of two
// views that drop each other learn of each other.
func TestDroppedNodesMaySendControlMessages(t *testing.T) {
	var s senders
	s.initSenders(10, 10)
	s.dropped.SetMembers([]gossip.NodeID{7, 8})
	s.dropped.SetMembers([]gossip.NodeID{8})
	for c := range classes {
		for id, want := range map[gossip.NodeID]bool{7: Class(c) != Control, 8: false} {
			if got := s.refusesClass(id, Class(c)); got != want {
				t.Errorf("node %v, class %v: refused %v", id, Class(c), got)
			}
		}
	}
}

// The ids of forgotten peers are a bounded number, and the oldest ones are dropped, one by one.
func TestForgottenPeersAreTheLatest(t *testing.T) {
	p := peerTable{forgotten: map[gossip.NodeID]struct{}{}, ring: make([]gossip.NodeID, 0, 3)}
	for id := gossip.NodeID(1); id <= 8; id++ {
		p.remember(id)
		p.remember(id)
		for past := gossip.NodeID(1); past <= id; past++ {
			if got := p.isForgotten(past); got != (past+3 > id) {
				t.Errorf("after node %v, node %v is forgotten: %v", id, past, got)
			}
		}
	}
}

// A queue is used up to its last byte, lanes leave room for small frames, and the room of
// express is its own.
func TestAQueueIsFilledToItsBound(t *testing.T) {
	l := &link{limit: classLimits{QueueBytesMax: 1600, FrameBytesMax: 100}}
	l.backlog.bytes, l.lanes.bytes, l.flight = 400, 200, 100
	for _, express := range []int{0, 5000} {
		l.express.blocks.bytes = express
		for _, c := range []struct {
			n    int
			at   place
			want bool
		}{{900, inBacklog, true}, {901, inBacklog, false}, {800, inLane, true}, {801, inLane, false}, {5000, inExpress, true}} {
			if got := l.roomLocked(c.n, c.at); got != c.want {
				t.Errorf("%d bytes more at %d, %d in express: room %v", c.n, c.at, express, got)
			}
		}
	}
}

// Lanes leave a sixteenth of the queue free only if a frame of the largest size fits beside half of it.
func TestLanesHaveRoomForTheLargestFrame(t *testing.T) {
	l := &link{limit: classLimits{QueueBytesMax: 1600, FrameBytesMax: 750 - frameBytesAround}}
	for n, want := range map[int]bool{1550: true, 1551: false} {
		if got := l.roomLocked(n, inLane); got != want {
			t.Errorf("%d bytes in a lane: room %v", n, got)
		}
	}
	l.limit.FrameBytesMax = 2000
	for n, want := range map[int]bool{1600: true, 1601: false} {
		if got := l.roomLocked(n, inLane); got != want {
			t.Errorf("%d bytes in a lane, beside frames larger than the queue: room %v", n, got)
		}
	}
}

// A process that is not named is the node itself, in its first incarnation.
func TestAProcessIsNamedByItsNode(t *testing.T) {
	if c := (Config{ID: 9}).withDefaults(); c.Process != 9 || c.Incarnation != 1 {
		t.Errorf("process %d, incarnation %d", c.Process, c.Incarnation)
	}
	if c := (Config{ID: 9, Process: 4, Incarnation: 3}).withDefaults(); c.Process != 4 || c.Incarnation != 3 {
		t.Errorf("process %d, incarnation %d", c.Process, c.Incarnation)
	}
}

// A dial that fails is an error, with secrets, too.
func TestADialThatFailsIsAnError(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*sockets{"plain": {}, "secrets": {secrets: [][]byte{make([]byte, secretBytesMin)}}} {
		conn, err := s.dial(context.Background(), closed.Addr().String())
		if err == nil {
			t.Errorf("%s: connected to %v", name, conn)
		}
	}
}

// Only the answer to the question itself counts: an answer with another nonce, an earlier one
// say, shows nothing about the present.
func TestAnInquiryTakesTheAnswerToItsQuestion(t *testing.T) {
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	stale, fresh := netip.MustParseAddr("10.0.0.9"), netip.MustParseAddr("10.0.0.8")
	answered := make(chan error, 1)
	go func() {
		b := make([]byte, 2048)
		n, from, err := udp.ReadFromUDPAddrPort(b)
		if err != nil {
			answered <- err
			return
		}
		nonce, _, _ := readBeacon(b[:n], beaconQuestion, 7)
		_, err = udp.WriteToUDPAddrPort(beacon(beaconAnswer, 7, newBeaconNonce(), stale), from)
		_, err2 := udp.WriteToUDPAddrPort(beacon(beaconAnswer, 7, nonce, fresh), from)
		answered <- errors.Join(err, err2)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	q := (&sockets{}).inquire(ctx, Peer{ID: 7, Addr: udp.LocalAddr().String()}, newBeaconNonce())
	if err := errors.Join(<-answered, udp.Close()); err != nil {
		t.Fatal(err)
	}
	if q.Outcome != Answered || q.By != fresh {
		t.Errorf("outcome %v by %v, want an answer by %v", q.Outcome, q.By, fresh)
	}
}
