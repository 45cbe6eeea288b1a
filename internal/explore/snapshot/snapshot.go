// Package snapshot copies and encodes the state of cores between two steps. It covers every
// field, unexported ones included, so a new field of a core cannot be forgotten. The explorer
// (internal/explore) branches over copies, and compares states by their encodings.
//
// A copy shares no memory with its original that either modifies. Pointers into the copied
// object, such as those between the machines of a core, lead into the copy. Values of shared
// types are immutable: a copy refers to them.
//
// Two values with equal encodings are equal in all fields but the skipped ones. Nil and empty
// slices and maps have the same encoding.
package snapshot

import (
	"fmt"
	"reflect"
	"unsafe"
)

// Camera copies and encodes values. It is not safe for concurrent use.
type Camera struct {
	shared  map[reflect.Type]bool
	skipped map[string]bool
	copiers map[reflect.Type]copier
	writers map[reflect.Type]writer
	// areas are the objects of the present copy or encoding.
	areas []area
	// sums has the hashes of the contents of shared pointers.
	sums map[unsafe.Pointer][]byte
}

// area is an object in memory, and its copy.
type area struct {
	from, to unsafe.Pointer
	size     uintptr
}

// copier completes a shallow copy of a value: it replaces what the two share. It is nil for
// types whose shallow copies are complete.
type copier func(c *Camera, to, from unsafe.Pointer)

// writer appends the encoding of a value.
type writer func(c *Camera, b []byte, p unsafe.Pointer) []byte

// New returns a Camera. Shared types are pointers or interfaces with immutable content. Skipped
// fields, "import/path.Type.field", are left out of encodings.
func New(shared []reflect.Type, skipped []string) *Camera {
	c := &Camera{shared: map[reflect.Type]bool{}, skipped: map[string]bool{}, copiers: map[reflect.Type]copier{}, writers: map[reflect.Type]writer{}, sums: map[unsafe.Pointer][]byte{}}
	for _, t := range shared {
		c.shared[t] = true
	}
	for _, name := range skipped {
		c.skipped[name] = true
	}
	return c
}

// Copy returns a copy of *v.
func Copy[T any](c *Camera, v *T) *T {
	c.areas = c.areas[:0]
	return (*T)(c.copyObject(reflect.TypeFor[T](), unsafe.Pointer(v)))
}

// find returns the copy of the object that p points into, and the number of the object.
func (c *Camera) find(p unsafe.Pointer, size uintptr) (q unsafe.Pointer, number int, ok bool) {
	for i := range c.areas {
		a := &c.areas[i]
		if at := uintptr(p) - uintptr(a.from); uintptr(p) >= uintptr(a.from) && at+size <= a.size {
			return unsafe.Add(a.to, at), i, true
		}
	}
	return nil, 0, false
}

func (c *Camera) copyObject(t reflect.Type, from unsafe.Pointer) unsafe.Pointer {
	v := reflect.New(t)
	v.Elem().Set(reflect.NewAt(t, from).Elem())
	to := v.UnsafePointer()
	if t.Size() > 0 {
		c.areas = append(c.areas, area{from, to, t.Size()})
	}
	if f := c.copierOf(t); f != nil {
		f(c, to, from)
	}
	return to
}

func (c *Camera) copierOf(t reflect.Type) copier {
	f, ok := c.copiers[t]
	if !ok {
		f = c.makeCopier(t)
		c.copiers[t] = f
	}
	return f
}

func (c *Camera) makeCopier(t reflect.Type) copier {
	if c.shared[t] {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return copyPointer(t)
	case reflect.Slice:
		return copySlice(t)
	case reflect.Map:
		return copyMap(t)
	case reflect.Interface:
		return copyInterface(t)
	case reflect.Struct:
		return c.structCopier(t)
	case reflect.Array:
		return c.arrayCopier(t)
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return func(_ *Camera, _, from unsafe.Pointer) {
			if *(*unsafe.Pointer)(from) != nil {
				panic(fmt.Sprintf("snapshot: a %v cannot be copied", t))
			}
		}
	}
	return nil
}

func copyPointer(t reflect.Type) copier {
	elem := t.Elem()
	return func(c *Camera, to, from unsafe.Pointer) {
		p := *(*unsafe.Pointer)(from)
		if p == nil {
			return
		}
		q, _, ok := c.find(p, elem.Size())
		if !ok {
			q = c.copyObject(elem, p)
		}
		*(*unsafe.Pointer)(to) = q
	}
}

// header is the memory of a slice.
type header struct {
	data     unsafe.Pointer
	len, cap int
}

var nothing struct{}

func copySlice(t reflect.Type) copier {
	elem := t.Elem()
	return func(c *Camera, to, from unsafe.Pointer) {
		h, out := *(*header)(from), (*header)(to)
		if h.len == 0 {
			if h.data != nil {
				*out = header{data: unsafe.Pointer(&nothing)}
			}
			return
		}
		size := uintptr(h.len) * elem.Size()
		if q, _, ok := c.find(h.data, size); ok && size > 0 {
			*out = header{q, h.len, h.len}
			return
		}
		s := reflect.MakeSlice(t, h.len, h.len)
		reflect.Copy(s, reflect.NewAt(t, from).Elem())
		out.data, out.len, out.cap = s.UnsafePointer(), h.len, h.len
		if size > 0 {
			c.areas = append(c.areas, area{h.data, out.data, size})
		}
		if f := c.copierOf(elem); f != nil {
			for i := range uintptr(h.len) {
				f(c, unsafe.Add(out.data, i*elem.Size()), unsafe.Add(h.data, i*elem.Size()))
			}
		}
	}
}

func copyMap(t reflect.Type) copier {
	return func(c *Camera, to, from unsafe.Pointer) {
		m := reflect.NewAt(t, from).Elem()
		if m.IsNil() {
			return
		}
		if c.copierOf(t.Key()) != nil {
			panic(fmt.Sprintf("snapshot: keys of %v cannot be copied", t))
		}
		f, out := c.copierOf(t.Elem()), reflect.MakeMapWithSize(t, m.Len())
		for it := m.MapRange(); it.Next(); { // order-free: into a map
			if f == nil {
				out.SetMapIndex(it.Key(), it.Value())
				continue
			}
			v, was := reflect.New(t.Elem()), reflect.New(t.Elem())
			v.Elem().Set(it.Value())
			was.Elem().Set(it.Value())
			f(c, v.UnsafePointer(), was.UnsafePointer())
			out.SetMapIndex(it.Key(), v.Elem())
		}
		reflect.NewAt(t, to).Elem().Set(out)
	}
}

func copyInterface(t reflect.Type) copier {
	return func(c *Camera, to, from unsafe.Pointer) {
		v := reflect.NewAt(t, from).Elem().Elem()
		if !v.IsValid() || c.copierOf(v.Type()) == nil {
			return
		}
		if v.Kind() != reflect.Pointer {
			panic(fmt.Sprintf("snapshot: a %v in an interface cannot be copied", v.Type()))
		}
		if v.IsNil() {
			return
		}
		q, _, ok := c.find(v.UnsafePointer(), v.Type().Elem().Size())
		if !ok {
			q = c.copyObject(v.Type().Elem(), v.UnsafePointer())
		}
		reflect.NewAt(t, to).Elem().Set(reflect.NewAt(v.Type().Elem(), q))
	}
}

func (c *Camera) structCopier(t reflect.Type) copier {
	type part struct {
		at   uintptr
		copy copier
	}
	var parts []part
	for i := range t.NumField() {
		if f := c.copierOf(t.Field(i).Type); f != nil {
			parts = append(parts, part{t.Field(i).Offset, f})
		}
	}
	if parts == nil {
		return nil
	}
	return func(c *Camera, to, from unsafe.Pointer) {
		for i := range parts {
			parts[i].copy(c, unsafe.Add(to, parts[i].at), unsafe.Add(from, parts[i].at))
		}
	}
}

func (c *Camera) arrayCopier(t reflect.Type) copier {
	f := c.copierOf(t.Elem())
	if f == nil {
		return nil
	}
	n, size := uintptr(t.Len()), t.Elem().Size()
	return func(c *Camera, to, from unsafe.Pointer) {
		for i := range n {
			f(c, unsafe.Add(to, i*size), unsafe.Add(from, i*size))
		}
	}
}
