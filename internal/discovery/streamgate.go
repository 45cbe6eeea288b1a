package discovery

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
)

// Limits of memberlist's streams. memberlist would read 20 MB on each of 128 streams,
// decompress 40 MB, and allocate for a million nodes that a header declares.
const (
	// streamBytesMost bounds what one stream brings: the state of namesMax nodes.
	streamBytesMost = 4 << 20
	// streamsOpenMost bounds the accepted streams at a time. An exchange takes some
	// milliseconds; a refused node tries again.
	streamsOpenMost = 32
	// streamHeaderBytes covers a push/pull header, and is less than a header with its
	// first node.
	streamHeaderBytes = 48
)

const (
	kindPushPull  = 6
	kindEncrypted = 10
	kindError     = 13
)

var errStreamForm = errors.New("gossip: refused stream: too much state, compressed, or of unknown kind")

// gatedReader reads a stream of memberlist within bounds. Before it returns the first
// byte it checks the kind of message and its declared sizes. It is used by one goroutine
// at a time, as a net.Conn's reader is.
type gatedReader struct {
	b    *bufio.Reader
	left int
	// err is set once the stream has proven invalid.
	err    error
	judged bool
}

func newGatedReader(c net.Conn) *gatedReader {
	return &gatedReader{b: bufio.NewReaderSize(c, 4096), left: streamBytesMost}
}

// Read implements io.Reader.
func (g *gatedReader) Read(p []byte) (int, error) {
	if !g.judged {
		err := g.checkStart()
		if err != nil && !errors.Is(err, errStreamForm) {
			return 0, err // the error of the connection itself
		}
		g.err, g.judged = err, true
	}
	if g.err != nil {
		return 0, g.err
	}
	if g.left == 0 {
		g.err = errStreamForm
		return 0, g.err
	}
	n, err := g.b.Read(p[:min(len(p), g.left)])
	g.left -= n
	return n, err
}

// checkStart peeks at the first bytes: an optional label, and the kind of the message.
func (g *gatedReader) checkStart() error {
	at := 0
	b, err := g.b.Peek(1)
	if err != nil {
		return err
	}
	if b[0] == kindLabel {
		if b, err = g.b.Peek(2); err != nil {
			return err
		}
		at = 2 + int(b[1])
	}
	if b, err = g.b.Peek(at + 1); err != nil {
		return err
	}
	switch b[at] {
	case kindPing, kindAck, kindError:
		return nil
	case kindEncrypted:
		if b, err = g.b.Peek(at + 5); err != nil {
			return err
		}
		if binary.BigEndian.Uint32(b[at+1:]) > streamBytesMost {
			return errStreamForm
		}
		return nil
	case kindPushPull:
		b, err = g.b.Peek(at + 1 + streamHeaderBytes)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		return judgeState(b[at+1:])
	}
	return errStreamForm
}

// judgeState checks the header of a push/pull.
func judgeState(b []byte) error {
	r := packReader{b: b}
	seen := 0
	for range r.mapLen() {
		bit := 0
		switch string(r.readBytes()) {
		case "Nodes":
			bit = 1
			if r.readUint() > namesMax {
				return errStreamForm
			}
		case "UserStateLen":
			bit = 2
			if r.readUint() != 0 {
				return errStreamForm // this package sends none
			}
		case "Join":
			bit = 4
			r.skipBool()
		}
		if bit == 0 || seen&bit != 0 {
			return errStreamForm
		}
		seen |= bit
	}
	if r.bad {
		return errStreamForm
	}
	return nil
}
