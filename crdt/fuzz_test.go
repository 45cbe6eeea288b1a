package crdt

import (
	"bytes"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/crdt/canonical"
)

// FuzzDecode feeds bytes to the decoder of every kind.
func FuzzDecode(f *testing.F) {
	for _, v := range samples(f) {
		f.Add(byte(v.Kind()), v.Append(nil))
	}
	f.Fuzz(func(t *testing.T, kind byte, b []byte) {
		checkDecoded(t, Kind(kind), b)
	})
}

// FuzzJoinDecoded joins what decodes into a value with content, and on: whatever a
// peer sends, the value stays sound.
func FuzzJoinDecoded(f *testing.F) {
	for _, v := range samples(f) {
		b := v.Append(nil)
		f.Add(byte(v.Kind()), b, b)
	}
	whole := samples(f)
	f.Fuzz(func(t *testing.T, kind byte, x, y []byte) {
		a, err := Decode(Kind(kind), x)
		if err != nil {
			return
		}
		b, err := Decode(Kind(kind), y)
		if err != nil {
			return
		}
		v := whole[int(kind-1)%len(whole)]
		for _, w := range whole {
			if w.Kind() == a.Kind() {
				v = w.Clone()
			}
		}
		for _, w := range []Value{a, b, a} {
			if _, err := v.Join(w); err != nil {
				t.Fatal(err)
			}
		}
		if err := consistent(v); err != nil {
			t.Fatal(err)
		}
		left, right := a.Clone(), b.Clone()
		left.Join(b)
		right.Join(a)
		// Dots that are bound to two elements are lies that joins cannot mend.
		if !dotted(kind) && !same(left, right) {
			t.Fatal("join is not commutative")
		}
		if _, ok := v.(*ORSet[string]); ok {
			v.(*ORSet[string]).Add(1<<62, "after")
		}
		var whole Value
		for p := range Split(v, 64) {
			if whole == nil {
				whole = p
			} else {
				whole.Join(p)
			}
		}
		if !same(whole, v) {
			t.Fatal("parts do not make the whole")
		}
	})
}

func dotted(kind byte) bool {
	switch Kind(kind) {
	case KindORSet, KindFlag, KindMVRegister, KindORMap, KindORMultiMap, KindPNCounterMap:
		return true
	}
	return false
}

// FuzzScript plays bytes as operations, messages, restarts and prunings.
func FuzzScript(f *testing.F) {
	for i := range subjects() {
		f.Add(byte(i), randomScript(uint64(i), 40))
	}
	f.Fuzz(func(t *testing.T, which byte, script []byte) {
		if len(script) > 600 {
			return
		}
		subs := subjects()
		if err := newWorld(subs[int(which)%len(subs)], 3).run(script); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzCodecs reads elements of every element type, and skips single msgpack values.
func FuzzCodecs(f *testing.F) {
	f.Add([]byte{canonical.FixExt16, canonical.UUIDExt, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	f.Add(canonical.AppendStr(nil, "text"))
	f.Add(canonical.AppendInt(nil, -70000))
	f.Add(canonical.AppendBin(nil, []byte("bytes")))
	f.Add([]byte{0x82, 0xa1, 'A', 0x01, 0xa1, 'B', 0xa2, 'h', 'i'})
	f.Add(bytes.Repeat([]byte{0x91}, 100))
	rec, err := MsgpackCodec[record]()
	if err != nil {
		f.Fatal(err)
	}
	list, err := MsgpackCodec[[]record]()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		readElement(t, stringCodec{}, b)
		readElement(t, bytesCodec{}, b)
		readElement(t, uuidCodec{}, b)
		readElement(t, intCodec[int64]{}, b)
		readElement(t, intCodec[int8]{}, b)
		readElement(t, uintCodec[uint64]{}, b)
		readElement(t, uintCodec[uint16]{}, b)
		readElement(t, boolCodec{}, b)
		readElement(t, rec, b)
		readElement(t, list, b)
	})
}

// record is an element type without a fast codec.
type record struct {
	A int
	B string
	C [2]int64
}

// readElement decodes an element; if that works it must survive its encoding.
func readElement[E any](t *testing.T, c Codec[E], b []byte) {
	e, n, err := c.Decode(b)
	if err != nil {
		return
	}
	if n <= 0 || n > len(b) {
		t.Fatalf("%T: took %d of %d bytes", c, n, len(b))
	}
	out := c.Append(nil, e)
	again, m, err := c.Decode(out)
	if err != nil || m != len(out) || !bytes.Equal(c.Append(nil, again), out) {
		t.Fatalf("%T: %v does not survive: %v", c, e, err)
	}
}

// FuzzHLC observes ticks of all sorts: the clock never goes back, and never gets
// ahead of the wall by more than it may.
func FuzzHLC(f *testing.F) {
	f.Add(uint64(1)<<63, int64(1_000_000), true)
	f.Add(uint64(0), int64(-5), false)
	f.Fuzz(func(t *testing.T, remote uint64, wallMillis int64, clamp bool) {
		wall := time.UnixMilli(wallMillis)
		h := HLC{Clamp: clamp}
		before := h.Tick(wall)
		err := h.Observe(remote, wall)
		if clamp && err != nil {
			t.Fatal(err)
		}
		after := h.Tick(wall)
		if after <= before || err == nil && !clamp && after <= remote {
			t.Fatalf("%d, observed %d, then %d", before, remote, after)
		}
		if ahead := after>>hlcCounterBits - millis(wall); ahead > 501 {
			t.Fatalf("%d ms ahead", ahead)
		}
	})
}
