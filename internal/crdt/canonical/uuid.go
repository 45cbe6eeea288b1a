package canonical

import "encoding/hex"

const (
	// UUIDExt is the type of the msgpack extension of UUIDs.
	UUIDExt = 1
	// UUIDTextLen is the length of the usual form of a UUID.
	UUIDTextLen = 36
)

// AppendUUID appends a UUID.
func AppendUUID(b []byte, u [16]byte) []byte {
	return append(append(b, FixExt16, UUIDExt), u[:]...)
}

// UUID reads a UUID.
func (r *Reader) UUID() (u [16]byte) {
	if r.Byte() != FixExt16 || r.Byte() != UUIDExt {
		r.Fail(ErrMalformed)
		return u
	}
	copy(u[:], r.take(16))
	return u
}

// ParseUUID reads the lower-case form with four dashes, and no other: what it
// takes, FormatUUID gives back to the letter.
func ParseUUID(s string) (u [16]byte, ok bool) {
	j := 0
	for i := 0; i < len(s); i++ {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if s[i] != '-' {
				return u, false
			}
			continue
		}
		d := hexDigit(s[i])
		if d > 15 {
			return u, false
		}
		u[j/2] = u[j/2]<<4 | d
		j++
	}
	return u, true
}

func hexDigit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}

// FormatUUID returns the usual form of a UUID.
func FormatUUID(u [16]byte) string {
	var t [UUIDTextLen]byte
	hex.Encode(t[0:8], u[0:4])
	hex.Encode(t[9:13], u[4:6])
	hex.Encode(t[14:18], u[6:8])
	hex.Encode(t[19:23], u[8:10])
	hex.Encode(t[24:36], u[10:16])
	t[8], t[13], t[18], t[23] = '-', '-', '-', '-'
	return string(t[:])
}
