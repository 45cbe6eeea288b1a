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

// preludeBytes is the fixed start of a hello and of an answer: magic, the oldest and the newest
// wire version of its sender, and the length of what follows. It has the same form in all
// versions, and so has the answer that refuses: two nodes of any versions can exchange the
// reason. Hello and answer have the form of the oldest version, with fields added at their end,
// since the dialler sends its hello before it has learned the versions of the acceptor.
const preludeBytes = len(magic) + 2 + 2 + 4

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
	identity         // if refused, its Versions only
	refusal  refusal // if refused
}

// appendPrelude appends the prelude for a body of n bytes.
func appendPrelude(b []byte, v wire.Versions, n int) []byte {
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint16(b, v.Oldest)
	b = binary.BigEndian.AppendUint16(b, v.Newest)
	return binary.BigEndian.AppendUint32(b, uint32(n))
}

// decodePrelude returns the sender's versions and the declared length of the body.
func decodePrelude(b []byte) (v wire.Versions, bodyBytes int, err error) {
	if len(b) != preludeBytes || string(b[:len(magic)]) != magic {
		return v, 0, errNotOurs
	}
	b = b[len(magic):]
	v = wire.Versions{Oldest: binary.BigEndian.Uint16(b), Newest: binary.BigEndian.Uint16(b[2:])}
	n := binary.BigEndian.Uint32(b[4:])
	if n > helloBytesMax {
		return v, 0, &wire.LimitError{Field: "hello", Declared: uint64(n), Max: helloBytesMax}
	}
	return v, int(n), nil
}

// codeFields codes an identity without its versions, which stand in the prelude.
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
	if err := c.Err(); err != nil {
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
	return append(appendPrelude(b, h.Versions, len(body)), body...)
}

// decodeHello decodes the body of a hello, which the hello keeps, from a node with versions v.
func decodeHello(v wire.Versions, body []byte) (*hello, error) {
	h := &hello{}
	h.Versions = v
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
	return append(appendPrelude(b, a.Versions, len(body)), body...)
}

// decodeAnswer decodes the body of an answer, which the answer keeps, from a node with
// versions v.
func decodeAnswer(v wire.Versions, body []byte) (*answer, error) {
	a := &answer{}
	a.Versions = v
	if len(body) > 0 && verdict(body[0]) == verdictRefused {
		c := wire.NewDecoder(body)
		a.codeFields(c)
		return a, c.Err()
	}
	return a, decodeSummed(body, a.codeFields)
}

// readPreluded reads a prelude and its body, and no further byte. A stranger is cut off
// at the first wrong byte.
func readPreluded(conn net.Conn) (v wire.Versions, body []byte, err error) {
	var prelude [preludeBytes]byte
	if _, err := io.ReadFull(conn, prelude[:len(magic)]); err != nil {
		return v, nil, err
	}
	if string(prelude[:len(magic)]) != magic {
		return v, nil, errNotOurs
	}
	if _, err := io.ReadFull(conn, prelude[len(magic):]); err != nil {
		return v, nil, err
	}
	v, n, err := decodePrelude(prelude[:])
	if err != nil {
		return v, nil, err
	}
	body = make([]byte, n) // at most helloBytesMax
	_, err = io.ReadFull(conn, body)
	return v, body, err
}
