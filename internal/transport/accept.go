package transport

import (
	"container/list"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// acceptor accepts connections, runs the accepting side of the handshake on them, and serves
// those of peers.
type acceptor struct {
	cfg         *Config
	net         network
	life        *lifetime
	events      *eventSink
	credentials *credentials
	counters    *Counters
	log         *limitedLogger
	strangers   strangers

	peers    *peerTable
	inbounds *inbounds
	receiver *receiver
	streams  *streams
}

// acceptLoop accepts connections. Until its handshake is done a connection is a stranger:
// it has a slot (see strangers), one deadline for the whole handshake, and room for one
// hello.
func (a *acceptor) acceptLoop() {
	wait := time.Duration(0)
	for {
		conn, err := a.net.accept()
		if errors.Is(err, net.ErrClosed) || a.life.ctx.Err() != nil {
			if err == nil {
				_ = conn.Close() // accepted during Close
			}
			return
		}
		if listenerLost(err) {
			a.counters.AcceptErrors.Add(1)
			a.log.writeLine(slog.LevelError, "the listener is lost; this incarnation ends, and the next one listens again; check the network of the host", slog.Any("error", err))
			a.events.emit(PeerEvent{Type: ListenerLost, Err: err}, nil)
			return
		}
		if err != nil {
			a.counters.AcceptErrors.Add(1)
			a.log.writeLine(slog.LevelWarn, "cannot accept connections", slog.Any("error", err))
			wait = min(max(2*wait, 5*time.Millisecond), time.Second)
			if !sleep(a.life.ctx, wait) {
				return
			}
			continue
		}
		wait = 0
		a.admit(conn)
	}
}

// listenerLost reports whether an error means that the listener was destroyed from
// outside, by ss -K for example: waiting would not bring it back.
func listenerLost(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EBADF) || errors.Is(err, syscall.ENOTSOCK)
}

// admit gives a new connection a slot and a goroutine. Another one may lose its slot for
// it.
func (a *acceptor) admit(conn net.Conn) {
	if !a.life.track(conn) {
		_ = conn.Close() // the engine is closing
		return
	}
	in, out := a.strangers.enter(conn)
	if out != nil {
		_ = out.conn.Close() // wakes its goroutine, which counts it and cleans up
	}
	if !a.life.spawn(func() { a.meet(in) }) {
		a.strangers.leaveStranger(in)
		a.life.closeConn(conn)
	}
}

// meet runs the handshake with a stranger and then serves it.
func (a *acceptor) meet(s *strangerConn) {
	serve := a.introduce(s.conn)
	if !a.strangers.leaveStranger(s) && serve == nil {
		a.turnAway(s.conn, errBusy)
	}
	if serve != nil {
		serve() // also of one that has just lost its slot: it cleans up
		return
	}
	a.life.closeConn(s.conn)
}

// introduce is the acceptor's side of the handshake. It returns the function that serves
// the connection, or nil to end it.
func (a *acceptor) introduce(conn net.Conn) (serve func()) {
	if err := conn.SetDeadline(time.Now().Add(a.cfg.HandshakeTimeout)); err != nil {
		a.turnAway(conn, err)
		return nil
	}
	h, refused, err := a.receive(conn)
	switch {
	case err != nil:
		a.turnAway(conn, err)
		return nil
	case refused != nil:
		a.refuse(conn, refused)
		return nil
	case h.want != 0 && h.want != a.credentials.self.ID:
		_ = a.reply(conn, verdictOther, nil) // the dialler tries again if it is lost
		return nil
	case h.purpose == purposeProbe:
		_ = a.reply(conn, verdictWelcome, nil) // as above
		return nil
	}
	if a.counters.Accepted.Add(1) > int64(a.cfg.AcceptedMax) {
		a.counters.Accepted.Add(-1)
		a.refuse(conn, &refusal{code: FailBusy, reason: "too many connections at " + a.credentials.self.String()})
		return nil
	}
	if h.purpose == purposeStream {
		return a.serveStream(conn)
	}
	return a.serveClass(conn, h)
}

// turnAway counts and logs a stranger that is not a node of the cluster.
func (a *acceptor) turnAway(conn net.Conn, err error) {
	if a.life.ctx.Err() != nil {
		return
	}
	f := classify(err)
	a.log.writeLine(slog.LevelInfo, "connection closed in the handshake", slog.String("from", conn.RemoteAddr().String()),
		slog.String("failure", f.String()), slog.Any("error", err))
	a.counters.HandshakeFailures[f].Add(1) // last: a reader of the count must find the log line
}

// refuse sends a node the reason why it cannot be a peer.
func (a *acceptor) refuse(conn net.Conn, r *refusal) {
	a.log.refusal("refused a node", conn.RemoteAddr().String(), r)
	a.counters.HandshakeFailures[r.code].Add(1) // as above
	if !authenticated(conn) {
		r = r.brief(a.cfg.Versions)
	}
	_ = a.reply(conn, verdictRefused, r) // it is logged here in any case
}

// receive is the acceptor's first half of the handshake: it reads and checks the hello.
// An error means that the far end is not a node of the cluster, and gets no answer.
func (a *acceptor) receive(conn net.Conn) (*hello, *refusal, error) {
	if err := secured(a.life.ctx, conn); err != nil {
		return nil, nil, err
	}
	versions, body, err := readPreluded(conn)
	if err != nil {
		return nil, nil, err
	}
	if _, some := a.cfg.Versions.Common(versions); !some {
		return nil, &refusal{code: FailVersion, reason: fmt.Sprintf("wire versions are %v at %s, %v at the dialling node",
			a.cfg.Versions, &a.credentials.self, versions)}, nil
	}
	h, err := decodeHello(versions, body)
	if err != nil {
		return nil, nil, &malformedError{err}
	}
	if r := incompatible(&a.credentials.self, &h.identity); r != nil {
		return h, r, nil
	}
	if a.peers.isForgotten(h.ID) {
		return h, &refusal{code: FailForgotten, reason: fmt.Sprintf("node %v of %s was removed; its incarnation is over", h.ID, &h.identity)}, nil
	}
	if h.ID == a.credentials.self.ID && h.purpose < purpose(classes) { // a probe may meet itself, and memberlist too
		return h, &refusal{code: FailIdentity, reason: fmt.Sprintf("node %v is %s itself", h.ID, &a.credentials.self)}, nil
	}
	r := a.credentials.identify(conn, &h.identity, dialling)
	if r == nil {
		r = a.credentials.bindSource(conn, h)
	}
	return h, r, nil
}

// reply is the acceptor's second half.
func (a *acceptor) reply(conn net.Conn, v verdict, r *refusal) error {
	out := &answer{verdict: v}
	if r != nil {
		out.Versions, out.refusal = a.cfg.Versions, *r
	} else {
		var err error
		if out.identity, err = a.credentials.presentOn(conn, accepting); err != nil {
			return err
		}
	}
	_, err := conn.Write(appendAnswer(nil, out))
	return err
}

// serveClass registers the connection and returns its reader, or nil.
func (a *acceptor) serveClass(conn net.Conn, h *hello) func() {
	in := &inbound{
		peer: h.Peer, class: Class(h.purpose), number: h.number, conn: conn, handing: make(chan struct{}, 1),
		sender: processKey{process: h.process}, incarnation: h.incarnation,
	}
	key, r := a.credentials.keyOf(conn, &h.identity, dialling)
	if r == nil {
		in.sender.key = key
		r = a.inbounds.registerConn(in)
	}
	if r != nil {
		a.counters.Accepted.Add(-1)
		if r != refusedByClosing {
			a.refuse(conn, r)
		}
		return nil
	}
	if err := a.welcome(conn); err != nil {
		a.turnAway(conn, err)
		a.inbounds.unregisterConn(in, err)
		return nil
	}
	return func() { a.inbounds.unregisterConn(in, a.receiver.readFrames(in)) }
}

// welcome ends the handshake and clears the deadline, after the answer: the far end may
// not read it.
func (a *acceptor) welcome(conn net.Conn) error {
	if err := a.reply(conn, verdictWelcome, nil); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

// serveStream ends the handshake of a raw stream and returns the function that hands it to
// memberlist, or nil.
func (a *acceptor) serveStream(conn net.Conn) func() {
	if err := a.welcome(conn); err != nil {
		a.turnAway(conn, err)
		a.counters.Accepted.Add(-1)
		return nil
	}
	return func() { a.streams.offer(conn) }
}

// strangerConn is an accepted connection whose handshake is not done.
type strangerConn struct {
	conn   net.Conn
	source string
	at     *list.Element
	// displaced: it was ended to make room. Written with strangers.mu.
	displaced bool
}

// strangers holds the handshake slots. A stranger that sends nothing keeps its slot until
// HandshakeTimeout, so full slots must not exclude a newcomer: it always gets one, and
// another stranger ends for it.
//
//	its source holds perSource slots:   the oldest of that source
//	all slots are taken:                the oldest of the source that holds most
//	more than half are taken:           any, with a probability that rises to 1
//
// A handshake takes a few round trips and an attacker's never ends, so the oldest is most
// likely the attacker's. The random choice prevents an attacker with many addresses from
// timing its connections so that a slow correct handshake is always the oldest. A node
// that loses its slot dials again after a back-off.
type strangers struct {
	max, perSource int
	// draw returns a number in [0, n).
	draw func(n int) int
	// taken is the number of slots taken, for metrics. Written with mu.
	taken *atomic.Int64

	mu sync.Mutex
	// all is in the order of arrival. Invariant: bySource counts it by source, without
	// zeros; all.Len() <= max.
	all      *list.List
	bySource map[string]int
}

func (s *strangers) initStrangers(max, perSource int, taken *atomic.Int64) {
	s.max, s.perSource, s.draw, s.taken = max, perSource, rand.IntN, taken
	s.all, s.bySource = list.New(), make(map[string]int)
}

// sourceOf returns the source of a connection: an IPv4 address, or an IPv6 network,
// within which a host chooses freely.
func sourceOf(conn net.Conn) string {
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		return conn.RemoteAddr().String()
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() && !ip.Is4In6() {
		if p, err := ip.Prefix(64); err == nil {
			return p.String()
		}
	}
	return host
}

// enter gives conn a slot, and returns the stranger that must end for it, or nil.
func (s *strangers) enter(conn net.Conn) (in, out *strangerConn) {
	in = &strangerConn{conn: conn, source: sourceOf(conn)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if out = s.victim(in.source); out != nil {
		out.displaced = true
		s.removeStranger(out)
	}
	in.at = s.all.PushBack(in)
	s.bySource[in.source]++
	s.taken.Store(int64(s.all.Len()))
	return in, out
}

// victim returns the stranger that ends for a newcomer from source, or nil.
func (s *strangers) victim(source string) *strangerConn {
	n, half := s.all.Len(), s.max/2
	switch {
	case s.bySource[source] >= s.perSource:
		return s.oldest(source)
	case n >= s.max:
		return s.oldest(s.fullest())
	case n > half && s.draw(s.max-half) < n-half:
		at := s.all.Front()
		for range s.draw(n) {
			at = at.Next()
		}
		return at.Value.(*strangerConn)
	}
	return nil
}

func (s *strangers) oldest(source string) *strangerConn {
	for at := s.all.Front(); at != nil; at = at.Next() {
		if x := at.Value.(*strangerConn); x.source == source {
			return x
		}
	}
	return nil
}

// fullest returns the source with most slots; of several, that of the oldest stranger.
func (s *strangers) fullest() (source string) {
	for at := s.all.Front(); at != nil; at = at.Next() {
		if x := at.Value.(*strangerConn).source; s.bySource[x] > s.bySource[source] {
			source = x
		}
	}
	return source
}

func (s *strangers) removeStranger(x *strangerConn) {
	s.all.Remove(x.at)
	if s.bySource[x.source]--; s.bySource[x.source] == 0 {
		delete(s.bySource, x.source)
	}
}

// leaveStranger frees the slot. It reports false if x had lost it.
func (s *strangers) leaveStranger(x *strangerConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.displaced {
		return false
	}
	s.removeStranger(x)
	s.taken.Store(int64(s.all.Len()))
	return true
}
