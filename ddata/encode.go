package ddata

import (
	"fmt"
	"reflect"

	"github.com/peerage-go/peerage/crdt"
)

// asString converts elements to the strings that the replicator's untyped values hold, and
// back. Strings, and types derived from them, are used as they are. Other types use their
// codec, so equal elements are equal strings on all nodes.
type asString[E any] struct {
	codec crdt.Codec[E] // nil: a string, or a type made of it
	kind  crdt.ElementKind
}

// stringly returns the encoding of E. It fails for types without a canonical encoding.
func stringly[E any]() (asString[E], error) {
	if reflect.TypeFor[E]().Kind() == reflect.String {
		return asString[E]{}, nil
	}
	c, err := crdt.DefaultCodec[E]()
	if err != nil {
		return asString[E]{}, fmt.Errorf("ddata: no encoding for %v: %w", reflect.TypeFor[E](), err)
	}
	return asString[E]{codec: c, kind: crdt.ElementKindOf(c)}, nil
}

// elementKind returns the kind of E. If E has no canonical encoding, it returns the kind of
// a string: nothing is ever read or written then.
func elementKind[E any]() crdt.ElementKind {
	enc, _ := stringly[E]()
	return enc.kind
}

func (a asString[E]) encodeElement(e E) string {
	if a.codec == nil {
		if s, ok := any(e).(string); ok {
			return s
		}
		return reflect.ValueOf(e).String()
	}
	var local [64]byte
	return string(a.codec.Append(local[:0], e))
}

func (a asString[E]) decodeElement(s string) (e E, err error) {
	if a.codec == nil {
		if plain, ok := any(s).(E); ok {
			return plain, nil
		}
		return reflect.ValueOf(s).Convert(reflect.TypeFor[E]()).Interface().(E), nil
	}
	e, n, err := a.codec.Decode([]byte(s))
	if err == nil && n != len(s) {
		err = crdt.ErrMalformed
	}
	return e, err
}

// elementOverheadBytes is the approximate size of an element beside its own encoding: its
// dot or stamp, and its length.
const elementOverheadBytes = 24
