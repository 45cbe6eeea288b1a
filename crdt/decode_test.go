package crdt

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/peerage-go/peerage/internal/crdt/canonical"
)

var rewrite = flag.Bool("rewrite", false, "write the golden encodings anew")

// samples returns a value of every type with some content and history.
func samples(t testing.TB) []Value {
	var out []Value
	for i, sub := range subjects() {
		w := newWorld(sub, 3)
		if err := w.run(randomScript(uint64(i), 200)); err != nil {
			t.Fatal(err)
		}
		for k := range sub.ops {
			w.op(k%3, k)
		}
		w.settle()
		out = append(out, w.reps[0].v)
	}
	return out
}

// TestOneDotHasTheBytesOfTheIndex compares the two ways to write a small delta.
func TestOneDotHasTheBytesOfTheIndex(t *testing.T) {
	dots := []Dot{{}, {1, 1}, {1, 2}, {1, 3}, {2, 1}, {2, 900}, {9, 2}}
	for _, dot := range dots {
		for _, gone := range dots {
			if dot == gone {
				continue
			}
			small := &ORSet[string]{one: oneDot[string]{dot: dot, gone: gone}}
			if dot.Seq > 0 {
				small.one.elem = "x"
			}
			large := copyOf(small)
			large.grown()
			b := small.Append(nil)
			if !bytes.Equal(b, large.Append(nil)) || small.Digest() != large.Digest() {
				t.Fatalf("add %v, gone %v: %x, indexed %x", dot, gone, b, large.Append(nil))
			}
			var back ORSet[string]
			if err := back.Decode(b); err != nil || back.full != nil || !same(&back, large) {
				t.Fatalf("add %v, gone %v: came back as %+v: %v", dot, gone, back.one, err)
			}
		}
	}
}

// TestGoldenBytes pins the encodings: they are on the wire between versions.
func TestGoldenBytes(t *testing.T) {
	for _, v := range samples(t) {
		path := filepath.Join("testdata", "golden", fmt.Sprintf("kind%d.hex", v.Kind()))
		got := []byte(hex.EncodeToString(v.Append(nil)) + "\n")
		if *rewrite {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("kind %d encodes as\n%swas\n%s", v.Kind(), got, want)
		}
	}
}

// TestEncodingIsMsgpack reads every encoding with a msgpack library.
func TestEncodingIsMsgpack(t *testing.T) {
	for _, v := range samples(t) {
		b := v.Append(nil)
		var out any
		if err := msgpack.NewDecoder(bytes.NewReader(b)).Decode(&out); err != nil && !bytes.Contains(b, []byte{canonical.FixExt16}) {
			t.Errorf("kind %d: %v", v.Kind(), err)
		}
		if n, err := skip(b, canonical.DepthMax); err != nil || n != len(b) {
			t.Errorf("kind %d: %d of %d bytes are one msgpack value: %v", v.Kind(), n, len(b), err)
		}
		if list, ok := out.([]any); !ok || fmt.Sprint(list[0]) != fmt.Sprint(uint8(v.Kind())) {
			t.Errorf("kind %d: does not begin with its kind: %v", v.Kind(), out)
		}
	}
}

// TestSizeIsAbout compares Size with what Append writes.
func TestSizeIsAbout(t *testing.T) {
	values := samples(t)
	values = append(values, benchSet(5000), benchMap(5000))
	for _, v := range values {
		got, n := v.Size(), len(v.Append(nil))
		if got < n/2 || got > 2*n+400 {
			t.Errorf("kind %d: Size says %d, Append writes %d", v.Kind(), got, n)
		}
	}
}

// TestEveryCutAndFlipIsSafe decodes damaged encodings: an error or a value, never
// a panic, never half a value.
func TestEveryCutAndFlipIsSafe(t *testing.T) {
	for _, v := range samples(t) {
		b := v.Append(nil)
		for cut := range b {
			if _, err := Decode(v.Kind(), b[:cut]); err == nil {
				t.Errorf("kind %d: cut at %d of %d was taken", v.Kind(), cut, len(b))
			}
		}
		for i := range b {
			for _, x := range []byte{0x01, 0x80, 0xff} {
				flipped := bytes.Clone(b)
				flipped[i] ^= x
				checkDecoded(t, v.Kind(), flipped)
			}
		}
		if _, err := Decode(v.Kind(), append(bytes.Clone(b), 0)); !errors.Is(err, ErrMalformed) {
			t.Errorf("kind %d: a byte too many: %v", v.Kind(), err)
		}
	}
}

// checkDecoded decodes b; what comes out must be a sound value that lives on.
func checkDecoded(t testing.TB, k Kind, b []byte) {
	v, err := Decode(k, b)
	if err != nil {
		var limit *LimitError
		var kind *KindError
		if !errors.Is(err, ErrTruncated) && !errors.Is(err, ErrMalformed) && !errors.As(err, &limit) && !errors.As(err, &kind) {
			t.Fatalf("kind %d: error of no known type: %v", k, err)
		}
		return
	}
	if err := consistent(v); err != nil {
		t.Fatalf("kind %d: %v", k, err)
	}
	for _, sub := range subjects() {
		if sub.fresh().Kind() == k {
			sub.view(v) // reads through the indexes
		}
	}
	out := v.Append(nil)
	again, err := Decode(k, out)
	if err != nil || !same(v, again) {
		t.Fatalf("kind %d: does not survive its own encoding: %v", k, err)
	}
	empty, _ := New(k)
	if _, err := empty.Join(v); err != nil || !same(v, empty) {
		t.Fatalf("kind %d: joined to nothing it is not itself: %v", k, err)
	}
}

// TestHostileLengths declares much and brings little.
func TestHostileLengths(t *testing.T) {
	huge := []byte{canonical.Array32, 0xff, 0xff, 0xff, 0xff}
	set := func(context, live []byte, elems ...byte) []byte {
		b := canonical.AppendUint(canonical.AppendArrayLen(nil, 5), uint64(KindORSet))
		b = append(canonical.AppendArrayLen(b, 1), 7)
		return append(canonical.AppendBin(canonical.AppendBin(b, context), live), elems...)
	}
	wide := []byte{1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}
	for name, b := range map[string][]byte{
		"elements":        append(set([]byte{1, 0, 0}, []byte{1, 0, 0}), huge...),
		"nodes":           append([]byte{0x95, byte(KindORSet)}, huge...),
		"live dots":       set(wide, wide, 0x91, 1),
		"intervals":       set([]byte{0xff, 0xff, 0xff, 0x7f, 0, 0}, []byte{0}, 0x90),
		"sequence":        set([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0}, []byte{0}, 0x90),
		"overflow":        set([]byte{2, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0}, []byte{0}, 0x90),
		"live unseen":     set([]byte{1, 0, 0}, []byte{1, 1, 0}, 0x91, 0xa1, 'x'),
		"unused node":     set([]byte{0}, []byte{0}, 0x90),
		"string":          set([]byte{1, 0, 0}, []byte{1, 0, 0}, 0x91, canonical.Str32, 0xff, 0xff, 0xff, 0xff),
		"bytes":           {0x95, byte(KindORSet), 0x91, 7, canonical.Bin32, 0xff, 0xff, 0xff, 0xff},
		"wrong kind":      {0x95, byte(KindLWWMap), 0x90, canonical.Bin8, 0, canonical.Bin8, 0, 0x90},
		"nothing":         {},
		"not an array":    {0x01},
		"nodes not sound": {0x95, byte(KindORSet), 0x92, 7, 7, canonical.Bin8, 0, canonical.Bin8, 0, 0x90},
	} {
		if v, err := Decode(KindORSet, b); err == nil {
			t.Errorf("%s: taken as %v", name, v)
		}
	}
	if _, err := Decode(99, nil); err == nil {
		t.Error("a kind that does not exist was decoded")
	}
}

// TestDecodingAllocatesLittle decodes what costs most for its bytes: empty elements
// under dots that lie far apart.
func TestDecodingAllocatesLittle(t *testing.T) {
	const most = 96 // bytes of heap per byte of input
	var far ORSet[string]
	for i := range uint64(3000) {
		d := &ORSet[string]{}
		d.one.elem, d.one.dot = fmt.Sprint(i%100), Dot{na, i*5000 + 1}
		far.Merge(d, nil)
	}
	dense := &ORSet[string]{}
	for i := range uint64(5000) {
		d := &ORSet[string]{}
		d.one.dot = Dot{na, i + 1}
		dense.Merge(d, nil)
	}
	var nodes ORSet[string]
	for i := range NodeID(2000) {
		nodes.Add(i, "x")
	}
	var gone ORSet[string]
	for i := range uint64(5000) {
		gone.Merge(&ORSet[string]{one: oneDot[string]{gone: Dot{na, 3*i + 1}}}, nil)
	}
	values := append(samples(t), &far, dense, &nodes, &gone, benchSet(5000), benchMap(5000))
	for i, v := range values {
		b := v.Append(nil)
		if len(b) < 500 {
			continue // a value has fixed costs
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := Decode(v.Kind(), b); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		got := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(b))
		t.Logf("value %d, kind %d: %d bytes of input, %.1f allocated for each", i, v.Kind(), len(b), got)
		if got > most {
			t.Errorf("value %d, kind %d: %.1f bytes allocated per byte of input", i, v.Kind(), got)
		}
	}
}
