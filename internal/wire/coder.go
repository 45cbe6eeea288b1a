package wire

import (
	"math"
	"reflect"
	"slices"
)

// A Coder writes or reads the fields of one message.
//
// A message describes its fields once: a function names them in order, each with its bound,
// and the same function encodes and decodes.
//
//	func (m *Order) codeFields(c *wire.Coder) {
//		wire.Uvarint(c, &m.Term)
//		c.String("role", &m.Role, roleBytesMax)
//		wire.Slice(c, "shards", &m.Shards, shardsMax, (*Shard).codeFields)
//	}
//
// While a Coder writes, it changes no message: other goroutines may read the message. It
// applies no bounds, with the exceptions that are documented. While a Coder reads, it sets
// the fields of a blank message. It checks each declared length before it allocates, and its
// first error sticks, as that of a Reader. Checks of a value stand behind the field, call
// Fail, and need no case for writing.
type Coder struct {
	in      Reader
	out     []byte
	writing bool
	// version is the wire version of the frame, Newest if it is 0.
	version uint16
}

// NewEncoder returns a Coder that appends to b. Encoded returns the result.
func NewEncoder(b []byte) *Coder { return &Coder{out: b, writing: true} }

// NewDecoder returns a Coder that reads frame, which it does not copy.
func NewDecoder(frame []byte) *Coder { return &Coder{in: Reader{buf: frame}} }

// Encoded returns what the Coder has appended to.
func (c *Coder) Encoded() []byte { return c.out }

// Reading reports whether the Coder reads: the message may be changed.
func (c *Coder) Reading() bool { return !c.writing }

// Left returns the number of unread bytes, 0 while the Coder writes.
func (c *Coder) Left() int { return c.in.Left() }

// Err returns the first error of reading.
func (c *Coder) Err() error { return c.in.err }

// Fail records err as the frame's error unless an earlier one stands. It has no effect while
// the Coder writes: a receiver rejects the message.
func (c *Coder) Fail(err error) {
	if !c.writing {
		c.in.Fail(err)
	}
}

// Check fails if n is above most.
func (c *Coder) Check(field string, n, most uint64) {
	if n > most {
		c.Fail(&LimitError{Field: field, Declared: n, Max: most})
	}
}

// Integer is a type of numbers.
type Integer interface {
	~int | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// Uvarint codes a number in base-128 form. It fails on a number that T cannot hold.
func Uvarint[T Integer](c *Coder, p *T) {
	if c.writing {
		c.out = AppendUvarint(c.out, uint64(*p))
		return
	}
	v := c.in.Uvarint()
	if *p = T(v); uint64(*p) != v {
		c.Fail(&LimitError{Field: "number", Declared: v, Max: uint64(^T(0))})
	}
}

// Bounded codes a number in base-128 form, at most most.
func Bounded[T Integer](c *Coder, field string, p *T, most uint64) {
	if c.writing {
		c.out = AppendUvarint(c.out, uint64(*p))
		return
	}
	v := c.in.Uvarint()
	if v > most {
		c.Fail(&LimitError{Field: field, Declared: v, Max: most})
		return
	}
	*p = T(v)
}

// Capped codes a number in base-128 form. It writes a negative number as zero, and reads one
// above most as most.
func Capped[T Integer](c *Coder, p *T, most T) {
	if c.writing {
		c.out = AppendUvarint(c.out, uint64(max(*p, 0)))
		return
	}
	*p = T(min(c.in.Uvarint(), uint64(most)))
}

// U64 codes a number in 8 bytes, big endian.
func U64[T ~uint64 | ~int64](c *Coder, p *T) {
	if c.writing {
		c.out = AppendU64(c.out, uint64(*p))
		return
	}
	*p = T(c.in.U64())
}

// Byte codes a number in one byte, at most most.
func Byte[T ~uint8](c *Coder, field string, p *T, most T) {
	if c.writing {
		c.out = append(c.out, byte(*p))
		return
	}
	v := T(c.in.Byte())
	if v > most {
		c.Fail(&LimitError{Field: field, Declared: uint64(v), Max: uint64(most)})
		return
	}
	*p = v
}

// Bool codes one byte, which must be 0 or 1.
func (c *Coder) Bool(p *bool) {
	if c.writing {
		c.out = AppendBool(c.out, *p)
		return
	}
	*p = c.in.Bool()
}

// String codes a length and a string of at most most bytes. Reading copies the bytes.
func (c *Coder) String(field string, p *string, most int) {
	if c.writing {
		c.out = AppendString(c.out, *p)
		return
	}
	*p = c.in.String(field, most)
}

// Text is String for texts that people read: a longer one is written only in part.
func (c *Coder) Text(field string, p *string, most int) {
	if c.writing {
		c.out = AppendString(c.out, (*p)[:min(len(*p), most)])
		return
	}
	*p = c.in.String(field, most)
}

// Bytes codes a length and at most most bytes. After reading, *p aliases the frame.
func (c *Coder) Bytes(field string, p *[]byte, most int) {
	if c.writing {
		c.out = AppendBytes(c.out, *p)
		return
	}
	*p = c.in.Bytes(field, most)
}

// NoLimit is the bound of a list that only the frame's size bounds.
const NoLimit = math.MaxInt

// listGrowth bounds the memory that a list takes before its elements are read: that many
// bytes for each byte that is left in the frame.
const listGrowth = 8

// Slice codes a list: the number of its elements, at most most, and the elements. An empty
// list is read as nil.
func Slice[T any](c *Coder, field string, p *[]T, most int, element func(*T, *Coder)) {
	if c.writing {
		c.out = AppendUvarint(c.out, uint64(len(*p)))
		for i := range *p {
			element(&(*p)[i], c)
		}
		return
	}
	n := c.readCount(field, most, 1)
	if n == 0 {
		return
	}
	size := max(int(reflect.TypeFor[T]().Size()), 1)
	list := make([]T, 0, min(n, c.in.Left()*listGrowth/size+1))
	for range n {
		var blank T
		list = append(list, blank)
		if element(&list[len(list)-1], c); c.in.err != nil {
			return
		}
	}
	*p = list
}

// U64s codes a list of numbers of 8 bytes each. An empty list is read as nil.
func U64s[T ~uint64](c *Coder, field string, p *[]T, most int) {
	if c.writing {
		c.out = AppendUvarint(c.out, uint64(len(*p)))
		for _, v := range *p {
			c.out = AppendU64(c.out, uint64(v))
		}
		return
	}
	n := c.readCount(field, most, 8)
	if n == 0 {
		return
	}
	*p = make([]T, n)
	for i := range *p {
		(*p)[i] = T(c.in.U64())
	}
}

// Strings codes a list of strings of at most bytesMost bytes each. An empty list is read as
// nil.
func (c *Coder) Strings(field string, p *[]string, most, bytesMost int) {
	if c.writing {
		c.out = AppendUvarint(c.out, uint64(len(*p)))
		for _, s := range *p {
			c.out = AppendString(c.out, s)
		}
		return
	}
	Slice(c, field, p, most, func(s *string, c *Coder) { *s = c.in.String(field, bytesMost) })
}

// StringMap codes a map in the order of its keys, so that equal maps have equal bytes. It
// fails with ErrUnsorted on another order, or on a key that occurs twice. An empty map is
// read as nil.
func (c *Coder) StringMap(field string, p *map[string]string, most, keyMost, valueMost int) {
	if c.writing {
		c.writeMap(*p)
		return
	}
	n := c.readCount(field, most, 2)
	if n == 0 {
		return
	}
	m, last := make(map[string]string, n), ""
	for i := range n {
		key := c.in.String(field, keyMost)
		if i > 0 && key <= last {
			c.Fail(ErrUnsorted)
			return
		}
		m[key], last = c.in.String(field, valueMost), key
	}
	*p = m
}

func (c *Coder) writeMap(m map[string]string) {
	c.out = AppendUvarint(c.out, uint64(len(m)))
	if len(m) == 0 {
		return
	}
	keys := make([]string, 0, len(m))
	for key := range m { // order-free: sorted below
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		c.out = AppendString(AppendString(c.out, key), m[key])
	}
}

// readCount reads the number of elements that follow, each at least elemBytes long.
func (c *Coder) readCount(field string, most, elemBytes int) int {
	n := c.in.Count(field, elemBytes)
	if n > most {
		c.Fail(&LimitError{Field: field, Declared: uint64(n), Max: uint64(most)})
		return 0
	}
	return n
}

// Body codes fields behind their length in bytes, at most most. It makes a structure inside a
// message extensible: fields that later versions add at the end of the body are skipped.
func (c *Coder) Body(field string, most int, fields func(*Coder)) {
	if c.writing {
		at := len(c.out)
		c.out = append(c.out, 0) // the length, if it is below 128
		fields(c)
		c.insertLength(at)
		return
	}
	body := c.in.Bytes(field, most)
	behind := c.in.buf
	if c.in.err != nil {
		return
	}
	c.in.buf = body
	if fields(c); c.in.err == nil {
		c.in.buf = behind
	}
}

// insertLength sets the length of the body that begins behind the byte at at.
func (c *Coder) insertLength(at int) {
	n := uint64(len(c.out) - at - 1)
	if n < 0x80 {
		c.out[at] = byte(n)
		return
	}
	length := AppendUvarint(make([]byte, 0, 10), n)
	c.out = slices.Replace(c.out, at, at+1, length...)
}

// Added reports whether the frame has the fields that a version has added at the end of a
// message or of a Body. While the Coder writes, it has those of all versions up to the
// Coder's. A frame of an older version lacks the fields: they keep their zero values, which
// must mean what the older version means. All fields of one version stand behind one call,
// and versions in their order.
//
//	wire.Uvarint(c, &m.Term)
//	if c.Added(4) { // version 3 has no role: ""
//		c.String("role", &m.Role, roleBytesMax)
//	}
func (c *Coder) Added(version uint16) bool {
	newest := c.version
	if newest == 0 {
		newest = Newest
	}
	return version <= newest && (c.writing || c.in.Left() > 0)
}
