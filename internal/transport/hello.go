package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/wire"
	"github.com/zeebo/xxh3"
)

// wireVersion must be raised with every change, in any package, of the data that nodes
// exchange, if nodes of the former and the new version could misinterpret each other.
// Nodes of different versions refuse each other, and both log the reason. docs/HACKING.md
// has the complete rule.
//
//	1  the first
//	2  views carry departures, and nodes carry metadata; frames of replicators carry the
//	   sweep of forgotten deletions, of keys and of entries; reads compare large values in
//	   parts; a coordinator may retarget a move, and a worker that must not run has an error
//	   of its own; nodes decline to coordinate a type, and nodes that do not run it are
//	   passed over when all decline; a census lists where states were sent; hosts of a
//	   daemon report by which view they are members; a hello carries the process and the
//	   number of its incarnation; frames, hellos and answers have checksums; views carry the
//	   origin of files; members compare ids of their SecretKeys; settings of types carry the
//	   shapes of their messages; raw streams have checksums; pings give joining members the
//	   secret of the cluster; states travel to a shard's next home, and to standbys, in
//	   numbered chunks, to a next home with the term in which the shard stopped; requests may
//	   carry headers
const wireVersion = 2

// preludeBytes is the fixed start of a hello and of an answer: magic, version and
// the length of what follows. It has the same form in all versions, and so has the answer
// that refuses: two nodes of any versions can exchange the reason.
const preludeBytes = len(magic) + 2 + 4

// purpose is the use of a connection: a class, or one of these.
type purpose uint8

const (
	purposeProbe  purpose = 0x80
	purposeStream purpose = 0x81
)

// identity is a node's description of itself in a handshake.
type identity struct {
	Peer
	cluster  string
	settings map[string]string
	// proof is set if the certificate shown is not the one with which the node started.
	proof keyProof
}

// String describes the node for logs.
func (id *identity) String() string { return fmt.Sprintf("%q (%s)", id.Name, id.Addr) }

// hello is the dialler's first message.
type hello struct {
	identity
	purpose purpose
	// process and incarnation order the incarnations of one sending process.
	process, incarnation uint64
	// number orders the connections of one dialler: a later attempt has a greater one.
	number uint64
	// want is the node that the dialler expects, zero for any.
	want gossip.NodeID
}

// verdict is the acceptor's answer to a hello.
type verdict uint8

const (
	// verdictWelcome: the connection stands.
	verdictWelcome verdict = iota + 1
	// verdictOther: this is not the node that the hello wants; the connection ends.
	verdictOther
	// verdictRefused: code and reason follow; the connection ends.
	verdictRefused
)

// answer is the acceptor's reply.
type answer struct {
	verdict  verdict
	identity         // unless refused
	refusal  refusal // if refused
}

// appendPrelude appends the prelude for a body of n bytes.
func appendPrelude(b []byte, n int) []byte {
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint16(b, wireVersion)
	return binary.BigEndian.AppendUint32(b, uint32(n))
}

// decodePrelude returns the version and the declared length of the body.
func decodePrelude(b []byte) (version int, bodyBytes int, err error) {
	if len(b) != preludeBytes || string(b[:len(magic)]) != magic {
		return 0, 0, errNotOurs
	}
	version = int(binary.BigEndian.Uint16(b[len(magic):]))
	n := binary.BigEndian.Uint32(b[len(magic)+2:])
	if n > helloBytesMax {
		return version, 0, &wire.LimitError{Field: "hello", Declared: uint64(n), Max: helloBytesMax}
	}
	return version, int(n), nil
}

func (id *identity) codeFields(c *wire.Coder) {
	c.String("cluster", &id.cluster, nameBytesMax)
	wire.U64(c, &id.ID)
	c.String("name", &id.Name, nameBytesMax)
	c.String("address", &id.Addr, addrBytesMax)
	c.StringMap("settings", &id.settings, settingsMax, settingNameMax, settingValueMax)
	c.Bytes("key", &id.proof.key, keyBytesMax)
	c.Bytes("signature", &id.proof.signature, keyBytesMax)
	if _, nameless := id.settings[""]; nameless {
		c.Fail(errNameless)
	}
	if id.ID == 0 {
		c.Fail(errNoNodeID)
	}
}

func (h *hello) codeFields(c *wire.Coder) {
	h.identity.codeFields(c)
	wire.Byte(c, "purpose", &h.purpose, purposeStream)
	wire.U64(c, &h.process)
	wire.Uvarint(c, &h.incarnation)
	wire.Uvarint(c, &h.number)
	wire.U64(c, &h.want)
	if p := h.purpose; p >= purpose(classes) && p < purposeProbe {
		c.Fail(&wire.LimitError{Field: "purpose", Declared: uint64(p), Max: uint64(classes) - 1})
	}
}

// codeFields codes an answer without the checksum, which a refusal does not have: nodes of
// all versions must read it.
func (a *answer) codeFields(c *wire.Coder) {
	wire.Byte(c, "verdict", &a.verdict, verdictRefused)
	switch a.verdict {
	case verdictRefused:
		wire.Byte(c, "code", &a.refusal.code, math.MaxUint8)
		c.Text("reason", &a.refusal.reason, reasonBytesMax)
	case verdictWelcome, verdictOther:
		a.identity.codeFields(c)
	default:
		c.Fail(&wire.LimitError{Field: "verdict", Declared: uint64(a.verdict), Max: uint64(verdictRefused)})
	}
}

// errSum: a hello or an answer was corrupted in transit.
var errSum = errors.New("transport: the checksum does not fit")

// sumBytes is the length of the checksum that ends a body.
const sumBytes = 8

// appendSum appends the checksum of a body.
func appendSum(body []byte) []byte { return wire.AppendU64(body, xxh3.Hash(body)) }

// decodeSummed decodes a body that ends with its checksum.
func decodeSummed(body []byte, fields func(*wire.Coder)) error {
	if len(body) < sumBytes {
		return wire.ErrTruncated
	}
	summed, sum := body[:len(body)-sumBytes], body[len(body)-sumBytes:]
	c := wire.NewDecoder(summed)
	fields(c)
	if err := c.Done(); err != nil {
		return err
	}
	if binary.BigEndian.Uint64(sum) != xxh3.Hash(summed) {
		return errSum
	}
	return nil
}

// appendHello appends h with its prelude.
func appendHello(b []byte, h *hello) []byte {
	c := wire.NewEncoder(nil)
	h.codeFields(c)
	body := appendSum(c.Encoded())
	return append(appendPrelude(b, len(body)), body...)
}

// decodeHello decodes the body of a hello, which the hello keeps.
func decodeHello(body []byte) (*hello, error) {
	h := &hello{}
	return h, decodeSummed(body, h.codeFields)
}

// appendAnswer appends a with its prelude.
func appendAnswer(b []byte, a *answer) []byte {
	c := wire.NewEncoder(nil)
	a.codeFields(c)
	body := c.Encoded()
	if a.verdict != verdictRefused {
		body = appendSum(body)
	}
	return append(appendPrelude(b, len(body)), body...)
}

// decodeAnswer decodes the body of an answer, which the answer keeps. If the version is not
// ours, it decodes only a refusal.
func decodeAnswer(version int, body []byte) (*answer, error) {
	a := &answer{}
	if len(body) > 0 && verdict(body[0]) == verdictRefused {
		c := wire.NewDecoder(body)
		a.codeFields(c)
		return a, c.Done()
	}
	if version != wireVersion {
		return a, fmt.Errorf("transport: wire version %d there, %d here", version, wireVersion)
	}
	return a, decodeSummed(body, a.codeFields)
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
