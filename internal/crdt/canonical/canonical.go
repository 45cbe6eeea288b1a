package canonical

import (
	"encoding/binary"
	"math"
)

// The first bytes of these forms.
const (
	Nil      = 0xc0
	False    = 0xc2
	True     = 0xc3
	Bin8     = 0xc4
	Bin16    = 0xc5
	Bin32    = 0xc6
	Uint8    = 0xcc
	Uint16   = 0xcd
	Uint32   = 0xce
	Uint64   = 0xcf
	Int8     = 0xd0
	Int16    = 0xd1
	Int32    = 0xd2
	Int64    = 0xd3
	FixExt16 = 0xd8
	Str8     = 0xd9
	Str16    = 0xda
	Str32    = 0xdb
	Array16  = 0xdc
	Array32  = 0xdd
)

// AppendUint appends an integer that is not negative.
func AppendUint(b []byte, v uint64) []byte {
	switch {
	case v < 0x80:
		return append(b, byte(v))
	case v <= math.MaxUint8:
		return append(b, Uint8, byte(v))
	case v <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, Uint16), uint16(v))
	case v <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, Uint32), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, Uint64), v)
}

// AppendInt appends an integer.
func AppendInt(b []byte, v int64) []byte {
	switch {
	case v >= 0:
		return AppendUint(b, uint64(v))
	case v >= -32:
		return append(b, byte(v))
	case v >= math.MinInt8:
		return append(b, Int8, byte(v))
	case v >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(b, Int16), uint16(v))
	case v >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(b, Int32), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, Int64), uint64(v))
}

// AppendArrayLen appends the header of an array of n elements.
func AppendArrayLen(b []byte, n int) []byte {
	switch {
	case n < 16:
		return append(b, 0x90|byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, Array16), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, Array32), uint32(n))
}

// AppendStr appends a string.
func AppendStr(b []byte, s string) []byte {
	n := len(s)
	switch {
	case n < 32:
		b = append(b, 0xa0|byte(n))
	case n <= math.MaxUint8:
		b = append(b, Str8, byte(n))
	case n <= math.MaxUint16:
		b = binary.BigEndian.AppendUint16(append(b, Str16), uint16(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, Str32), uint32(n))
	}
	return append(b, s...)
}

// AppendBin appends a byte string.
func AppendBin(b, p []byte) []byte {
	n := len(p)
	switch {
	case n <= math.MaxUint8:
		b = append(b, Bin8, byte(n))
	case n <= math.MaxUint16:
		b = binary.BigEndian.AppendUint16(append(b, Bin16), uint16(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, Bin32), uint32(n))
	}
	return append(b, p...)
}

// StrSize returns the bytes that AppendStr writes for a string of n bytes.
func StrSize(n int) int {
	switch {
	case n < 32:
		return n + 1
	case n <= math.MaxUint8:
		return n + 2
	case n <= math.MaxUint16:
		return n + 3
	}
	return n + 5
}

// UintSize returns the bytes that AppendUint writes for v.
func UintSize(v uint64) int {
	switch {
	case v < 0x80:
		return 1
	case v <= math.MaxUint8:
		return 2
	case v <= math.MaxUint16:
		return 3
	case v <= math.MaxUint32:
		return 5
	}
	return 9
}
