package replica

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// packDepthMax bounds how deep arrays and maps of an element may nest.
const packDepthMax = 32

// unpacked decodes raw as msgpack, for JSON. ok is false if raw is not exactly one msgpack
// value. It allocates nothing for a declared length before as many bytes are present: every
// item of an array takes at least one.
func unpacked(raw string) (v any, ok bool) {
	r := &unpacker{b: raw}
	v = r.nextValue(packDepthMax)
	return v, !r.bad && r.b == ""
}

// rawPage shows bytes of unknown content.
type rawPage struct {
	Base64 string `json:"base64"`
	Bytes  int    `json:"bytes"`
}

type unpacker struct {
	b   string
	bad bool
}

// takeBytes returns the next n bytes.
func (r *unpacker) takeBytes(n uint64) string {
	if r.bad || n > uint64(len(r.b)) {
		r.bad, r.b = true, ""
		return ""
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

// uint reads a big-endian number of n bytes.
func (r *unpacker) uint(n uint64) uint64 {
	var b [8]byte
	copy(b[8-n:], r.takeBytes(n))
	return binary.BigEndian.Uint64(b[:])
}

func (r *unpacker) nextValue(depth int) any {
	c := r.takeBytes(1)
	if c == "" || depth == 0 {
		r.bad = true
		return nil
	}
	switch t := c[0]; {
	case t < 0x80:
		return uint64(t)
	case t < 0x90:
		return r.pairs(uint64(t&15), depth)
	case t < 0xa0:
		return r.items(uint64(t&15), depth)
	case t < 0xc0:
		return r.text(uint64(t & 31))
	case t >= 0xe0:
		return int64(int8(t))
	default:
		return r.long(t, depth)
	}
}

// long reads what has its length, or its number, in the bytes that follow.
func (r *unpacker) long(t byte, depth int) any {
	switch t {
	case 0xc0:
		return nil
	case 0xc2, 0xc3:
		return t == 0xc3
	case 0xc4, 0xc5, 0xc6:
		return r.rawBytes(r.uint(1 << (t - 0xc4)))
	case 0xca:
		return number(float64(math.Float32frombits(uint32(r.uint(4)))))
	case 0xcb:
		return number(math.Float64frombits(r.uint(8)))
	case 0xcc, 0xcd, 0xce, 0xcf:
		return r.uint(1 << (t - 0xcc))
	case 0xd0, 0xd1, 0xd2, 0xd3:
		bits := uint(8) << (t - 0xd0)
		return int64(r.uint(uint64(bits/8))<<(64-bits)) >> (64 - bits)
	case 0xd9, 0xda, 0xdb:
		return r.text(r.uint(1 << (t - 0xd9)))
	case 0xdc, 0xdd:
		return r.items(r.uint(2<<(t-0xdc)), depth)
	case 0xde, 0xdf:
		return r.pairs(r.uint(2<<(t-0xde)), depth)
	}
	r.bad = true // an extension
	return nil
}

// number returns a number that JSON has, or its name.
func number(f float64) any {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return f
}

func (r *unpacker) text(n uint64) any { return strings.ToValidUTF8(r.takeBytes(n), "\uFFFD") }

func (r *unpacker) rawBytes(n uint64) any {
	raw := r.takeBytes(n)
	return rawPage{base64.StdEncoding.EncodeToString([]byte(raw)), len(raw)}
}

func (r *unpacker) items(n uint64, depth int) any {
	out := []any{}
	for ; n > 0 && !r.bad; n-- {
		out = append(out, r.nextValue(depth-1))
	}
	return out
}

func (r *unpacker) pairs(n uint64, depth int) any {
	out := map[string]any{}
	for ; n > 0 && !r.bad; n-- {
		name := r.key(depth - 1)
		out[name] = r.nextValue(depth - 1)
	}
	return out
}

// key returns the next value as a name. An array or a map is named by its bytes: as JSON
// within the JSON of the next its quotes would double at every level, to gigabytes.
func (r *unpacker) key(depth int) string {
	from := r.b
	switch k := r.nextValue(depth).(type) {
	case string:
		return k
	case rawPage:
		return "base64:" + k.Base64
	case []any, map[string]any:
		return "base64:" + base64.StdEncoding.EncodeToString([]byte(from[:len(from)-len(r.b)]))
	default:
		// Numbers that JSON has, booleans and nil have an encoding.
		b, _ := json.Marshal(k)
		return string(b)
	}
}
