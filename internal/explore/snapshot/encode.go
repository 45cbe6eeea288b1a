package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"unsafe"
)

// Append appends the encoding of *v to b.
func Append[T any](c *Camera, b []byte, v *T) []byte {
	c.areas = c.areas[:0]
	return c.appendObject(reflect.TypeFor[T](), b, unsafe.Pointer(v))
}

func (c *Camera) appendObject(t reflect.Type, b []byte, p unsafe.Pointer) []byte {
	if t.Size() > 0 {
		c.areas = append(c.areas, area{p, p, t.Size()})
	}
	return c.writerOf(t)(c, b, p)
}

func (c *Camera) writerOf(t reflect.Type) writer {
	w, ok := c.writers[t]
	if !ok {
		w = c.makeWriter(t)
		c.writers[t] = w
	}
	return w
}

// The marks before a pointer's content.
const (
	isNil byte = iota
	isKnown
	isNew
)

func (c *Camera) makeWriter(t reflect.Type) writer {
	switch t.Kind() {
	case reflect.String:
		return func(_ *Camera, b []byte, p unsafe.Pointer) []byte {
			s := *(*string)(p)
			return append(binary.AppendUvarint(b, uint64(len(s))), s...)
		}
	case reflect.Float32, reflect.Float64:
		return func(_ *Camera, b []byte, p unsafe.Pointer) []byte {
			return binary.AppendUvarint(b, math.Float64bits(reflect.NewAt(t, p).Elem().Float()))
		}
	case reflect.Pointer:
		return c.pointerWriter(t)
	case reflect.Slice:
		return writeSlice(t)
	case reflect.Map:
		return writeMap(t)
	case reflect.Interface:
		return writeInterface(t)
	case reflect.Struct:
		return c.structWriter(t)
	case reflect.Array:
		return c.arrayWriter(t)
	case reflect.Func: // copyable only if nil
		return func(_ *Camera, b []byte, _ unsafe.Pointer) []byte { return b }
	}
	return integerWriter(t)
}

func integerWriter(t reflect.Type) writer {
	switch t.Size() {
	case 1:
		return func(_ *Camera, b []byte, p unsafe.Pointer) []byte { return append(b, *(*byte)(p)) }
	case 2:
		return func(_ *Camera, b []byte, p unsafe.Pointer) []byte {
			return binary.AppendUvarint(b, uint64(*(*uint16)(p)))
		}
	case 4:
		return func(_ *Camera, b []byte, p unsafe.Pointer) []byte {
			return binary.AppendUvarint(b, uint64(*(*uint32)(p)))
		}
	case 8:
		return func(_ *Camera, b []byte, p unsafe.Pointer) []byte { return binary.AppendUvarint(b, *(*uint64)(p)) }
	}
	panic(fmt.Sprintf("snapshot: a %v cannot be encoded", t))
}

func (c *Camera) pointerWriter(t reflect.Type) writer {
	elem := t.Elem()
	if c.shared[t] {
		// Immutable content is equal if it is equal in its fields, wherever it stands.
		return func(c *Camera, b []byte, p unsafe.Pointer) []byte {
			return c.appendSum(elem, b, *(*unsafe.Pointer)(p))
		}
	}
	return func(c *Camera, b []byte, p unsafe.Pointer) []byte {
		return c.appendPointer(elem, b, *(*unsafe.Pointer)(p))
	}
}

// appendSum appends the hash of a shared value's content, which is computed once.
func (c *Camera) appendSum(elem reflect.Type, b []byte, p unsafe.Pointer) []byte {
	s, ok := c.sums[p]
	if !ok {
		hash := sha256.Sum256(c.appendShared(elem, nil, p))
		s = hash[:16]
		c.sums[p] = s
	}
	return append(b, s...)
}

func (c *Camera) appendShared(elem reflect.Type, b []byte, p unsafe.Pointer) []byte {
	if p == nil {
		return append(b, isNil)
	}
	outer := c.areas
	c.areas = nil
	b = c.appendObject(elem, append(b, isNew), p)
	c.areas = outer
	return b
}

func (c *Camera) appendPointer(elem reflect.Type, b []byte, p unsafe.Pointer) []byte {
	if p == nil {
		return append(b, isNil)
	}
	if _, n, ok := c.find(p, elem.Size()); ok {
		b = binary.AppendUvarint(append(b, isKnown), uint64(n))
		return binary.AppendUvarint(b, uint64(uintptr(p)-uintptr(c.areas[n].from)))
	}
	return c.appendObject(elem, append(b, isNew), p)
}

func writeSlice(t reflect.Type) writer {
	elem := t.Elem()
	return func(c *Camera, b []byte, p unsafe.Pointer) []byte {
		h := *(*header)(p)
		b = binary.AppendUvarint(b, uint64(h.len))
		size := uintptr(h.len) * elem.Size()
		if size == 0 {
			return b
		}
		if _, n, ok := c.find(h.data, size); ok {
			b = binary.AppendUvarint(append(b, isKnown), uint64(n))
			return binary.AppendUvarint(b, uint64(uintptr(h.data)-uintptr(c.areas[n].from)))
		}
		c.areas = append(c.areas, area{h.data, h.data, size})
		w := c.writerOf(elem)
		b = append(b, isNew)
		for i := range uintptr(h.len) {
			b = w(c, b, unsafe.Add(h.data, i*elem.Size()))
		}
		return b
	}
}

// writeMap writes a map in the order of its encoded keys.
func writeMap(t reflect.Type) writer {
	type entry struct {
		key   []byte
		value reflect.Value
	}
	return func(c *Camera, b []byte, p unsafe.Pointer) []byte {
		m := reflect.NewAt(t, p).Elem()
		b = binary.AppendUvarint(b, uint64(m.Len()))
		if m.Len() == 0 {
			return b
		}
		entries := make([]entry, 0, m.Len())
		for it := m.MapRange(); it.Next(); { // order-free: sorted below
			k, v := reflect.New(t.Key()), reflect.New(t.Elem())
			k.Elem().Set(it.Key())
			v.Elem().Set(it.Value())
			entries = append(entries, entry{c.writerOf(t.Key())(c, nil, k.UnsafePointer()), v})
		}
		slices.SortFunc(entries, func(x, y entry) int { return bytes.Compare(x.key, y.key) })
		for _, e := range entries {
			b = c.writerOf(t.Elem())(c, append(b, e.key...), e.value.UnsafePointer())
		}
		return b
	}
}

func writeInterface(t reflect.Type) writer {
	return func(c *Camera, b []byte, p unsafe.Pointer) []byte {
		v := reflect.NewAt(t, p).Elem().Elem()
		if !v.IsValid() {
			return append(b, isNil)
		}
		name := v.Type().String()
		b = append(binary.AppendUvarint(append(b, isNew), uint64(len(name))), name...)
		if v.Kind() == reflect.Pointer {
			if c.shared[t] || c.shared[v.Type()] {
				return c.appendShared(v.Type().Elem(), b, v.UnsafePointer())
			}
			return c.appendPointer(v.Type().Elem(), b, v.UnsafePointer())
		}
		box := reflect.New(v.Type())
		box.Elem().Set(v)
		return c.writerOf(v.Type())(c, b, box.UnsafePointer())
	}
}

func (c *Camera) structWriter(t reflect.Type) writer {
	type part struct {
		at    uintptr
		write writer
	}
	var parts []part
	for i := range t.NumField() {
		f := t.Field(i)
		if !c.skipped[t.PkgPath()+"."+t.Name()+"."+f.Name] {
			parts = append(parts, part{f.Offset, c.writerOf(f.Type)})
		}
	}
	return func(c *Camera, b []byte, p unsafe.Pointer) []byte {
		for i := range parts {
			b = parts[i].write(c, b, unsafe.Add(p, parts[i].at))
		}
		return b
	}
}

func (c *Camera) arrayWriter(t reflect.Type) writer {
	w, n, size := c.writerOf(t.Elem()), uintptr(t.Len()), t.Elem().Size()
	return func(c *Camera, b []byte, p unsafe.Pointer) []byte {
		for i := range n {
			b = w(c, b, unsafe.Add(p, i*size))
		}
		return b
	}
}
