package crdt

import (
	"fmt"
	"reflect"
)

// keyOf is elementOf for elements that are compared: those of sets, keys of maps, and
// values that a register or a map tells apart.
func keyOf[E comparable]() *element[E] {
	refuseFloats[E]()
	return elementOf[E]()
}

// keyWith is elementWith for elements that are compared.
func keyWith[E comparable](c Codec[E]) *element[E] {
	refuseFloats[E]()
	return elementWith(c)
}

// refuseFloats panics if E holds floating-point numbers: a caller's mistake, met when a
// value of that type is made or first used. +0 and -0 are equal and have two encodings, so
// replicas would hold different bytes for equal sets; NaN equals nothing, so it could be
// added without end and never removed.
func refuseFloats[E comparable]() {
	if t := reflect.TypeFor[E](); holdsFloat(t, 0) {
		panic(fmt.Sprintf("crdt: %v holds floating-point numbers, which cannot be elements or keys: use math.Float64bits, or an LWWRegister for a value", t))
	}
}

func holdsFloat(t reflect.Type, depth int) bool {
	if depth > depthMax {
		return false // MsgpackCodec refuses it
	}
	switch t.Kind() {
	case reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return true
	case reflect.Array:
		return holdsFloat(t.Elem(), depth+1)
	case reflect.Struct:
		for i := range t.NumField() {
			if holdsFloat(t.Field(i).Type, depth+1) {
				return true
			}
		}
	}
	return false
}
