package crdt

import (
	"reflect"
	"strconv"
	"strings"
)

// Kind identifies a data type on the wire. For sets, maps and registers it includes the
// encoding of elements, or of keys and values: ORSet[int] differs from ORSet[string]. The
// numbers never change. The constants are the kinds with strings; Of returns the other
// kinds.
type Kind uint16

const (
	KindGCounter Kind = iota + 1
	KindPNCounter
	KindGSet
	KindFlag
	KindLWWRegister
	KindMVRegister
	KindORSet
	KindLWWMap
	KindORMap
	KindORMultiMap
	KindPNCounterMap
	KindVersionVector
)

// ElementKind identifies the encoding of elements, keys or values. Types with one encoding
// have one ElementKind: int and int32, string and types derived from it. All structs share
// one: their codec handles changes of fields.
type ElementKind uint8

// The element kinds of the codecs of this package, and ElementCustom for all other codecs.
const (
	ElementString ElementKind = iota
	ElementInt
	ElementUint
	ElementBool
	ElementBytes
	ElementUUID
	ElementFloat
	ElementList
	ElementStruct
	ElementCustom
)

// kinds has the names of data types, and how many element kinds belong to each.
var kinds = [...]struct {
	name     string
	elements int
}{
	KindGCounter: {"GCounter", 0}, KindPNCounter: {"PNCounter", 0}, KindGSet: {"GSet", 1}, KindFlag: {"Flag", 0},
	KindLWWRegister: {"LWWRegister", 1}, KindMVRegister: {"MVRegister", 1}, KindORSet: {"ORSet", 1},
	KindLWWMap: {"LWWMap", 2}, KindORMap: {"ORMap", 2}, KindORMultiMap: {"ORMultiMap", 2},
	KindPNCounterMap: {"PNCounterMap", 1}, KindVersionVector: {"VersionVector", 0},
}

var elementNames = [...]string{"string", "int", "uint", "bool", "bytes", "UUID", "float", "list", "struct", "custom"}

// String returns the name of the element kind, for example "int", and the number of one
// that this version does not have.
func (e ElementKind) String() string {
	if int(e) < len(elementNames) {
		return elementNames[e]
	}
	return "ElementKind(" + strconv.Itoa(int(e)) + ")"
}

// A Kind has the number of its data type in the low byte, and the element kinds in four
// bits each above.
const (
	kindBits    = 8
	elementBits = 4
	elementMask = 1<<elementBits - 1
)

// Of returns the kind of the same data type with these element kinds: that of the
// elements, or those of the keys and the values. Those beyond what the data type has are
// ignored.
func (k Kind) Of(elements ...ElementKind) Kind {
	k = k.base()
	for i := range min(len(elements), k.places()) {
		k |= Kind(elements[i]&elementMask) << (kindBits + i*elementBits)
	}
	return k
}

// base returns the data type with strings.
func (k Kind) base() Kind { return k & (1<<kindBits - 1) }

// places returns how many element kinds the data type has.
func (k Kind) places() int {
	if b := k.base(); int(b) < len(kinds) {
		return kinds[b].elements
	}
	return 0
}

// elementKind returns the i-th element kind.
func (k Kind) elementKind(i int) ElementKind {
	return ElementKind(k>>(kindBits+i*elementBits)) & elementMask
}

// known reports whether this version has the kind.
func (k Kind) known() bool {
	b := k.base()
	if b == 0 || int(b) >= len(kinds) || k>>(kindBits+k.places()*elementBits) != 0 {
		return false
	}
	return int(k.elementKind(0)) < len(elementNames) && int(k.elementKind(1)) < len(elementNames)
}

// String returns the name of the kind, for example "ORSet[int]" or "Flag"; "none" for 0,
// and the number of a kind that this version does not have.
func (k Kind) String() string {
	switch {
	case k == 0:
		return "none"
	case !k.known():
		return "Kind(" + strconv.Itoa(int(k)) + ")"
	}
	t := kinds[k.base()]
	if t.elements == 0 {
		return t.name
	}
	names := make([]string, t.elements)
	for i := range names {
		names[i] = k.elementKind(i).String()
	}
	return t.name + "[" + strings.Join(names, ",") + "]"
}

// ElementKindOf returns the element kind of a codec.
func ElementKindOf[E any](c Codec[E]) ElementKind {
	return ElementKind(elementKindsOf(c) & elementMask)
}

// kinded is a Codec with an element kind of its own, or two of them, the first in the low
// four bits.
type kinded interface{ elementKinds() uint8 }

func elementKindsOf(codec any) uint8 {
	if c, ok := codec.(kinded); ok {
		return c.elementKinds()
	}
	return uint8(ElementCustom)
}

// with returns the kind of a data type with the element kinds of an element.
func (k Kind) with(elements uint8) Kind { return k | Kind(elements)<<kindBits }

// packKinds packs the element kinds of keys and values.
func packKinds(key, val uint8) uint8 { return key | val<<elementBits }

func (stringCodec) elementKinds() uint8       { return uint8(ElementString) }
func (bytesCodec) elementKinds() uint8        { return uint8(ElementBytes) }
func (uuidCodec) elementKinds() uint8         { return uint8(ElementUUID) }
func (intCodec[E]) elementKinds() uint8       { return uint8(ElementInt) }
func (uintCodec[E]) elementKinds() uint8      { return uint8(ElementUint) }
func (boolCodec) elementKinds() uint8         { return uint8(ElementBool) }
func (c castCodec[E, U]) elementKinds() uint8 { return elementKindsOf(c.of) }
func (c msgpackCodec[E]) elementKinds() uint8 { return uint8(msgpackKind(reflect.TypeFor[E]())) }

// msgpackKind returns what msgpack makes of a type.
func msgpackKind(t reflect.Type) ElementKind {
	switch t.Kind() {
	case reflect.String:
		return ElementString
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return ElementInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return ElementUint
	case reflect.Bool:
		return ElementBool
	case reflect.Float32, reflect.Float64:
		return ElementFloat
	case reflect.Struct:
		return ElementStruct
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return ElementBytes
		}
	}
	return ElementList
}
