package discovery

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// The form of memberlist's datagrams, as far as nodes of this package send them:
//
//	datagram  = label [encrypted] [checksum] (compound | message)
//	compound  = 7, count, lengths, messages      never nested
//	message   = ping | indirect ping | ack | suspect | alive | dead | nack
//	            one byte of kind and a msgpack map, whose keys are defined and unique
//
// Compression and user messages are part of memberlist's protocol and are refused: no
// node of this package sends them, and both let a small datagram cost much.

// packetBytesMost bounds a datagram. memberlist fills its datagrams up to 1400 bytes
// before encryption, and a single message of this package has at most 1000.
const packetBytesMost = 2048

const (
	kindPing         = 0
	kindIndirectPing = 1
	kindAck          = 2
	kindSuspect      = 3
	kindAlive        = 4
	kindDead         = 5
	kindCompound     = 7
	kindNack         = 11
	kindChecksum     = 12
	kindLabel        = 244
)

// Reasons to refuse a datagram.
var (
	errForeignPacket = errors.New("gossip: a datagram of another cluster or another program")
	errUndecryptable = errors.New("gossip: no key decrypts the datagram")
	errPacketForm    = errors.New("gossip: refused datagram: oversize, nested, compressed or malformed")
	// errUnvouched: without keys, any host can name nodes in a datagram. Those that no
	// contact point or connection has named are left alone.
	errUnvouched = errors.New("gossip: refused datagram without keys: it names a node or address that this node has not met")
)

// unwrapPacket removes label, encryption and checksum. It does not change b.
func unwrapPacket(b []byte, label string, keys [][]byte) ([]byte, error) {
	if len(b) < 2 || b[0] != kindLabel || len(b) < 2+int(b[1]) || string(b[2:2+int(b[1])]) != label {
		return nil, errForeignPacket
	}
	if len(b) > packetBytesMost {
		return nil, errPacketForm
	}
	b = b[2+len(label):]
	if len(keys) > 0 {
		var err error
		if b, err = decryptPacket(b, label, keys); err != nil {
			return nil, err
		}
	}
	if len(b) >= 5 && b[0] == kindChecksum {
		if crc32.ChecksumIEEE(b[5:]) != binary.BigEndian.Uint32(b[1:]) {
			return nil, errForeignPacket
		}
		b = b[5:]
	}
	if len(b) == 0 {
		return nil, errForeignPacket
	}
	return b, nil
}

// decryptPacket undoes memberlist's encryption version 1: AES-GCM without padding, the
// label as additional data.
func decryptPacket(b []byte, label string, keys [][]byte) ([]byte, error) {
	const version, nonceBytes, tagBytes = 1, 12, 16
	if len(b) < 1+nonceBytes+tagBytes || b[0] != version {
		return nil, errUndecryptable
	}
	for _, key := range keys {
		block, err := aes.NewCipher(key)
		if err != nil {
			continue // a ring holds only keys of the right size
		}
		gcm, err := cipher.NewGCM(block)
		if err != nil {
			continue
		}
		if plain, err := gcm.Open(nil, b[1:1+nonceBytes], b[1+nonceBytes:], []byte(label)); err == nil {
			return plain, nil
		}
	}
	return nil, errUndecryptable
}

// splitPacket returns the messages of an unwrapped datagram.
func splitPacket(b []byte) ([][]byte, error) {
	if b[0] != kindCompound {
		return [][]byte{b}, nil
	}
	if len(b) < 2 || len(b) < 2+2*int(b[1]) {
		return nil, errPacketForm
	}
	lengths, rest := b[2:2+2*int(b[1])], b[2+2*int(b[1]):]
	parts := make([][]byte, 0, int(b[1]))
	for ; len(lengths) > 0; lengths = lengths[2:] {
		n := int(binary.BigEndian.Uint16(lengths))
		if n == 0 || n > len(rest) {
			return nil, errPacketForm
		}
		parts, rest = append(parts, rest[:n]), rest[n:]
	}
	if len(rest) > 0 {
		return nil, errPacketForm
	}
	return parts, nil
}

// packetMessage holds the fields of a datagram's message that the gate checks.
type packetMessage struct {
	kind byte
	// node is the name in the message; addr and port are the node's in an alive message,
	// and the target's of an indirect ping. sourceAddr and sourcePort are the address for
	// the answer.
	node                   string
	addr, sourceAddr, meta []byte
	port, sourcePort       uint64
}

// packetFields lists the keys that memberlist writes, by kind of message.
var packetFields = [...][]string{
	kindPing:         {"SeqNo", "Node", "SourceAddr", "SourcePort", "SourceNode"},
	kindIndirectPing: {"SeqNo", "Target", "Port", "Node", "Nack", "SourceAddr", "SourcePort", "SourceNode"},
	kindAck:          {"SeqNo", "Payload"},
	kindSuspect:      {"Incarnation", "Node", "From"},
	kindAlive:        {"Incarnation", "Node", "Addr", "Port", "Meta", "Vsn"},
	kindDead:         {"Incarnation", "Node", "From"},
	kindNack:         {"SeqNo"},
}

// readPacketMessage reads one message. It allocates nothing.
func readPacketMessage(b []byte) (packetMessage, error) {
	m := packetMessage{kind: b[0]}
	if int(m.kind) >= len(packetFields) || packetFields[m.kind] == nil {
		return m, errPacketForm
	}
	known := packetFields[m.kind]
	r := packReader{b: b[1:]}
	seen := 0
	for range r.mapLen() {
		key, bit := r.readBytes(), 0
		for i, name := range known {
			if string(key) == name {
				bit = 1 << i
			}
		}
		if bit == 0 || seen&bit != 0 {
			return m, errPacketForm // memberlist would take the last of two, the gate the first
		}
		seen |= bit
		m.readField(&r, key)
	}
	if r.bad || len(r.b) > 0 {
		return m, errPacketForm
	}
	return m, nil
}

func (m *packetMessage) readField(r *packReader, key []byte) {
	switch string(key) {
	case "Node":
		m.node = string(r.readBytes())
	case "Addr", "Target":
		m.addr = r.readBytes()
	case "Port":
		m.port = r.readUint()
	case "SourceAddr":
		m.sourceAddr = r.readBytes()
	case "SourcePort":
		m.sourcePort = r.readUint()
	case "Meta":
		m.meta = r.readBytes()
	case "SourceNode", "From", "Payload":
		r.readBytes()
	case "SeqNo", "Incarnation":
		r.readUint()
	case "Nack":
		r.skipBool()
	case "Vsn":
		r.skipNumbers()
	}
}
