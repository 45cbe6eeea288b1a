package standby

import (
	"fmt"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/wire"
)

// On the wire a message is: kind 1 | shard | token 16 | its fields in the order of
// the struct. Lists have their length in front.
type kind byte

const (
	kindCollect kind = iota + 1
	kindHeld
	kindWrite
	kindAck
	kindAnnounce
	kindAnnounced
	kindRefused
)

const (
	idBytesMax = 4096
	// StateBytesMax bounds one entity's state.
	StateBytesMax = 8 << 20
	membersMax    = 1 << 12
)

// Append appends the encoded message.
func Append(b []byte, m Message) []byte {
	switch m := m.(type) {
	case Collect:
		b = appendHead(b, kindCollect, m.Shard, m.Token)
		return wire.AppendString(b, m.After)
	case Held:
		b = appendHead(b, kindHeld, m.Shard, m.Token)
		b = wire.AppendString(b, m.After)
		b = wire.AppendBool(b, m.More)
		b = appendLayout(b, &m.Layout)
		return appendCopies(b, m.Copies)
	case Write:
		b = appendHead(b, kindWrite, m.Shard, m.Token)
		b = wire.AppendUvarint(b, m.Stream)
		b = wire.AppendUvarint(b, m.Seq)
		b = wire.AppendUvarint(b, m.For)
		return appendCopies(b, m.Copies)
	case Ack:
		b = appendHead(b, kindAck, m.Shard, m.Token)
		b = wire.AppendUvarint(b, m.Stream)
		b = wire.AppendUvarint(b, m.Next)
		return wire.AppendBool(b, m.Full)
	case Announce:
		b = appendHead(b, kindAnnounce, m.Shard, m.Token)
		return appendLayout(b, &m.Layout)
	case Announced:
		b = appendHead(b, kindAnnounced, m.Shard, m.Token)
		b = wire.AppendUvarint(b, m.Seq)
		return wire.AppendBool(b, m.Active)
	case Refused:
		b = appendHead(b, kindRefused, m.Shard, m.Token)
		return appendToken(b, m.Fence)
	}
	panic(fmt.Sprintf("standby: %T is no message", m))
}

// Decode decodes a message that Append encoded. States are copies: nothing aliases frame.
func Decode(frame []byte) (Message, error) {
	r := wire.NewReader(frame)
	k := kind(r.Byte())
	s, t := protocol.ShardID(r.Uvarint()), readToken(r)
	if s >= protocol.ShardsMax {
		r.Fail(&wire.LimitError{Field: "shard", Declared: uint64(s), Max: protocol.ShardsMax - 1})
	}
	m := decodeBody(r, k, s, t)
	if err := r.Err(); err != nil {
		return nil, err
	}
	return m, nil
}

func decodeBody(r *wire.Reader, k kind, s protocol.ShardID, t protocol.Token) Message {
	switch k {
	case kindCollect:
		return Collect{Shard: s, Token: t, After: r.String("after", idBytesMax)}
	case kindHeld:
		m := Held{Shard: s, Token: t, After: r.String("after", idBytesMax), More: r.Bool()}
		m.Layout = readLayout(r)
		m.Copies = readCopies(r)
		return m
	case kindWrite:
		m := Write{Shard: s, Token: t, Stream: r.Uvarint(), Seq: r.Uvarint(), For: r.Uvarint()}
		m.Copies = readCopies(r)
		return m
	case kindAck:
		return Ack{Shard: s, Token: t, Stream: r.Uvarint(), Next: r.Uvarint(), Full: r.Bool()}
	case kindAnnounce:
		return Announce{Shard: s, Token: t, Layout: readLayout(r)}
	case kindAnnounced:
		return Announced{Shard: s, Token: t, Seq: r.Uvarint(), Active: r.Bool()}
	case kindRefused:
		return Refused{Shard: s, Token: t, Fence: readToken(r)}
	}
	r.Fail(wire.ErrUnknownKind)
	return nil
}

func appendHead(b []byte, k kind, s protocol.ShardID, t protocol.Token) []byte {
	b = append(b, byte(k))
	b = wire.AppendUvarint(b, uint64(s))
	return appendToken(b, t)
}

func appendToken(b []byte, t protocol.Token) []byte {
	return wire.AppendU64(wire.AppendU64(b, uint64(t.Term)), t.Seq)
}

func readToken(r *wire.Reader) protocol.Token {
	return protocol.Token{Term: gossip.Epoch(r.U64()), Seq: r.U64()}
}

func appendLayout(b []byte, l *Layout) []byte {
	b = appendToken(b, l.Token)
	b = wire.AppendUvarint(b, l.Seq)
	b = wire.AppendBool(b, l.Active)
	b = appendSet(b, l.Members)
	b = wire.AppendUvarint(b, uint64(len(l.Before)))
	for _, set := range l.Before {
		b = appendSet(b, set)
	}
	return b
}

func readLayout(r *wire.Reader) Layout {
	l := Layout{Token: readToken(r), Seq: r.Uvarint(), Active: r.Bool(), Members: readSet(r)}
	n := r.Count("sets", 1)
	if n > beforeMax+1 {
		r.Fail(&wire.LimitError{Field: "sets", Declared: uint64(n), Max: beforeMax + 1})
		return Layout{}
	}
	for range n {
		l.Before = append(l.Before, readSet(r))
	}
	return l
}

func appendSet(b []byte, set []gossip.NodeID) []byte {
	b = wire.AppendUvarint(b, uint64(len(set)))
	for _, id := range set {
		b = wire.AppendU64(b, uint64(id))
	}
	return b
}

func readSet(r *wire.Reader) []gossip.NodeID {
	n := r.Count("members", 8)
	if n > membersMax {
		r.Fail(&wire.LimitError{Field: "members", Declared: uint64(n), Max: membersMax})
	}
	if n == 0 || r.Err() != nil {
		return nil
	}
	set := make([]gossip.NodeID, n)
	for i := range set {
		set[i] = gossip.NodeID(r.U64())
	}
	return set
}

func appendCopies(b []byte, copies []Copy) []byte {
	b = wire.AppendUvarint(b, uint64(len(copies)))
	for i := range copies {
		c := &copies[i]
		b = wire.AppendString(b, c.ID)
		b = appendToken(b, c.Tag.Token)
		b = wire.AppendUvarint(b, c.Tag.Version)
		b = wire.AppendBool(b, c.State != nil)
		if c.State != nil {
			b = wire.AppendBytes(b, c.State)
		}
	}
	return b
}

// copyWireMin is the least that a copy takes on the wire.
const copyWireMin = 19

func readCopies(r *wire.Reader) []Copy {
	n := r.Count("copies", copyWireMin)
	if n == 0 || r.Err() != nil {
		return nil
	}
	copies := make([]Copy, 0, n)
	for range n {
		c := Copy{ID: r.String("id", idBytesMax), Tag: Tag{Token: readToken(r), Version: r.Uvarint()}}
		if r.Bool() {
			c.State = append([]byte{}, r.Bytes("state", StateBytesMax)...)
		}
		copies = append(copies, c)
	}
	return copies
}
