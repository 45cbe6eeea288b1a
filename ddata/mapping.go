package ddata

import "iter"

// This file has the code that typed sets and maps share. In their zero values, of is nil.

// elementsOf yields the elements of a set as type E. It omits elements that the codec
// cannot decode, for example those of another struct.
func elementsOf[E, T any, P interface {
	*T
	All() iter.Seq[string]
}](enc asString[E], of P) iter.Seq[E] {
	return func(yield func(E) bool) {
		if of == nil {
			return
		}
		for str := range of.All() {
			if e, err := enc.decodeElement(str); err == nil && !yield(e) {
				return
			}
		}
	}
}

// mapping is the encoding of a map's keys and values.
type mapping[K, V any] struct {
	keys asString[K]
	vals asString[V]
}

// mappingOf returns the encodings. It fails for types without a canonical encoding.
func mappingOf[K, V any]() (m mapping[K, V], err error) {
	if m.keys, err = stringly[K](); err != nil {
		return m, err
	}
	m.vals, err = stringly[V]()
	return m, err
}

// pairsOf yields the pairs of a map as types K and V, and omits pairs as elementsOf does.
func pairsOf[K, V, T any, P interface {
	*T
	All() iter.Seq2[string, string]
}](enc mapping[K, V], of P) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if of == nil {
			return
		}
		for ks, vs := range of.All() {
			k, err1 := enc.keys.decodeElement(ks)
			v, err2 := enc.vals.decodeElement(vs)
			if err1 == nil && err2 == nil && !yield(k, v) {
				return
			}
		}
	}
}
