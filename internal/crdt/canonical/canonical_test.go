package canonical

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
)

// The numbers on both sides of each border between two forms, with their encodings.
func TestNumbersTakeTheShortestForm(t *testing.T) {
	for _, c := range []struct {
		v    uint64
		want string
	}{
		{0, "00"}, {0x7f, "7f"},
		{0x80, "cc80"}, {0xff, "ccff"},
		{0x100, "cd0100"}, {0xffff, "cdffff"},
		{0x10000, "ce00010000"}, {math.MaxUint32, "ceffffffff"},
		{math.MaxUint32 + 1, "cf0000000100000000"}, {math.MaxUint64, "cfffffffffffffffff"},
	} {
		b := AppendUint(nil, c.v)
		if got := hex.EncodeToString(b); got != c.want {
			t.Errorf("%d is written as %s, want %s", c.v, got, c.want)
		}
		if UintSize(c.v) != len(b) {
			t.Errorf("UintSize of %d is %d, its encoding has %d bytes", c.v, UintSize(c.v), len(b))
		}
		r := Reader{B: b}
		if got := r.Uint(); got != c.v || r.Done() != nil {
			t.Errorf("%s is read as %d: %v", c.want, got, r.Err)
		}
	}
	for _, c := range []struct {
		v    int64
		want string
	}{
		{0, "00"}, {math.MaxInt64, "cf7fffffffffffffff"}, {-1, "ff"}, {-32, "e0"},
		{-33, "d0df"}, {math.MinInt8, "d080"},
		{math.MinInt8 - 1, "d1ff7f"}, {math.MinInt16, "d18000"},
		{math.MinInt16 - 1, "d2ffff7fff"}, {math.MinInt32, "d280000000"},
		{math.MinInt32 - 1, "d3ffffffff7fffffff"}, {math.MinInt64, "d38000000000000000"},
	} {
		b := AppendInt(nil, c.v)
		if got := hex.EncodeToString(b); got != c.want {
			t.Errorf("%d is written as %s, want %s", c.v, got, c.want)
		}
		r := Reader{B: b}
		if got := r.Int(); got != c.v || r.Done() != nil {
			t.Errorf("%s is read as %d: %v", c.want, got, r.Err)
		}
	}
}

func TestStringsAndArraysTakeTheShortestForm(t *testing.T) {
	for n, head := range map[int]string{
		0: "a0", 31: "bf", 32: "d920", 255: "d9ff", 256: "da0100", 65535: "daffff", 65536: "db00010000",
	} {
		s := strings.Repeat("x", n)
		b := AppendStr(nil, s)
		if got := hex.EncodeToString(b[:len(b)-n]); got != head {
			t.Errorf("a string of %d bytes begins with %s, want %s", n, got, head)
		}
		if StrSize(n) != len(b) {
			t.Errorf("StrSize of %d is %d, the encoding has %d bytes", n, StrSize(n), len(b))
		}
		r := Reader{B: b}
		if got := r.Str(); string(got) != s || r.Done() != nil {
			t.Errorf("a string of %d bytes is read with %d: %v", n, len(got), r.Err)
		}
	}
	for n, head := range map[int]string{0: "c400", 255: "c4ff", 256: "c50100", 65535: "c5ffff", 65536: "c600010000"} {
		p := bytes.Repeat([]byte{7}, n)
		b := AppendBin(nil, p)
		if got := hex.EncodeToString(b[:len(b)-n]); got != head {
			t.Errorf("%d bytes begin with %s, want %s", n, got, head)
		}
		r := Reader{B: b}
		if got := r.Bin(); !bytes.Equal(got, p) || r.Done() != nil {
			t.Errorf("%d bytes are read with %d: %v", n, len(got), r.Err)
		}
	}
	for n, want := range map[int]string{0: "90", 15: "9f", 16: "dc0010", 65535: "dcffff", 65536: "dd00010000"} {
		b := AppendArrayLen(nil, n)
		r := Reader{B: b}
		if got := hex.EncodeToString(b); got != want || r.ArrayHeader() != uint64(n) || r.Done() != nil {
			t.Errorf("an array of %d begins with %s, want %s: %v", n, got, want, r.Err)
		}
	}
}

// Each read fails with ErrTruncated at every place where its encoding is cut, and with
// ErrMalformed at a form of another kind. Neither panics nor returns a value.
func TestReadsOfCutAndForeignFormsFail(t *testing.T) {
	reads := map[string]func(*Reader) bool{
		"uint":  func(r *Reader) bool { return r.Uint() == 0 },
		"int":   func(r *Reader) bool { return r.Int() == 0 },
		"array": func(r *Reader) bool { return r.ArrayHeader() == 0 },
		"str":   func(r *Reader) bool { return r.Str() == nil },
		"bin":   func(r *Reader) bool { return r.Bin() == nil },
		"uuid":  func(r *Reader) bool { return r.UUID() == [16]byte{} },
	}
	forms := map[string][]byte{
		"uint":  AppendUint(nil, math.MaxUint64),
		"int":   AppendInt(nil, math.MinInt64),
		"array": AppendArrayLen(nil, 1<<20),
		"str":   AppendStr(nil, strings.Repeat("x", 300)),
		"bin":   AppendBin(nil, make([]byte, 300)),
		"uuid":  AppendUUID(nil, [16]byte{1}),
	}
	for name, read := range reads {
		whole := forms[name]
		for n := range whole {
			r := Reader{B: whole[:n]}
			if zero := read(&r); !zero && name != "uint" && name != "array" || !errors.Is(r.Done(), ErrTruncated) {
				t.Errorf("%s cut after %d of %d bytes: zero %v, error %v", name, n, len(whole), zero, r.Err)
			}
		}
		r := Reader{B: []byte{Nil}}
		if zero := read(&r); !zero || !errors.Is(r.Done(), ErrMalformed) {
			t.Errorf("%s reads nil: zero %v, error %v", name, zero, r.Err)
		}
	}
}

// A length that the bytes behind it cannot hold is refused before memory is allocated for it.
func TestDeclaredLengthsAreBoundedByTheBytesThatRemain(t *testing.T) {
	for _, huge := range [][]byte{
		{Str32, 0xff, 0xff, 0xff, 0xff, 'x'},
		{Bin32, 0xff, 0xff, 0xff, 0xff, 'x'},
		{0xc9, 0xff, 0xff, 0xff, 0xff, 1, 'x'}, // ext 32
	} {
		allocated := testing.AllocsPerRun(10, func() {
			r := Reader{B: huge}
			if r.SkipOne(); !errors.Is(r.Err, ErrTruncated) {
				t.Errorf("%x is skipped: %v", huge, r.Err)
			}
		})
		if allocated > 0 {
			t.Errorf("%x costs %v allocations", huge, allocated)
		}
	}
	p := Blob{B: []byte{200, 1, 'a', 'b', 'c'}, OK: true} // 200 items
	if n := p.Count(1); n != 0 || p.Done() {
		t.Errorf("200 items in 3 bytes are counted as %d, done %v", n, p.Done())
	}
	p = Blob{B: []byte{2, 'a', 'b', 'c', 'd'}, OK: true}
	if n := p.Count(2); n != 2 || p.Done() || len(p.B) != 4 {
		t.Errorf("two items of two bytes are counted as %d; %d bytes remain", n, len(p.B))
	}
}

func TestTheFirstErrorOfAReaderSticks(t *testing.T) {
	r := Reader{B: []byte{Nil, 1, 2, 3}}
	r.Uint()
	if r.Byte() != 0 || r.Str() != nil || !errors.Is(r.Done(), ErrMalformed) {
		t.Errorf("reads go on after an error: %v", r.Err)
	}
	r.Fail(ErrTruncated)
	if !errors.Is(r.Err, ErrMalformed) {
		t.Errorf("a later error %v replaces the first", r.Err)
	}
	r = Reader{B: []byte{1, 2}}
	if r.Uint() != 1 || !errors.Is(r.Done(), ErrMalformed) {
		t.Errorf("a byte is left, and Done returns %v", r.Err)
	}
}

func TestABlobWithAnErrorIsNotDone(t *testing.T) {
	p := Blob{B: []byte{5, 0x80, 1}, OK: true}
	if a, b := p.Next(), p.Next(); a != 5 || b != 128 || !p.Done() {
		t.Errorf("read %d and %d, done %v", a, b, p.Done())
	}
	for name, b := range map[string][]byte{
		"empty": nil, "cut": {0x80}, "of 65 bits": {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2},
	} {
		p := Blob{B: b, OK: true}
		if n := p.Next(); n != 0 || p.Done() {
			t.Errorf("a number that is %s is read as %d, done %v", name, n, p.Done())
		}
	}
	if p := (Blob{B: []byte{1}, OK: true}); p.Done() {
		t.Error("a blob with a byte left is done")
	}
}

// SkipOne passes exactly one value, whatever its form, or a header.
func TestSkipOnePassesOneValue(t *testing.T) {
	for _, c := range []struct {
		form   []byte
		inside uint64
	}{
		{[]byte{0x7f}, 0}, {[]byte{0xe0}, 0}, {[]byte{Nil}, 0}, {[]byte{True}, 0},
		{[]byte{0x82}, 4}, {[]byte{0x93}, 3}, {[]byte{0xa1, 'x'}, 0},
		{[]byte{Bin8, 1, 9}, 0}, {[]byte{0xc7, 1, 5, 9}, 0}, {[]byte{0xca, 1, 2, 3, 4}, 0},
		{[]byte{0xcb, 1, 2, 3, 4, 5, 6, 7, 8}, 0}, {[]byte{Uint64, 1, 2, 3, 4, 5, 6, 7, 8}, 0},
		{[]byte{Int16, 1, 2}, 0}, {[]byte{0xd4, 1, 9}, 0}, {AppendUUID(nil, [16]byte{}), 0},
		{[]byte{Str16, 0, 1, 'x'}, 0}, {[]byte{Array16, 1, 0}, 256}, {[]byte{0xdf, 0, 0, 1, 0}, 512},
	} {
		r := Reader{B: append(bytes.Clone(c.form), 0x2a)}
		if inside := r.SkipOne(); inside != c.inside || r.Uint() != 42 || r.Done() != nil {
			t.Errorf("%x is skipped with %d values inside, want %d: %v", c.form, inside, c.inside, r.Err)
		}
	}
	r := Reader{B: []byte{0xc1}} // the only byte that begins no form
	if r.SkipOne(); !errors.Is(r.Err, ErrMalformed) {
		t.Errorf("0xc1 is skipped: %v", r.Err)
	}
}

func TestOnlyTheUsualFormOfAUUIDIsParsed(t *testing.T) {
	const text = "00112233-4455-6677-8899-aabbccddeeff"
	u, ok := ParseUUID(text)
	if !ok || FormatUUID(u) != text || u[0] != 0 || u[15] != 0xff {
		t.Errorf("%s is parsed as %x, %v", text, u, ok)
	}
	r := Reader{B: AppendUUID(nil, u)}
	if r.UUID() != u || r.Done() != nil {
		t.Errorf("a UUID is not read back: %v", r.Err)
	}
	for _, other := range []string{
		strings.ToUpper(text), strings.ReplaceAll(text, "-", "_"), "g" + text[1:], "0-112233" + text[8:],
	} {
		if u, ok := ParseUUID(other); ok {
			t.Errorf("%s is parsed as %x", other, u)
		}
	}
	r = Reader{B: append([]byte{FixExt16, UUIDExt + 1}, u[:]...)}
	if r.UUID(); !errors.Is(r.Done(), ErrMalformed) {
		t.Errorf("an extension of another type is read as a UUID: %v", r.Err)
	}
}

func FuzzReader(f *testing.F) {
	for _, b := range [][]byte{AppendUint(nil, 300), AppendInt(nil, -300), AppendStr(nil, "a"), AppendBin(nil, []byte("b")), AppendArrayLen(nil, 20)} {
		f.Add(b)
	}
	// A value that was read in full takes at most as many bytes when it is written again: the
	// canonical form is the shortest.
	f.Fuzz(func(t *testing.T, b []byte) {
		for name, again := range map[string]func(*Reader) []byte{
			"uint": func(r *Reader) []byte { return AppendUint(nil, r.Uint()) },
			"int":  func(r *Reader) []byte { return AppendInt(nil, r.Int()) },
			"str":  func(r *Reader) []byte { return AppendStr(nil, string(r.Str())) },
			"bin":  func(r *Reader) []byte { return AppendBin(nil, r.Bin()) },
		} {
			r := Reader{B: b}
			if out := again(&r); r.Done() == nil && len(out) > len(b) {
				t.Errorf("%s %x is written again as %x", name, b, out)
			}
		}
		for r, left := (Reader{B: b}), uint64(1); left > 0 && r.Err == nil; left-- {
			if inside := r.SkipOne(); inside > 0 && inside < 100 {
				left += inside
			}
		}
	})
}

func ExampleAppendStr() {
	fmt.Printf("%x\n", AppendStr(nil, "id"))
	// Output: a26964
}
