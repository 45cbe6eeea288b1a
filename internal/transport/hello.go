package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"

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
//	2  views tell departures, nodes metadata; frames of replicators tell the horizon of
//	   forgotten deletions, of keys and of entries, reads compare large values in parts; a
//	   coordinator may turn a move to another home, a worker that is not to run has an
//	   error of its own; nodes decline to coordinate a type, and who does not run it is
//	   passed over when all do; a census tells where states were sent; hosts of a daemon
//	   tell by which view they are members; a hello carries the process and the number of
//	   its incarnation; frames, hellos and answers have checksums; views carry the origin of
//	   files, members compare ids of their SecretKeys; settings of types tell the shapes of
//	   their messages; raw streams have checksums; pings give joining members the secret of
//	   the cluster; states travel to a shard's next home in numbered chunks
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

func appendIdentity(b []byte, id *identity) []byte {
	b = wire.AppendString(b, id.cluster)
	b = wire.AppendU64(b, uint64(id.ID))
	b = wire.AppendString(b, id.Name)
	b = wire.AppendString(b, id.Addr)
	b = wire.AppendUvarint(b, uint64(len(id.settings)))
	for _, name := range slices.Sorted(maps.Keys(id.settings)) {
		b = wire.AppendString(b, name)
		b = wire.AppendString(b, id.settings[name])
	}
	b = wire.AppendString(b, string(id.proof.key))
	return wire.AppendString(b, string(id.proof.signature))
}

func readIdentity(r *wire.Reader) identity {
	var id identity
	id.cluster = r.String("cluster", nameBytesMax)
	id.ID = gossip.NodeID(r.U64())
	id.Name = r.String("name", nameBytesMax)
	id.Addr = r.String("address", addrBytesMax)
	n := r.Count("settings", 2)
	if n > settingsMax {
		r.Fail(&wire.LimitError{Field: "settings", Declared: uint64(n), Max: settingsMax})
		return id
	}
	id.settings = make(map[string]string, n)
	last := ""
	for range n {
		name := r.String("setting name", settingNameMax)
		value := r.String("setting value", settingValueMax)
		if name <= last { // sorted, so equal identities have equal bytes
			r.Fail(errUnsorted)
			return id
		}
		id.settings[name], last = value, name
	}
	id.proof.key = []byte(r.String("key", keyBytesMax))
	id.proof.signature = []byte(r.String("signature", keyBytesMax))
	if id.ID == 0 {
		r.Fail(errNoNodeID)
	}
	return id
}

// errSum: a hello or an answer was corrupted in transit.
var errSum = errors.New("transport: the checksum does not fit")

// appendSum appends the checksum of a body.
func appendSum(body []byte) []byte { return wire.AppendU64(body, xxh3.Hash(body)) }

// readSum reads the checksum, which ends the body.
func readSum(r *wire.Reader, body []byte) {
	if sum := r.U64(); len(body) < 8 || sum != xxh3.Hash(body[:len(body)-8]) {
		r.Fail(errSum)
	}
}

// appendHello appends h with its prelude.
func appendHello(b []byte, h *hello) []byte {
	body := appendIdentity(nil, &h.identity)
	body = append(body, byte(h.purpose))
	body = wire.AppendU64(body, h.process)
	body = wire.AppendUvarint(body, h.incarnation)
	body = wire.AppendUvarint(body, h.number)
	body = appendSum(wire.AppendU64(body, uint64(h.want)))
	return append(appendPrelude(b, len(body)), body...)
}

// decodeHello decodes the body of a hello.
func decodeHello(body []byte) (*hello, error) {
	r := wire.NewReader(body)
	h := &hello{identity: readIdentity(r)}
	h.purpose = purpose(r.Byte())
	h.process = r.U64()
	h.incarnation = r.Uvarint()
	h.number = r.Uvarint()
	h.want = gossip.NodeID(r.U64())
	readSum(r, body)
	if p := h.purpose; p >= purpose(classes) && p != purposeProbe && p != purposeStream {
		r.Fail(&wire.LimitError{Field: "purpose", Declared: uint64(p), Max: uint64(classes) - 1})
	}
	return h, r.Done()
}

// appendAnswer appends a with its prelude.
func appendAnswer(b []byte, a *answer) []byte {
	body := []byte{byte(a.verdict)}
	if a.verdict == verdictRefused {
		reason := a.refusal.reason
		if len(reason) > reasonBytesMax {
			reason = reason[:reasonBytesMax]
		}
		body = wire.AppendString(append(body, byte(a.refusal.code)), reason)
	} else {
		body = appendSum(appendIdentity(body, &a.identity))
	}
	return append(appendPrelude(b, len(body)), body...)
}

// decodeAnswer decodes the body of an answer. Of a version that is not ours only
// a refusal can be read.
func decodeAnswer(version int, body []byte) (*answer, error) {
	r := wire.NewReader(body)
	a := &answer{verdict: verdict(r.Byte())}
	switch {
	case a.verdict == verdictRefused:
		a.refusal.code = Failure(r.Byte())
		a.refusal.reason = r.String("reason", reasonBytesMax)
	case version != wireVersion:
		r.Fail(fmt.Errorf("transport: wire version %d there, %d here", version, wireVersion))
	case a.verdict == verdictWelcome || a.verdict == verdictOther:
		a.identity = readIdentity(r)
		readSum(r, body)
	default:
		r.Fail(&wire.LimitError{Field: "verdict", Declared: uint64(a.verdict), Max: uint64(verdictRefused)})
	}
	return a, r.Done()
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
