package transport

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"
)

// stream is a raw connection for memberlist, after our handshake.
type stream struct {
	net.Conn
	once  sync.Once
	ended func()
}

// Close closes the stream. Idempotent.
func (s *stream) Close() error {
	err := s.Conn.Close()
	s.once.Do(s.ended)
	return err
}

// acceptStream hands an accepted raw stream to memberlist.
func (e *engine) acceptStream(conn net.Conn) func() {
	if err := e.welcome(conn); err != nil {
		e.turnAway(conn, err)
		e.counters.Accepted.Add(-1)
		return nil
	}
	s := &stream{Conn: e.summed(conn), ended: func() {
		e.untrack(conn)
		e.counters.Accepted.Add(-1)
	}}
	return func() {
		select {
		case e.streams <- s:
			e.counters.StreamsAccepted.Add(1)
		default:
			e.counters.Drops[DropStreamQueue].Add(1)
			e.log.line(slog.LevelWarn, "raw streams are not taken fast enough, one was closed")
			_ = s.Close() // dropped
		}
	}
}

// Streams delivers the accepted raw streams.
func (e *engine) Streams() <-chan net.Conn { return e.streams }

// closeWaitingStreams empties Streams after all goroutines have ended.
func (e *engine) closeWaitingStreams() {
	for {
		select {
		case s := <-e.streams:
			_ = s.Close() // it has no reader
		default:
			return
		}
	}
}

// DialStream opens a raw stream for memberlist.
func (e *engine) DialStream(addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(e.ctx, timeout)
	defer cancel()
	conn, _, err := e.connect(ctx, addr, purposeStream, 0)
	if err != nil {
		return nil, e.closedInstead(err)
	}
	e.counters.StreamsDialled.Add(1)
	return &stream{Conn: e.summed(conn), ended: func() { e.untrack(conn) }}, nil
}

// Probe dials addr, runs the handshake and returns the node that answered.
func (e *engine) Probe(ctx context.Context, addr string) (Peer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()
	conn, peer, err := e.connect(ctx, addr, purposeProbe, 0)
	if err != nil {
		return Peer{}, e.closedInstead(err)
	}
	e.drop(conn)
	return peer, nil
}

// closedInstead hides how an operation failed because of Close.
func (e *engine) closedInstead(err error) error {
	if e.ctx.Err() != nil && !errors.Is(err, ErrClosed) {
		return ErrClosed
	}
	return err
}

// packetLoop hands datagrams to memberlist. It continues while Close waits for handlers,
// so that beacons are answered.
func (e *engine) packetLoop() {
	b := make([]byte, 64<<10)
	for {
		n, from, err := e.net.readPacket(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			_ = sleep(e.ctx, 5*time.Millisecond) // transient, such as an ICMP error
			continue
		}
		if e.ctx.Err() != nil {
			continue
		}
		e.counters.PacketsReceived.Add(1)
		e.counters.PacketBytesReceived.Add(uint64(n))
		p := Packet{Data: append([]byte(nil), b[:n]...), From: from, Time: time.Now()}
		select {
		case e.packets <- p:
		default:
			e.counters.Drops[DropPacketQueue].Add(1)
		}
	}
}

// Packets delivers datagrams.
func (e *engine) Packets() <-chan Packet { return e.packets }

// WritePacket sends a datagram.
func (e *engine) WritePacket(b []byte, addr string) error {
	if e.ctx.Err() != nil {
		return ErrClosed
	}
	if e.holds(addr) {
		e.counters.Drops[DropPacketSend].Add(1)
		return nil
	}
	if len(b) > packetBytesMax {
		e.counters.Drops[DropPacketSend].Add(1)
		return ErrFrameTooLarge
	}
	if err := e.net.writePacket(b, addr); err != nil {
		// On an unexpected write error memberlist abandons a probe without suspecting the
		// node; a lost datagram it handles.
		e.counters.Drops[DropPacketSend].Add(1)
		e.log.line(slog.LevelDebug, "datagram not sent", slog.String("to", addr), slog.Any("error", err))
		return nil
	}
	e.counters.PacketsSent.Add(1)
	e.counters.PacketBytesSent.Add(uint64(len(b)))
	return nil
}
