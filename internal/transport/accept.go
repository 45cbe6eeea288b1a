package transport

import (
	"errors"
	"log/slog"
	"net"
	"syscall"
	"time"
)

// acceptLoop accepts connections. Until its handshake is done a connection is a stranger:
// it has a slot (strangers.go), one deadline for the whole handshake, and room for one
// hello.
func (e *engine) acceptLoop() {
	wait := time.Duration(0)
	for {
		conn, err := e.net.accept()
		if errors.Is(err, net.ErrClosed) || e.ctx.Err() != nil {
			if err == nil {
				_ = conn.Close() // accepted during Close
			}
			return
		}
		if listenerLost(err) {
			e.counters.AcceptErrors.Add(1)
			e.log.line(slog.LevelError, "the listener is lost", slog.Any("error", err))
			e.emit(PeerEvent{Type: ListenerLost, Err: err}, nil)
			return
		}
		if err != nil {
			e.counters.AcceptErrors.Add(1)
			e.log.line(slog.LevelWarn, "cannot accept connections", slog.Any("error", err))
			wait = min(max(2*wait, 5*time.Millisecond), time.Second)
			if !sleep(e.ctx, wait) {
				return
			}
			continue
		}
		wait = 0
		e.admit(conn)
	}
}

// listenerLost reports whether an error means that the listener was destroyed from
// outside, by ss -K for example: waiting would not bring it back.
func listenerLost(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EBADF) || errors.Is(err, syscall.ENOTSOCK)
}

// admit gives a new connection a slot and a goroutine. Another one may lose its slot for
// it.
func (e *engine) admit(conn net.Conn) {
	if !e.track(conn) {
		_ = conn.Close() // the engine is closing
		return
	}
	in, out := e.strangers.enter(conn)
	if out != nil {
		_ = out.conn.Close() // wakes its goroutine, which counts it and cleans up
	}
	e.counters.Strangers.Store(int64(e.strangers.len()))
	if !e.spawn(func() { e.meet(in) }) {
		e.leave(in)
		e.drop(conn)
	}
}

// leave frees a stranger's slot; it reports false if the stranger had lost it.
func (e *engine) leave(s *stranger) bool {
	kept := e.strangers.leave(s)
	e.counters.Strangers.Store(int64(e.strangers.len()))
	return kept
}

// meet runs the handshake with a stranger and then serves it.
func (e *engine) meet(s *stranger) {
	serve := e.introduce(s.conn)
	if !e.leave(s) && serve == nil {
		e.turnAway(s.conn, errBusy)
	}
	if serve != nil {
		serve() // also of one that has just lost its slot: it cleans up
		return
	}
	e.drop(s.conn)
}

// introduce is the acceptor's side of the handshake. It returns the function that serves
// the connection, or nil to end it.
func (e *engine) introduce(conn net.Conn) (serve func()) {
	if err := conn.SetDeadline(time.Now().Add(e.cfg.HandshakeTimeout)); err != nil {
		e.turnAway(conn, err)
		return nil
	}
	h, refused, err := e.receive(conn)
	switch {
	case err != nil:
		e.turnAway(conn, err)
		return nil
	case refused != nil:
		e.refuse(conn, refused)
		return nil
	case h.want != 0 && h.want != e.self.ID:
		_ = e.reply(conn, verdictOther, nil) // the dialler tries again if it is lost
		return nil
	case h.purpose == purposeProbe:
		_ = e.reply(conn, verdictWelcome, nil) // as above
		return nil
	}
	if e.counters.Accepted.Add(1) > int64(e.cfg.AcceptedMax) {
		e.counters.Accepted.Add(-1)
		e.refuse(conn, &refusal{code: FailBusy, reason: "too many connections at " + e.self.String()})
		return nil
	}
	if h.purpose == purposeStream {
		return e.acceptStream(conn)
	}
	return e.acceptClass(conn, h)
}

// turnAway counts and logs a stranger that is not a node of the cluster.
func (e *engine) turnAway(conn net.Conn, err error) {
	if e.ctx.Err() != nil {
		return
	}
	f := classify(err)
	e.log.line(slog.LevelInfo, "connection closed in the handshake", slog.String("from", conn.RemoteAddr().String()),
		slog.String("failure", f.String()), slog.Any("error", err))
	e.counters.HandshakeFailures[f].Add(1) // last: a reader of the count must find the log line
}

// refuse sends a node the reason why it cannot be a peer.
func (e *engine) refuse(conn net.Conn, r *refusal) {
	e.log.refusal("refused a node", conn.RemoteAddr().String(), r)
	e.counters.HandshakeFailures[r.code].Add(1) // as above
	if !authenticated(conn) {
		r = r.brief()
	}
	_ = e.reply(conn, verdictRefused, r) // it is logged here in any case
}
