package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/wire"
)

// errOwnAddress: the dialled address is the one at which this node listens.
var errOwnAddress = errors.New("transport: this node's own address")

// otherNodeError: the node that answered is not the dialled one.
type otherNodeError struct{ peer Peer }

func (e *otherNodeError) Error() string {
	return fmt.Sprintf("transport: %s is node %v (%q) now", e.peer.Addr, e.peer.ID, e.peer.Name)
}

// dialler opens connections and runs the dialling side of the handshake on them.
type dialler struct {
	cfg         *Config
	net         network
	life        *lifetime
	credentials *credentials
	counters    *Counters
	log         *limitedLogger
	// connections counts this node's handshakes, so that the far end can order them.
	connections atomic.Uint64
}

// connect dials addr and runs the handshake for a purpose with the node want (zero: any
// node). The connection is tracked: end it with lifetime.closeConn. Its deadline is cleared.
func (d *dialler) connect(ctx context.Context, addr string, p purpose, want gossip.NodeID) (net.Conn, Peer, error) {
	if want != 0 && want != d.credentials.self.ID && addr == d.credentials.self.Addr {
		// A former incarnation at the same address, from other nodes' views: this node
		// need not dial itself to find out.
		return nil, Peer{}, fmt.Errorf("%w: node %v was looked for at %s", errOwnAddress, want, addr)
	}
	d.counters.Dials.Add(1)
	conn, peer, err := d.tryConnect(ctx, addr, p, want)
	if err != nil {
		d.counters.DialFailures.Add(1)
		var refused *RefusedError
		if errors.As(err, &refused) && refused.Code < failures {
			d.counters.DialRefusals[refused.Code].Add(1)
		}
		d.noteTLS(addr, err)
	}
	return conn, peer, err
}

func (d *dialler) tryConnect(ctx context.Context, addr string, p purpose, want gossip.NodeID) (net.Conn, Peer, error) {
	dialCtx, cancel := context.WithTimeout(ctx, d.cfg.DialTimeout)
	defer cancel()
	conn, err := d.net.dial(dialCtx, addr)
	if err != nil {
		return nil, Peer{}, fmt.Errorf("transport: dial %s: %w", addr, err)
	}
	if !d.life.track(conn) {
		_ = conn.Close() // the engine is closing
		return nil, Peer{}, ErrClosed
	}
	peer, err := d.greet(ctx, conn, addr, p, want)
	if err != nil {
		d.life.closeConn(conn)
		return nil, Peer{}, err
	}
	return conn, peer, nil
}

// greet is the dialler's side of the handshake.
func (d *dialler) greet(ctx context.Context, conn net.Conn, addr string, p purpose, want gossip.NodeID) (Peer, error) {
	deadline := time.Now().Add(d.cfg.HandshakeTimeout)
	if at, ok := ctx.Deadline(); ok && at.Before(deadline) {
		deadline = at
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return Peer{}, fmt.Errorf("transport: handshake with %s: %w", addr, err)
	}
	interrupted := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	a, err := d.exchange(ctx, conn, p, want)
	if !interrupted() {
		err = ctx.Err()
	}
	if err != nil {
		return Peer{}, fmt.Errorf("transport: handshake with %s: %w", addr, err)
	}
	if a.verdict == verdictRefused {
		return Peer{}, d.refused(addr, a.Versions, &a.refusal)
	}
	if _, some := d.cfg.Versions.Common(a.Versions); !some { // it must have refused
		return Peer{}, d.refused(addr, a.Versions, &refusal{code: FailVersion, reason: fmt.Sprintf("wire versions are %v at %s, %v there",
			d.cfg.Versions, &d.credentials.self, a.Versions)})
	}
	if r := incompatible(&d.credentials.self, &a.identity); r != nil {
		return Peer{}, d.refused(addr, a.Versions, r)
	}
	if r := d.credentials.identify(conn, &a.identity, accepting); r != nil {
		return Peer{}, d.refused(addr, a.Versions, r)
	}
	if want != 0 && a.ID != want {
		return Peer{}, &otherNodeError{peer: a.Peer}
	}
	return a.Peer, conn.SetDeadline(time.Time{})
}

// refused logs a refusal and returns it as an error.
func (d *dialler) refused(addr string, there wire.Versions, r *refusal) error {
	d.log.refusal("refused by a node", addr, r)
	return &RefusedError{Addr: addr, Code: r.code, Reason: r.reason, Here: d.cfg.Versions, There: there}
}

// exchange sends the hello and reads the answer.
func (d *dialler) exchange(ctx context.Context, conn net.Conn, p purpose, want gossip.NodeID) (*answer, error) {
	if err := secured(ctx, conn); err != nil {
		return nil, err
	}
	self, err := d.credentials.presentOn(conn, dialling)
	if err != nil {
		return nil, err
	}
	h := &hello{
		identity: self, purpose: p, number: d.connections.Add(1), want: want,
		process: d.cfg.Process, incarnation: d.cfg.Incarnation,
	}
	if _, err := conn.Write(appendHello(nil, h)); err != nil {
		return nil, err
	}
	versions, body, err := readPreluded(conn)
	if err != nil {
		return nil, err
	}
	return decodeAnswer(versions, body)
}

// noteTLS logs a dial that failed because of certificates or secrets; events report the
// other failures. A peer that ends during the handshake, or does not answer in time, is one of
// those: its certificate is not the reason.
func (d *dialler) noteTLS(addr string, err error) {
	var alert *net.OpError
	if errors.Is(err, errSecret) {
		d.log.writeLine(slog.LevelWarn, "no shared secret in common with a node, it cannot be reached: check SharedSecrets on both",
			slog.String("addr", addr), slog.Any("error", err))
	} else if classify(err) == FailTLS || errors.As(err, &alert) && alert.Op == "remote error" {
		d.log.writeLine(slog.LevelWarn, "TLS handshake with a node failed", slog.String("addr", addr), slog.Any("error", err))
	}
}

// probeAddr dials addr, runs the handshake and returns the node that answered.
func (d *dialler) probeAddr(ctx context.Context, addr string) (Peer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.life.ctx, cancel)()
	conn, peer, err := d.connect(ctx, addr, purposeProbe, 0)
	if err != nil {
		return Peer{}, d.life.orClosed(err)
	}
	d.life.closeConn(conn)
	return peer, nil
}
