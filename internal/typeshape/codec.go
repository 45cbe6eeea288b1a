package typeshape

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/vmihailenco/msgpack/v5"
)

// Codec describes a codec that works by reflection.
type Codec struct {
	// tag is the struct tag that the codec reads.
	tag string
	// writers and readers are the interfaces with which a type encodes itself, a pair at each
	// index, in the order in which the codec looks for them.
	writers, readers []reflect.Type
	// valueFirst: the codec looks for all methods of a value before those of its pointer.
	valueFirst bool
	// methods names the pair that an error recommends.
	methods string
	// textKeys: keys of maps must be strings, integers, or marshal themselves as text.
	textKeys bool
}

// Msgpack returns the description of MessagePack.
func Msgpack() *Codec {
	return &Codec{
		tag: "msgpack", methods: "EncodeMsgpack and DecodeMsgpack", valueFirst: true,
		writers: []reflect.Type{
			reflect.TypeFor[msgpack.CustomEncoder](), reflect.TypeFor[msgpack.Marshaler](),
			reflect.TypeFor[encoding.BinaryMarshaler](), reflect.TypeFor[encoding.TextMarshaler](),
		},
		readers: []reflect.Type{
			reflect.TypeFor[msgpack.CustomDecoder](), reflect.TypeFor[msgpack.Unmarshaler](),
			reflect.TypeFor[encoding.BinaryUnmarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
		},
	}
}

// JSON returns the description of JSON.
func JSON() *Codec {
	return &Codec{
		tag: "json", methods: "MarshalJSON and UnmarshalJSON", textKeys: true,
		writers: []reflect.Type{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler]()},
		readers: []reflect.Type{reflect.TypeFor[json.Unmarshaler](), reflect.TypeFor[encoding.TextUnmarshaler]()},
	}
}

// findPair returns the index of the first of the interfaces that t implements, -1 for none.
// addressable: the methods of t's pointer count too.
func (c *Codec) findPair(t reflect.Type, of []reflect.Type, addressable bool) int {
	byValue := func(i reflect.Type) bool { return t.Implements(i) }
	byPointer := func(i reflect.Type) bool { return addressable && reflect.PointerTo(t).Implements(i) }
	if t.Kind() == reflect.Pointer || !c.valueFirst {
		return slices.IndexFunc(of, func(i reflect.Type) bool { return byValue(i) || byPointer(i) })
	}
	if i := slices.IndexFunc(of, byValue); i >= 0 {
		return i
	}
	return slices.IndexFunc(of, byPointer)
}

// fieldName is the name under which the codec writes the field at a path, and its type.
type fieldName struct {
	name, at string
	typ      reflect.Type
}

// fieldNames returns the fields of t as the codec writes them: those of embedded structs as if
// they were t's own. inside are the structs that t is embedded in.
func (c *Codec) fieldNames(t reflect.Type, path string, inside map[reflect.Type]bool) (all []fieldName) {
	if inside[t] {
		return nil
	}
	inside[t] = true
	defer delete(inside, t)
	for i := range t.NumField() {
		f := t.Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get(c.tag), ",")
		if tag == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		at := path + "." + f.Name
		if inner := structOf(f.Type); f.Anonymous && inner != nil && c.findPair(inner, c.writers, true) < 0 {
			theirs := c.fieldNames(inner, at, inside)
			if c.inlines(all, theirs, tag, strings.Split(options, ",")) {
				all = append(all, theirs...)
				continue
			}
		}
		if tag == "" {
			tag = f.Name
		}
		all = append(all, fieldName{tag, at, f.Type})
	}
	return all
}

// structOf returns the struct that t is or points to, nil if it does neither.
func structOf(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	return t
}

// inlines reports whether the codec writes the fields of an embedded struct as fields of the
// outer one, which has fields before it.
func (c *Codec) inlines(before, theirs []fieldName, tag string, options []string) bool {
	switch {
	case c.tag == "json":
		return tag == ""
	case slices.Contains(options, "noinline"):
		return false
	case slices.Contains(options, "inline"):
		return true
	}
	// A name that stands above keeps the embedded struct in one piece, under its own name.
	return !slices.ContainsFunc(theirs, func(n fieldName) bool {
		return slices.ContainsFunc(before, func(b fieldName) bool { return b.name == n.name })
	})
}
