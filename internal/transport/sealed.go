package transport

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
)

// sealedConn is a connection between two holders of a shared secret, for clusters
// without certificates. It proves to each side that the other holds the secret, now and
// on this connection, and that no byte was changed, added, left out or moved since. It
// encrypts nothing: any host on the path reads everything.
//
//	dialler   ──▶  magic, nonce d, hint = HMAC(secret, "hint" | d)
//	acceptor  ──▶  magic, nonce a, HMAC(key of the acceptor, "welcome")
//	both           keys = HKDF(secret, d | a), one for each direction
//	then           records: length, bytes, HMAC(key, number | length | bytes)
//
// The acceptor answers only if the hint matches one of its secrets, so a stranger learns
// only that a secret is required. The dialler is authenticated by its first record, which
// holds the hello: a hint can be replayed, a record under a fresh nonce cannot. Each
// direction has its own key and numbers its records, so nothing can be reflected or
// repeated.
//
// Tried and rejected: a proof in the hello alone (an attacker on the path could take the
// connection over after it), and encryption (a protocol of our own without forward
// secrecy would only look like TLS; certificates give it).
type sealedConn struct {
	net.Conn
	secrets [][]byte
	dialled bool

	in, out sealer
	// rest is the unread part of the last record; buf its memory.
	rest, buf []byte
	// record is the memory of the record being written.
	record []byte
	// broken is set by the first record that does not verify.
	broken error
}

const (
	sealMagic      = "PSK1"
	sealNonceBytes = 32
	sealHintBytes  = 16
	sealTagBytes   = 16
	sealHelloBytes = len(sealMagic) + sealNonceBytes + sealHintBytes
	sealReplyBytes = len(sealMagic) + sealNonceBytes + sealTagBytes
	// recordBytesMax bounds the bytes in a record.
	recordBytesMax = 64 << 10
	// secretBytesMin is the minimum length of a shared secret; secretsMax bounds their
	// number, since each is tried.
	secretBytesMin = 32
	secretsMax     = 4
)

var (
	errSecret = errors.New("transport: the far end does not hold the shared secret")
	errSealed = errors.New("transport: a record that the holder of the shared secret has not written")
)

// checkSecrets returns an error for invalid shared secrets, without showing them.
func checkSecrets(secrets [][]byte) error {
	if len(secrets) > secretsMax {
		return fmt.Errorf("transport: %d SharedSecrets, at most %d are allowed: every one is tried", len(secrets), secretsMax)
	}
	for i, s := range secrets {
		if len(s) < secretBytesMin {
			return fmt.Errorf("transport: SharedSecrets[%d] has %d bytes: at least %d from a random source are needed, since guesses can be tried out on what was recorded", i, len(s), secretBytesMin)
		}
	}
	return nil
}

// sealer authenticates the records of one direction.
type sealer struct {
	mac    hash.Hash
	number uint64
	sum    [sha256.Size]byte
}

// tag returns the tag of the next record. It is valid until the next call.
func (s *sealer) tag(parts ...[]byte) []byte {
	s.mac.Reset()
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], s.number)
	s.mac.Write(number[:])
	for _, p := range parts {
		s.mac.Write(p)
	}
	s.number++
	return s.mac.Sum(s.sum[:0])[:sealTagBytes]
}

// hintOf returns the hint by which holders of a secret identify the dialler's.
func hintOf(secret, nonce []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("peerage hint 1"))
	mac.Write(nonce)
	return mac.Sum(nil)[:sealHintBytes]
}

// derive sets the keys of both directions.
func (c *sealedConn) derive(secret, dialled, accepted []byte) error {
	salt := append(append([]byte{}, dialled...), accepted...)
	for _, d := range []struct {
		side   string
		sealer *sealer
	}{{"dialler", c.direction(true)}, {"acceptor", c.direction(false)}} {
		key, err := hkdf.Key(sha256.New, secret, salt, "peerage frames 1 of the "+d.side, sha256.Size)
		if err != nil {
			return err
		}
		d.sealer.mac = hmac.New(sha256.New, key)
	}
	return nil
}

// direction returns the sealer of one side's records.
func (c *sealedConn) direction(ofDialler bool) *sealer {
	if ofDialler == c.dialled {
		return &c.out
	}
	return &c.in
}

// handshake proves the secret; the deadline is the connection's.
func (c *sealedConn) handshake() error {
	nonce := make([]byte, sealNonceBytes)
	_, _ = rand.Read(nonce) // never fails
	if c.dialled {
		return c.ask(nonce)
	}
	return c.answer(nonce)
}

// ask is the dialler's side.
func (c *sealedConn) ask(nonce []byte) error {
	secret := c.secrets[0]
	hello := append([]byte(sealMagic), nonce...)
	if _, err := c.Conn.Write(append(hello, hintOf(secret, nonce)...)); err != nil {
		return err
	}
	var reply [sealReplyBytes]byte
	if _, err := io.ReadFull(c.Conn, reply[:len(sealMagic)]); err != nil {
		return fmt.Errorf("%w, or hung up: %w", errSecret, err)
	}
	if string(reply[:len(sealMagic)]) != sealMagic {
		return errSecret
	}
	if _, err := io.ReadFull(c.Conn, reply[len(sealMagic):]); err != nil {
		return err
	}
	theirs, tag := reply[len(sealMagic):len(sealMagic)+sealNonceBytes], reply[len(sealMagic)+sealNonceBytes:]
	if err := c.derive(secret, nonce, theirs); err != nil {
		return err
	}
	if !hmac.Equal(c.in.tag([]byte("welcome")), tag) {
		return errSecret
	}
	return nil
}

// answer is the acceptor's side. A stranger is cut off at the first wrong byte, without
// an answer.
func (c *sealedConn) answer(nonce []byte) error {
	var hello [sealHelloBytes]byte
	if _, err := io.ReadFull(c.Conn, hello[:len(sealMagic)]); err != nil {
		return err
	}
	if m := string(hello[:len(sealMagic)]); m != sealMagic {
		if m == magic {
			return errSecret // a node without a secret
		}
		return errNotOurs
	}
	if _, err := io.ReadFull(c.Conn, hello[len(sealMagic):]); err != nil {
		return err
	}
	theirs, hint := hello[len(sealMagic):len(sealMagic)+sealNonceBytes], hello[len(sealMagic)+sealNonceBytes:]
	for _, secret := range c.secrets {
		if subtle.ConstantTimeCompare(hintOf(secret, theirs), hint) == 0 {
			continue
		}
		if err := c.derive(secret, theirs, nonce); err != nil {
			return err
		}
		reply := append([]byte(sealMagic), nonce...)
		_, err := c.Conn.Write(append(reply, c.out.tag([]byte("welcome"))...))
		return err
	}
	return errSecret
}

// Write writes b in records. Like that of a TLS connection it is used by one goroutine
// at a time.
func (c *sealedConn) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		chunk := b[:min(len(b), recordBytesMax)]
		c.record = binary.BigEndian.AppendUint32(c.record[:0], uint32(len(chunk)))
		tag := c.out.tag(c.record, chunk)
		c.record = append(append(c.record, chunk...), tag...)
		if _, err := c.Conn.Write(c.record); err != nil {
			return n, err
		}
		n, b = n+len(chunk), b[len(chunk):]
	}
	return n, nil
}

// Read hands out bytes of records that have been verified as a whole.
func (c *sealedConn) Read(b []byte) (int, error) {
	if len(c.rest) == 0 {
		if err := c.readRecord(); err != nil {
			return 0, err
		}
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// readRecord reads the next record. An error ends the connection for good: part of the record
// may have been read.
func (c *sealedConn) readRecord() error {
	if c.broken != nil {
		return c.broken
	}
	var length [4]byte
	_, err := io.ReadFull(c.Conn, length[:])
	if err == nil {
		n := int(binary.BigEndian.Uint32(length[:]))
		if n == 0 || n > recordBytesMax {
			err = errSealed
		} else {
			err = c.fillWith(length[:], n+sealTagBytes)
		}
	}
	c.broken = err
	return err
}

// fillWith reads n bytes of a record and its tag.
func (c *sealedConn) fillWith(length []byte, n int) error {
	if cap(c.buf) < n {
		c.buf = make([]byte, n)
	}
	c.buf = c.buf[:n]
	if _, err := io.ReadFull(c.Conn, c.buf); err != nil {
		return err
	}
	body, tag := c.buf[:n-sealTagBytes], c.buf[n-sealTagBytes:]
	if !hmac.Equal(c.in.tag(length, body), tag) {
		return errSealed
	}
	c.rest = body
	return nil
}

// secured runs the handshake of the layer that authenticates the connection, if there is
// one.
func secured(ctx context.Context, conn net.Conn) error {
	switch c := conn.(type) {
	case secureConn:
		if err := c.HandshakeContext(ctx); err != nil {
			return &tlsError{err}
		}
	case *sealedConn:
		return c.handshake()
	}
	return nil
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
