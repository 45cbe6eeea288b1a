package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/zeebo/xxh3"
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
	e.closeConn(conn)
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

// summedConn adds checksums to memberlist's raw streams if neither TLS nor a shared
// secret protects them: TCP's checksums miss some flipped bits. It protects only against
// accidents.
//
//	record: length (4 bytes), xxh3 of length and bytes (8), bytes
type summedConn struct {
	net.Conn
	// corrupt is called once, when a record does not verify.
	corrupt func()
	// rest is the unread part of the last record; buf its memory.
	rest, buf []byte
	// record is the memory of the record being written.
	record []byte
	// broken ends reading: part of a record may have been read.
	broken error
}

const sumHeadBytes = 4 + 8

var errRecordSum = errors.New("transport: a record of a raw stream with a wrong checksum")

// summed returns a raw stream's connection with checksums, or conn itself if it is
// already protected.
func (e *engine) summed(conn net.Conn) net.Conn {
	if authenticated(conn) {
		return conn
	}
	return &summedConn{Conn: conn, corrupt: func() {
		e.counters.CorruptFrames.Add(1)
		e.log.line(slog.LevelWarn, "raw stream closed: its bytes changed on the way; check the network's hardware",
			slog.String("addr", conn.RemoteAddr().String()))
	}}
}

// recordSum returns the checksum of a record.
func recordSum(length [4]byte, body []byte) uint64 {
	return xxh3.HashSeed(body, uint64(binary.BigEndian.Uint32(length[:])))
}

// Write writes b in records. It is used by one goroutine at a time.
func (c *summedConn) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		chunk := b[:min(len(b), recordBytesMax)]
		var length [4]byte
		binary.BigEndian.PutUint32(length[:], uint32(len(chunk)))
		c.record = binary.BigEndian.AppendUint64(append(c.record[:0], length[:]...), recordSum(length, chunk))
		c.record = append(c.record, chunk...)
		if _, err := c.Conn.Write(c.record); err != nil {
			return n, err
		}
		n, b = n+len(chunk), b[len(chunk):]
	}
	return n, nil
}

// Read hands out bytes of records that have been verified as a whole.
func (c *summedConn) Read(b []byte) (int, error) {
	if len(c.rest) == 0 {
		if c.broken == nil {
			c.broken = c.fill()
		}
		if c.broken != nil {
			return 0, c.broken
		}
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// fill reads the next record. Apart from one record's memory, nothing is allocated before
// its bytes arrive.
func (c *summedConn) fill() error {
	var head [sumHeadBytes]byte
	if _, err := io.ReadFull(c.Conn, head[:]); err != nil {
		return err
	}
	length := [4]byte(head[:4])
	n := binary.BigEndian.Uint32(length[:])
	if n == 0 || n > recordBytesMax {
		c.corrupt()
		return errRecordSum
	}
	if cap(c.buf) < int(n) {
		c.buf = make([]byte, n)
	}
	c.buf = c.buf[:n]
	if _, err := io.ReadFull(c.Conn, c.buf); err != nil {
		return err
	}
	if recordSum(length, c.buf) != binary.BigEndian.Uint64(head[4:]) {
		c.corrupt()
		return errRecordSum
	}
	c.rest = c.buf
	return nil
}
