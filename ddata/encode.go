package ddata

import (
	"fmt"

	"github.com/peerage-go/peerage/crdt"
)

// asString turns elements into the strings that the replicator's type-blind
// values hold, and back. Strings stand for themselves; every other type goes
// through its codec, so equal elements are equal strings everywhere.
type asString[E any] struct{ codec crdt.Codec[E] }

// stringly returns the encoding of E. It fails for types without a canonical
// encoding.
func stringly[E any]() (asString[E], error) {
	var e E
	if _, ok := any(e).(string); ok {
		return asString[E]{}, nil
	}
	c, err := crdt.DefaultCodec[E]()
	if err != nil {
		return asString[E]{}, fmt.Errorf("ddata: no encoding for %T: %w", e, err)
	}
	return asString[E]{codec: c}, nil
}

func (a asString[E]) encode(e E) string {
	if a.codec == nil {
		return any(e).(string)
	}
	var local [64]byte
	return string(a.codec.Append(local[:0], e))
}

func (a asString[E]) decode(s string) (E, error) {
	if a.codec == nil {
		return any(s).(E), nil
	}
	e, n, err := a.codec.Decode([]byte(s))
	if err == nil && n != len(s) {
		err = crdt.ErrMalformed
	}
	return e, err
}

// elementOverheadBytes is about what an element costs beside its own encoding:
// its dot or stamp, and its length.
const elementOverheadBytes = 24
