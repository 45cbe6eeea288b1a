package transport

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/wire"
)

var (
	errBusy = errors.New("transport: too many connections")
	// errOwnAddress: the dialled address is the one at which this node listens.
	errOwnAddress = errors.New("transport: this node's own address")
)

// otherNodeError: the node that answered is not the dialled one.
type otherNodeError struct{ peer Peer }

func (e *otherNodeError) Error() string {
	return fmt.Sprintf("transport: %s is node %v (%q) now", e.peer.Addr, e.peer.ID, e.peer.Name)
}

// connect dials addr and runs the handshake for a purpose with the node want (zero: any
// node). The connection is tracked: end it with drop. Its deadline is cleared.
func (e *engine) connect(ctx context.Context, addr string, p purpose, want gossip.NodeID) (net.Conn, Peer, error) {
	if want != 0 && want != e.self.ID && addr == e.self.Addr {
		// A former incarnation at the same address, from other nodes' views: this node
		// need not dial itself to find out.
		return nil, Peer{}, fmt.Errorf("%w: node %v was looked for at %s", errOwnAddress, want, addr)
	}
	e.counters.Dials.Add(1)
	conn, peer, err := e.tryConnect(ctx, addr, p, want)
	if err != nil {
		e.counters.DialFailures.Add(1)
		var refused *RefusedError
		if errors.As(err, &refused) && refused.Code < failures {
			e.counters.DialRefusals[refused.Code].Add(1)
		}
		e.noteTLS(addr, err)
	}
	return conn, peer, err
}

func (e *engine) tryConnect(ctx context.Context, addr string, p purpose, want gossip.NodeID) (net.Conn, Peer, error) {
	dialCtx, cancel := context.WithTimeout(ctx, e.cfg.DialTimeout)
	defer cancel()
	conn, err := e.net.dial(dialCtx, addr)
	if err != nil {
		return nil, Peer{}, fmt.Errorf("transport: dial %s: %w", addr, err)
	}
	if !e.track(conn) {
		_ = conn.Close() // the engine is closing
		return nil, Peer{}, ErrClosed
	}
	peer, err := e.greet(ctx, conn, addr, p, want)
	if err != nil {
		e.closeConn(conn)
		return nil, Peer{}, err
	}
	return conn, peer, nil
}

// greet is the dialler's side of the handshake.
func (e *engine) greet(ctx context.Context, conn net.Conn, addr string, p purpose, want gossip.NodeID) (Peer, error) {
	deadline := time.Now().Add(e.cfg.HandshakeTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return Peer{}, fmt.Errorf("transport: handshake with %s: %w", addr, err)
	}
	interrupted := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	a, err := e.exchange(ctx, conn, p, want)
	if !interrupted() {
		err = ctx.Err()
	}
	if err != nil {
		return Peer{}, fmt.Errorf("transport: handshake with %s: %w", addr, err)
	}
	if a.verdict == verdictRefused {
		return Peer{}, e.refused(addr, &a.refusal)
	}
	if r := incompatible(&e.self, &a.identity); r != nil {
		return Peer{}, e.refused(addr, r)
	}
	if r := e.identify(conn, &a.identity, acceptor); r != nil {
		return Peer{}, e.refused(addr, r)
	}
	if want != 0 && a.ID != want {
		return Peer{}, &otherNodeError{peer: a.Peer}
	}
	return a.Peer, conn.SetDeadline(time.Time{})
}

// refused logs a refusal and returns it as an error.
func (e *engine) refused(addr string, r *refusal) error {
	e.log.refusal("refused by a node", addr, r)
	return &RefusedError{Addr: addr, Code: r.code, Reason: r.reason}
}

// exchange sends the hello and reads the answer.
func (e *engine) exchange(ctx context.Context, conn net.Conn, p purpose, want gossip.NodeID) (*answer, error) {
	if err := secured(ctx, conn); err != nil {
		return nil, err
	}
	self, err := e.present(conn, dialler)
	if err != nil {
		return nil, err
	}
	h := &hello{
		identity: self, purpose: p, number: e.connections.Add(1), want: want,
		process: e.cfg.Process, incarnation: e.cfg.Incarnation,
	}
	if _, err := conn.Write(appendHello(nil, h)); err != nil {
		return nil, err
	}
	version, body, err := readPreluded(conn)
	if err != nil {
		return nil, err
	}
	return decodeAnswer(version, body)
}

// readPreluded reads a prelude and its body, and no further byte. A stranger is cut off
// at the first wrong byte.
func readPreluded(conn net.Conn) (version int, body []byte, err error) {
	var prelude [preludeBytes]byte
	if _, err := io.ReadFull(conn, prelude[:len(magic)]); err != nil {
		return 0, nil, err
	}
	if string(prelude[:len(magic)]) != magic {
		return 0, nil, errNotOurs
	}
	if _, err := io.ReadFull(conn, prelude[len(magic):]); err != nil {
		return 0, nil, err
	}
	version, n, err := decodePrelude(prelude[:])
	if err != nil {
		return version, nil, err
	}
	body = make([]byte, n) // at most helloBytesMax
	_, err = io.ReadFull(conn, body)
	return version, body, err
}

// receive is the acceptor's first half of the handshake: it reads and checks the hello.
// An error means that the far end is not a node of the cluster, and gets no answer.
func (e *engine) receive(conn net.Conn) (*hello, *refusal, error) {
	if err := secured(e.ctx, conn); err != nil {
		return nil, nil, err
	}
	version, body, err := readPreluded(conn)
	if err != nil {
		return nil, nil, err
	}
	if version != wireVersion {
		return nil, &refusal{code: FailVersion, reason: fmt.Sprintf("wire version is %d at %s, %d at the one who dials",
			wireVersion, &e.self, version)}, nil
	}
	h, err := decodeHello(body)
	if err != nil {
		return nil, nil, &malformedError{err}
	}
	if r := incompatible(&e.self, &h.identity); r != nil {
		return h, r, nil
	}
	if e.peers.isForgotten(h.ID) {
		return h, &refusal{code: FailForgotten, reason: fmt.Sprintf("node %v of %s was removed; its incarnation is over", h.ID, &h.identity)}, nil
	}
	if h.ID == e.self.ID && h.purpose < purpose(classes) { // a probe may meet itself, and memberlist too
		return h, &refusal{code: FailIdentity, reason: fmt.Sprintf("node %v is %s itself", h.ID, &e.self)}, nil
	}
	r := e.identify(conn, &h.identity, dialler)
	if r == nil {
		r = e.bindSource(conn, h)
	}
	return h, r, nil
}

// reply is the acceptor's second half.
func (e *engine) reply(conn net.Conn, v verdict, r *refusal) error {
	a := &answer{verdict: v}
	if r != nil {
		a.refusal = *r
	} else {
		var err error
		if a.identity, err = e.present(conn, acceptor); err != nil {
			return err
		}
	}
	_, err := conn.Write(appendAnswer(nil, a))
	return err
}

// present returns this node's description of itself on conn.
func (e *engine) present(conn net.Conn, who side) (identity, error) {
	id := e.self
	t, ok := conn.(secureConn)
	if !ok || e.first == nil || e.first.key == e.certificates.current().key {
		return id, nil
	}
	var err error
	if id.proof, err = prove(e.first, t.ConnectionState(), who, id.ID); err != nil {
		err = &tlsError{err}
	}
	return id, err
}

// identify binds the NodeID of the far end to its key, or returns why it must not be.
func (e *engine) identify(conn net.Conn, id *identity, who side) *refusal {
	key, r := e.keyOf(conn, id, who)
	if r != nil || key == (keyHash{}) {
		return r
	}
	return e.keys.claim(id.ID, key)
}

// keyOf returns the key of which the far end has proven possession; zero without TLS.
func (e *engine) keyOf(conn net.Conn, id *identity, who side) (key keyHash, r *refusal) {
	t, ok := conn.(secureConn)
	if !ok {
		return key, nil
	}
	s := t.ConnectionState()
	if len(s.PeerCertificates) == 0 {
		return key, &refusal{code: FailIdentity, reason: fmt.Sprintf("%s has shown no certificate", id)}
	}
	if r := e.namesHost(s.PeerCertificates[0], id); r != nil {
		return key, r
	}
	if len(id.proof.key) > 0 {
		var err error
		if key, err = id.proof.verify(s, who, id.ID); err != nil {
			return key, &refusal{code: FailIdentity, reason: fmt.Sprintf("%s: %v", id, err)}
		}
		return key, nil
	}
	return hashKey(s.PeerCertificates[0].RawSubjectPublicKeyInfo), nil
}

// noteTLS logs a dial that failed because of certificates or secrets; events report the
// other failures.
func (e *engine) noteTLS(addr string, err error) {
	var secure *tlsError
	var alert *net.OpError
	if errors.Is(err, errSecret) {
		e.log.line(slog.LevelWarn, "no shared secret in common with a node, it cannot be reached: check SharedSecrets on both",
			slog.String("addr", addr), slog.Any("error", err))
	} else if errors.As(err, &secure) || errors.As(err, &alert) && alert.Op == "remote error" {
		e.log.line(slog.LevelWarn, "TLS handshake with a node failed", slog.String("addr", addr), slog.Any("error", err))
	}
}

type malformedError struct{ err error }

func (e *malformedError) Error() string { return "transport: malformed hello: " + e.err.Error() }
func (e *malformedError) Unwrap() error { return e.err }

// classify returns the kind of failure of a handshake that ended with err.
func classify(err error) Failure {
	var (
		limit     *wire.LimitError
		malformed *malformedError
		secure    *tlsError
	)
	switch {
	case errors.Is(err, errSecret), errors.Is(err, errSealed):
		return FailSecret
	case errors.Is(err, errNotOurs):
		return FailNotOurs
	case errors.As(err, &malformed):
		return FailMalformed
	case errors.As(err, &limit):
		return FailOversize
	case errors.Is(err, os.ErrDeadlineExceeded):
		return FailTimeout
	case errors.Is(err, errBusy):
		return FailBusy
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return FailHungUp
	case errors.As(err, &secure):
		return FailTLS
	}
	return FailOther
}

// authenticated reports whether the far end of a connection has proven that it belongs
// to the cluster: by a certificate, or by the shared secret.
func authenticated(conn net.Conn) bool {
	switch conn.(type) {
	case secureConn, *sealedConn:
		return true
	}
	return false
}

// sourceKey replaces the key of a certificate if there is none: it is the host from which
// a node connects. A NodeID is no secret, so in the clear any host that has learnt one
// could otherwise pose as that node. It proves nothing with a proxy or a NAT in between,
// nor against attackers that can use the host's address.
func sourceKey(conn net.Conn) (key keyHash, ok bool) {
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return key, false
	}
	return sha256.Sum256([]byte("host " + at.Addr().Unmap().String())), true
}

// bindSource binds the NodeID of a node that opens a connection of a class to the host
// from which it connects, if no certificate binds it, or returns why it must not be.
// Probes and raw streams go to other addresses than the advertised one, and so may arrive
// from other hosts.
func (e *engine) bindSource(conn net.Conn, h *hello) *refusal {
	if _, tls := conn.(secureConn); tls || h.purpose >= purpose(classes) {
		return nil
	}
	key, ok := sourceKey(conn)
	if !ok {
		return nil
	}
	r := e.keys.claim(h.ID, key)
	if r != nil && r.code == FailIdentity {
		r.reason = "node " + h.ID.String() + " connected from another host before; " + h.identity.String() + " connects from " + conn.RemoteAddr().String()
	}
	return r
}

// brief returns the part of a refusal that is sent to a stranger. In the clear any host
// can ask, and a complete reason names the cluster, its settings and its nodes. The log
// of the refusing node has all of it.
func (r *refusal) brief() *refusal {
	const see = "; see the log of the node that refuses"
	text := "refused" + see
	switch r.code {
	case FailVersion:
		text = "wire version is " + strconv.Itoa(wireVersion) + " there" + see
	case FailCluster:
		text = "another cluster" + see
	case FailSetting:
		text = "setting " + r.setting + " differs" + see
	case FailForgotten:
		text = "this incarnation was removed"
	case FailDropped:
		text = "the view has dropped this node"
	case FailSuperseded:
		text = "a newer connection or incarnation of this node stands"
	case FailIdentity:
		text = "the NodeID belongs to another node" + see
	case FailBusy:
		text = "too many connections"
	}
	return &refusal{code: r.code, reason: text}
}

// namesHost refuses a far end whose certificate does not name the host of its advertised
// address. The dialling side has already checked the dialled host; namesHost checks the
// advertised one, on both sides.
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
