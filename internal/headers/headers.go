// Package headers encodes the headers of messages: short texts that a sender attaches to a
// message, and that its handler reads. Their number and sizes are bounded. No decision of
// Peerage depends on them.
package headers

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/peerage-go/peerage/internal/wire"
)

// The bounds of the headers of one message. BytesMax bounds all keys and values together.
const (
	Max           = 32
	KeyBytesMax   = 128
	ValueBytesMax = 8 << 10
	BytesMax      = 16 << 10
	// EncodedMax is the greatest length of a List.
	EncodedMax = BytesMax + 2*Max*binary.MaxVarintLen16
)

// List is the headers of one message in the form in which they travel: sorted by key, each
// key and each value behind its length. "" means no headers. A List is immutable, so all
// copies of a message share it.
type List string

// With returns the headers of l and more. A header of more replaces that of the same key. It
// fails if the result is beyond a bound.
func (l List) With(more map[string]string) (List, error) {
	all := more
	if l != "" {
		all = l.Map()
		maps.Copy(all, more)
	}
	if len(all) > Max {
		return "", fmt.Errorf("%d headers, at most %d are allowed", len(all), Max)
	}
	total := 0
	for key, value := range all { // order-free: any header beyond a bound will do
		if key == "" || len(key) > KeyBytesMax {
			return "", fmt.Errorf("key of %d bytes, 1 to %d are allowed", len(key), KeyBytesMax)
		}
		if len(value) > ValueBytesMax {
			return "", fmt.Errorf("value of %q has %d bytes, at most %d are allowed", key, len(value), ValueBytesMax)
		}
		total += len(key) + len(value)
	}
	if total > BytesMax {
		return "", fmt.Errorf("keys and values have %d bytes, at most %d are allowed", total, BytesMax)
	}
	b := make([]byte, 0, total+2*binary.MaxVarintLen16*len(all))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		b = wire.AppendString(wire.AppendString(b, key), all[key])
	}
	return List(b), nil
}

// Get returns the value of a key, and whether there is one.
func (l List) Get(key string) (value string, ok bool) {
	for l != "" {
		k, v, rest, ok := cutHeader(l)
		if !ok || string(k) == key {
			return string(v), ok
		}
		l = rest
	}
	return "", false
}

// Map returns the headers in a new map, nil if there are none.
func (l List) Map() map[string]string {
	if l == "" {
		return nil
	}
	all := map[string]string{}
	for l != "" {
		key, value, rest, ok := cutHeader(l)
		if !ok {
			break
		}
		all[string(key)], l = string(value), rest
	}
	return all
}

// Valid reports whether p is a List that is not empty and within all bounds. It allocates
// nothing.
func Valid(p []byte) bool {
	if len(p) == 0 || len(p) > EncodedMax {
		return false
	}
	var before []byte
	total := 0
	for n := 1; len(p) > 0; n++ {
		key, value, rest, ok := cutHeader(p)
		if !ok || n > Max || string(key) <= string(before) {
			return false
		}
		if total += len(key) + len(value); total > BytesMax {
			return false
		}
		before, p = key, rest
	}
	return true
}

// cutHeader cuts the first header off l. It reports false if l begins with no header whose key
// and value are within their bounds.
func cutHeader[L ~string | ~[]byte](l L) (key, value, rest L, ok bool) {
	key, l, ok = cutText(l, KeyBytesMax)
	if !ok || len(key) == 0 {
		return key, value, l, false
	}
	value, rest, ok = cutText(l, ValueBytesMax)
	return key, value, rest, ok
}

// cutText cuts a text behind its length off l. The length must have the shortest form.
func cutText[L ~string | ~[]byte](l L, most int) (text, rest L, ok bool) {
	n, at := 0, 0
	for shift := 0; ; shift += 7 {
		if at == len(l) || at == binary.MaxVarintLen16 {
			return text, l, false
		}
		b := l[at]
		n |= int(b&0x7f) << shift
		if at++; b < 0x80 {
			if b == 0 && at > 1 {
				return text, l, false
			}
			break
		}
	}
	if n > most || n > len(l)-at {
		return text, l, false
	}
	return l[at : at+n], l[at+n:], true
}
