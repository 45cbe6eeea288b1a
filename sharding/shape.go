package sharding

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/peerage-go/peerage/internal/core/protocol"
)

// shapesOf returns the fingerprints of a type's messages as their codecs write them. Nodes
// compare them: where they differ, a field that only one node has arrives empty elsewhere.
func shapesOf[Req, Resp any](req Codec[Req], resp Codec[Resp]) protocol.Shapes {
	return protocol.Shapes{Requests: fingerprintOf(shapeOf(req)), Responses: fingerprintOf(shapeOf(resp))}
}

// fingerprintOf is zero for a shape that cannot be determined.
func fingerprintOf(shape string) uint64 {
	if shape == "" {
		return 0
	}
	return max(xxh3.HashString(shape), 1)
}

// shaped is a codec that describes what it writes.
type shaped interface{ shape() string }

// shapeOf describes what a codec writes, in a text that is equal for equal encodings: names
// of fields and kinds of values, but no names of Go's types. It is "" for a codec of the
// application's own.
func shapeOf[T any](c Codec[T]) string {
	switch c := c.(type) {
	case Msgpack[T]:
		return msgpackReflection().describe(reflect.TypeFor[T]())
	case JSON[T]:
		return jsonReflection().describe(reflect.TypeFor[T]())
	case shaped:
		return c.shape()
	}
	switch any(c).(type) {
	case None:
		return "none"
	case Raw[[]byte]:
		return "raw"
	case Text[string]:
		return "text"
	}
	return ""
}

func (l Lossy[T]) shape() string { return shapeOf(l.codec()) }

func (c kindCodec[T, K]) shape() string { return shapeOf(c.codec) }

// shape is "" if that of a kind cannot be determined.
func (k Kinds[T]) shape() string {
	var b strings.Builder
	for _, number := range k.numbers() {
		s, ok := k[number].(shaped)
		if !ok || s.shape() == "" {
			return ""
		}
		fmt.Fprintf(&b, "%d=%s;", number, s.shape())
	}
	return b.String()
}

// describe returns the shape of t.
func (r *reflection) describe(t reflect.Type) string {
	d := describer{reflection: r, seen: map[reflect.Type]int{}}
	d.b.WriteString(r.tag + " ")
	d.describe(t)
	return d.b.String()
}

// describer writes the shape of a type and all that it consists of.
type describer struct {
	*reflection
	b strings.Builder
	// seen numbers the structs, so that those that contain themselves end.
	seen map[reflect.Type]int
}

func (d *describer) describe(t reflect.Type) {
	if t == reflect.TypeFor[time.Time]() {
		d.b.WriteString("time")
		return
	}
	if i := d.find(t, d.writers, true); i >= 0 {
		d.b.WriteString(d.writers[i].Method(0).Name)
		return
	}
	switch t.Kind() {
	case reflect.Pointer:
		d.b.WriteString("*")
		d.describe(t.Elem())
	case reflect.Slice, reflect.Array:
		d.b.WriteString("[]")
		d.describe(t.Elem())
	case reflect.Map:
		d.b.WriteString("map[")
		d.describe(t.Key())
		d.b.WriteString("]")
		d.describe(t.Elem())
	case reflect.Struct:
		d.describeFields(t)
	default:
		d.b.WriteString(t.Kind().String())
	}
}

// describeFields writes the fields of a struct in the order of their names, unless the codec
// writes them without.
func (d *describer) describeFields(t reflect.Type) {
	if n, again := d.seen[t]; again {
		fmt.Fprintf(&d.b, "#%d", n)
		return
	}
	d.seen[t] = len(d.seen)
	fields := d.names(t, "", map[reflect.Type]bool{})
	order, found := t.FieldByName("_msgpack")
	if !found || !strings.Contains(order.Tag.Get("msgpack"), "array") {
		slices.SortStableFunc(fields, func(a, b fieldName) int { return strings.Compare(a.name, b.name) })
	}
	d.b.WriteString("{")
	for _, f := range fields {
		d.b.WriteString(f.name + ":")
		d.describe(f.typ)
		d.b.WriteString(";")
	}
	d.b.WriteString("}")
}
