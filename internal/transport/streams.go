package transport

import (
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"

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

// streams holds the accepted raw streams that memberlist has not taken yet.
type streams struct {
	waiting  chan net.Conn
	life     *lifetime
	counters *Counters
	log      *limitedLogger
}

// offer hands an accepted raw stream to memberlist, or closes it if the channel is full.
func (s *streams) offer(conn net.Conn) {
	in := &stream{Conn: s.summed(conn), ended: func() {
		s.life.untrack(conn)
		s.counters.Accepted.Add(-1)
	}}
	select {
	case s.waiting <- in:
		s.counters.StreamsAccepted.Add(1)
	default:
		s.counters.Drops[DropStreamQueue].Add(1)
		s.log.writeLine(slog.LevelWarn, "raw streams are not taken fast enough, one was closed")
		_ = in.Close() // dropped
	}
}

// wrapDialled returns the raw stream over a dialled connection.
func (s *streams) wrapDialled(conn net.Conn) net.Conn {
	s.counters.StreamsDialled.Add(1)
	return &stream{Conn: s.summed(conn), ended: func() { s.life.untrack(conn) }}
}

// closeWaiting closes the streams that were not taken, after all goroutines have ended.
func (s *streams) closeWaiting() {
	for {
		select {
		case left := <-s.waiting:
			_ = left.Close() // it has no reader
		default:
			return
		}
	}
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
func (s *streams) summed(conn net.Conn) net.Conn {
	if authenticated(conn) {
		return conn
	}
	return &summedConn{Conn: conn, corrupt: func() {
		s.counters.CorruptFrames.Add(1)
		s.log.writeLine(slog.LevelWarn, "raw stream closed: its bytes changed on the way; check the network's hardware",
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
			c.broken = c.readRecord()
		}
		if c.broken != nil {
			return 0, c.broken
		}
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// readRecord reads the next record. Apart from one record's memory, nothing is allocated before
// its bytes arrive.
func (c *summedConn) readRecord() error {
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
