package wire

import (
	"testing"

	"pgregory.net/rapid"
)

func TestFieldsSurviveTheTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := rapid.Uint64().Draw(t, "uvarint")
		f := rapid.Uint64().Draw(t, "u64")
		ok := rapid.Bool().Draw(t, "bool")
		s := rapid.String().Draw(t, "string")
		p := rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")

		frame := AppendBytes(AppendString(AppendBool(AppendU64(AppendUvarint(nil, u), f), ok), s), p)
		r := NewReader(frame)
		if got := r.Uvarint(); got != u {
			t.Fatalf("uvarint %d came back as %d", u, got)
		}
		if got := r.U64(); got != f {
			t.Fatalf("u64 %d came back as %d", f, got)
		}
		if got := r.Bool(); got != ok {
			t.Fatalf("bool %v came back as %v", ok, got)
		}
		if got := r.String("s", 1<<20); got != s {
			t.Fatalf("string %q came back as %q", s, got)
		}
		if got := r.Bytes("p", 1<<20); string(got) != string(p) {
			t.Fatalf("bytes %x came back as %x", p, got)
		}
		if err := r.Err(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestDeclaredLengthsAreCheckedFirst(t *testing.T) {
	huge := AppendUvarint(nil, 1<<40)
	for name, read := range map[string]func(*Reader){
		"bytes over the limit":         func(r *Reader) { r.Bytes("p", 1<<20) },
		"bytes beyond the frame":       func(r *Reader) { r.Bytes("p", 1<<50) },
		"count beyond what can follow": func(r *Reader) { r.Count("n", 1) },
	} {
		r := NewReader(huge)
		read(r)
		if r.Err() == nil {
			t.Errorf("%s: no error", name)
		}
		if r.Left() != 0 {
			t.Errorf("%s: %d bytes can still be read behind an error", name, r.Left())
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte{3, 'a', 'b', 'c', 0xff})
	f.Fuzz(func(t *testing.T, frame []byte) {
		r := NewReader(frame)
		for r.Err() == nil && r.Left() > 0 {
			before := r.Left()
			switch frame[len(frame)-r.Left()] % 6 {
			case 0:
				r.Uvarint()
			case 1:
				r.U64()
			case 2:
				r.Bool()
			case 3:
				r.Bytes("p", 64)
			case 4:
				if n := r.Count("n", 2); n*2 > r.Left() {
					t.Fatalf("count %d of 2-byte elements, %d bytes left", n, r.Left())
				}
			case 5:
				r.Byte()
			}
			if r.Err() == nil && r.Left() >= before {
				t.Fatal("a read took nothing")
			}
		}
	})
}
