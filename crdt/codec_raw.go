package crdt

import "github.com/zeebo/xxh3"

// rawCodec is for elements of unknown type: an element is a string that holds its encoding,
// one msgpack value.
type rawCodec struct{ kind ElementKind }

// Append implements Codec.
func (rawCodec) Append(b []byte, s string) []byte { return append(b, s...) }

// Decode implements Codec.
func (rawCodec) Decode(b []byte) (string, int, error) {
	n, err := skip(b, depthMax)
	if err != nil {
		return "", 0, err
	}
	return string(b[:n]), n, nil
}

func (rawCodec) hash(s string) uint64 { return xxh3.HashString(s) }
func (rawCodec) size(s string) int    { return len(s) }
func (c rawCodec) elements() uint8    { return uint8(c.kind) }

// anyElement returns the element description for elements of which only the kind is
// available.
func anyElement(kind ElementKind) *element[string] {
	if kind == ElementString {
		return elementWith[string](stringCodec{})
	}
	return elementWith[string](rawCodec{kind})
}
