// Package forge makes datagrams of memberlist's form, for tests of attacks.
package forge

import (
	"bytes"
	"compress/lzw"
	"encoding/binary"
	"strconv"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/zeebo/xxh3"
)

// PushPull is the kind of the message that begins an exchange of states.
const PushPull = 6

// Labelled puts memberlist's label of a cluster before a datagram.
func Labelled(cluster string, body []byte) []byte {
	label := "peerage-" + strconv.FormatUint(xxh3.HashString(cluster), 16)
	return append(append([]byte{244, byte(len(label))}, label...), body...)
}

// Compound joins messages of memberlist into one, at most 255.
func Compound(parts ...[]byte) []byte {
	out := []byte{7, byte(len(parts))}
	for _, p := range parts {
		out = binary.BigEndian.AppendUint16(out, uint16(len(p)))
	}
	return append(out, bytes.Join(parts, nil)...)
}

// Compressed packs a message as memberlist would.
func Compressed(body []byte) []byte {
	var packed bytes.Buffer
	w := lzw.NewWriter(&packed, lzw.LSB, 8)
	if _, err := w.Write(body); err != nil {
		panic(err) // a bytes.Buffer takes every write
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return Message(9, map[string]any{"Algo": 0, "Buf": packed.Bytes()})
}

// Message returns a message of a kind. It panics if a field cannot be encoded.
func Message(kind byte, fields map[string]any) []byte {
	b, err := msgpack.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return append([]byte{kind}, b...)
}
