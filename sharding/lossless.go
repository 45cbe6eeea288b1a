package sharding

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// Lossy is a codec whose type is not checked for data loss.
//
// Register rejects a type that Msgpack or JSON cannot carry completely: with unexported
// fields, interfaces, functions or channels. Messages between entities of one node skip the
// codec, so such a field would arrive there, but arrive empty or with another type from
// every other node. Lossy accepts this difference by name. To leave out a single field, tag
// it `msgpack:"-"` or `json:"-"` instead.
type Lossy[T any] struct {
	// Codec encodes and decodes the messages; nil means the default codec of T.
	Codec Codec[T]
}

// Append appends the encoding of v by l.Codec.
func (l Lossy[T]) Append(b []byte, v T) ([]byte, error) { return l.codec().Append(b, v) }

// Decode decodes p with l.Codec.
func (l Lossy[T]) Decode(p []byte) (T, error) { return l.codec().Decode(p) }

func (l Lossy[T]) codec() Codec[T] {
	if l.Codec == nil {
		return defaultCodec[T]()
	}
	return l.Codec
}

// reflection describes a codec that works by reflection.
type reflection struct {
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

func msgpackReflection() *reflection {
	return &reflection{
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

func jsonReflection() *reflection {
	return &reflection{
		tag: "json", methods: "MarshalJSON and UnmarshalJSON", textKeys: true,
		writers: []reflect.Type{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler]()},
		readers: []reflect.Type{reflect.TypeFor[json.Unmarshaler](), reflect.TypeFor[encoding.TextUnmarshaler]()},
	}
}

// checkLossless returns an error that names the first part of t that would not arrive.
func (r *reflection) checkLossless(t reflect.Type) error {
	w := losslessWalk{reflection: r, seen: map[visit]bool{}}
	return w.checkType(t, t.String(), true)
}

// find returns the index of the first of the interfaces that t implements, -1 for none.
// addressable: the methods of t's pointer count too.
func (r *reflection) find(t reflect.Type, of []reflect.Type, addressable bool) int {
	byValue := func(i reflect.Type) bool { return t.Implements(i) }
	byPointer := func(i reflect.Type) bool { return addressable && reflect.PointerTo(t).Implements(i) }
	if t.Kind() == reflect.Pointer || !r.valueFirst {
		return slices.IndexFunc(of, func(i reflect.Type) bool { return byValue(i) || byPointer(i) })
	}
	if i := slices.IndexFunc(of, byValue); i >= 0 {
		return i
	}
	return slices.IndexFunc(of, byPointer)
}

// losslessWalk looks at a type and all that it consists of.
type losslessWalk struct {
	*reflection
	seen map[visit]bool
}

// visit is a type and whether its values are addressable, as all but the values and keys of
// maps are.
type visit struct {
	t           reflect.Type
	addressable bool
}

// checkType checks t, which stands at path.
func (w *losslessWalk) checkType(t reflect.Type, path string, addressable bool) error {
	if w.seen[visit{t, addressable}] || isLock(t) {
		return nil
	}
	w.seen[visit{t, addressable}] = true
	if t.Kind() == reflect.Interface {
		return fmt.Errorf("%s is an interface (%v), whose values arrive as another type or not at all: use concrete types, or Kinds for several kinds of messages", path, t)
	}
	if itself, err := w.checkMethods(t, path, addressable); itself || err != nil {
		return err
	}
	switch t.Kind() {
	case reflect.Func, reflect.Chan, reflect.UnsafePointer, reflect.Uintptr, reflect.Complex64, reflect.Complex128:
		if path == t.String() {
			return fmt.Errorf("%s cannot travel", path)
		}
		return fmt.Errorf("%s cannot travel, it is a %v", path, t)
	case reflect.Pointer:
		return w.checkType(t.Elem(), path, true)
	case reflect.Slice:
		return w.checkType(t.Elem(), path+"[]", true)
	case reflect.Array:
		return w.checkType(t.Elem(), path+"[]", addressable)
	case reflect.Map:
		if err := w.checkKey(t.Key(), path+"[key]"); err != nil {
			return err
		}
		return w.checkType(t.Elem(), path+"[]", false)
	case reflect.Struct:
		return w.checkFields(t, path, addressable)
	}
	return nil
}

// checkMethods reports whether values of t write and read themselves. It fails if one
// direction fits no other.
func (w *losslessWalk) checkMethods(t reflect.Type, path string, addressable bool) (itself bool, err error) {
	if t == reflect.TypeFor[time.Time]() {
		return true, nil
	}
	writes, reads := w.find(t, w.writers, addressable), w.find(t, w.readers, true)
	switch {
	case writes != reads:
	case writes >= 0:
		return true, w.checkPromoted(t, path, writes)
	default:
		return false, nil
	}
	if !addressable && w.find(t, w.writers, true) == reads {
		return false, fmt.Errorf("%s (%v) has methods of its pointer, which cannot be called in a map: use pointers", path, t)
	}
	return false, fmt.Errorf("%s (%v) has methods for one direction only, or for different forms: give it both of %s", path, t, w.methods)
}

// checkPromoted fails if the methods with which t encodes itself are those of an embedded
// field: the other fields are lost.
func (r *reflection) checkPromoted(t reflect.Type, path string, pair int) error {
	if t.Kind() != reflect.Struct || t.NumField() < 2 {
		return nil
	}
	name := r.writers[pair].Method(0).Name
	for _, of := range []reflect.Type{t, reflect.PointerTo(t)} {
		m, ok := of.MethodByName(name)
		if !ok {
			continue
		}
		// The compiler writes the methods that pass a call on to an embedded field.
		if file, _ := runtime.FuncForPC(m.Func.Pointer()).FileLine(m.Func.Pointer()); file != "<autogenerated>" {
			return nil
		}
	}
	return fmt.Errorf("%s (%v) has %s of an embedded field, so all other fields are lost: give it the methods %s, or the field a name", path, t, name, r.methods)
}

// checkKey checks the type of a map's keys.
func (w *losslessWalk) checkKey(t reflect.Type, path string) error {
	if !w.textKeys {
		return w.checkType(t, path, false)
	}
	text := t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) && reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
	switch k := t.Kind(); {
	case k == reflect.String || k >= reflect.Int && k <= reflect.Uint64 || text:
		return nil
	}
	return fmt.Errorf("%s cannot be a key of a JSON object, it is a %v", path, t)
}

// checkFields checks the fields of a struct, and that no two have one name.
func (w *losslessWalk) checkFields(t reflect.Type, path string, addressable bool) error {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get(w.tag), ",")
		if tag == "-" || f.Name == "_" || f.Name == "_msgpack" || f.Type.Size() == 0 && !f.IsExported() {
			continue
		}
		at := path + "." + f.Name
		if !f.IsExported() && !(f.Anonymous && f.Type.Kind() == reflect.Struct) {
			if isLock(f.Type) || excluded(f.Tag) {
				continue
			}
			return fmt.Errorf("%s is not exported, so it arrives empty: export it, tag it `%s:\"-\"` if it may be left behind, or give %v the methods %s", at, w.tag, t, w.methods)
		}
		if err := w.checkType(f.Type, at, addressable); err != nil {
			return err
		}
	}
	return w.checkNames(t, path)
}

// excluded reports whether a tag leaves an unexported field behind, in the words of any
// codec: it travels with none.
func excluded(tag reflect.StructTag) bool {
	for _, codec := range []string{"msgpack", "json"} {
		if name, _, _ := strings.Cut(tag.Get(codec), ","); name == "-" {
			return true
		}
	}
	return false
}

// isLock reports whether t is a lock: it is right that one arrives unlocked.
func isLock(t reflect.Type) bool {
	return t == reflect.TypeFor[sync.Mutex]() || t == reflect.TypeFor[sync.RWMutex]()
}

// checkNames fails if two fields of t have one name for the codec: one of them is lost.
func (w *losslessWalk) checkNames(t reflect.Type, path string) error {
	named := map[string]string{}
	for _, n := range w.names(t, path, map[reflect.Type]bool{}) {
		if other, twice := named[n.name]; twice {
			return fmt.Errorf("%s and %s have the same name in the codec, %q, so one of them is lost: tag them apart", other, n.at, n.name)
		}
		named[n.name] = n.at
	}
	return nil
}

// fieldName is the name under which the codec writes the field at a path, and its type.
type fieldName struct {
	name, at string
	typ      reflect.Type
}

// names returns the fields of t as the codec writes them: those of embedded structs as if
// they were t's own. inside are the structs that t is embedded in.
func (r *reflection) names(t reflect.Type, path string, inside map[reflect.Type]bool) (all []fieldName) {
	if inside[t] {
		return nil
	}
	inside[t] = true
	defer delete(inside, t)
	for i := range t.NumField() {
		f := t.Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get(r.tag), ",")
		if tag == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		at := path + "." + f.Name
		if inner := structOf(f.Type); f.Anonymous && inner != nil && r.find(inner, r.writers, true) < 0 {
			theirs := r.names(inner, at, inside)
			if r.inlines(all, theirs, tag, strings.Split(options, ",")) {
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
func (r *reflection) inlines(before, theirs []fieldName, tag string, options []string) bool {
	switch {
	case r.tag == "json":
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
