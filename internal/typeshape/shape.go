package typeshape

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Describe returns the shape of t: a text that is equal for equal encodings. It has names of
// fields and kinds of values, but no names of Go's types.
func (c *Codec) Describe(t reflect.Type) string {
	d := describer{Codec: c, seen: map[reflect.Type]int{}}
	d.b.WriteString(c.tag + " ")
	d.describe(t)
	return d.b.String()
}

// describer writes the shape of a type and all that it consists of.
type describer struct {
	*Codec
	b strings.Builder
	// seen numbers the structs, so that those that contain themselves end.
	seen map[reflect.Type]int
}

func (d *describer) describe(t reflect.Type) {
	if t == reflect.TypeFor[time.Time]() {
		d.b.WriteString("time")
		return
	}
	if i := d.findPair(t, d.writers, true); i >= 0 {
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

// describeFields writes the fields of a struct. They are sorted by name if the codec writes
// their names; a codec that writes values alone depends on their order.
func (d *describer) describeFields(t reflect.Type) {
	if n, again := d.seen[t]; again {
		fmt.Fprintf(&d.b, "#%d", n)
		return
	}
	d.seen[t] = len(d.seen)
	fields := d.fieldNames(t, "", map[reflect.Type]bool{})
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
