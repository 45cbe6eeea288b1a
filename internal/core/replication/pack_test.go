package replication

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/crdt"
)

// someValues is an answer with n items of about size bytes each.
func someValues(n, size int, text func() string) *Values {
	m := &Values{Session: 1, Ask: 2, Answered: n, Items: make([]Item, n)}
	for i := range m.Items {
		v := &crdt.ORSet[string]{}
		v.Add(1, text())
		m.Items[i] = Item{Key: fmt.Sprintf("key-%06d", i), Kind: crdt.KindORSet, Bytes: v.Append(nil)}
	}
	return m
}

func TestPackedMessagesSurvive(t *testing.T) {
	var k packer
	word := func() string { return strings.Repeat("word ", 12) }
	for _, n := range []int{20, 3000, 1} {
		m := someValues(n, 60, word)
		if n == 1 {
			m.Items[0].Bytes = bytes.Repeat([]byte("0123456789abcdef"), 1<<10)[:16000]
			m.Items[0].Bytes[8000] ^= 1
			m.Items[0].Key = strings.Repeat("k", 300)
		}
		p := k.pack(m)
		if p == nil {
			if n != 1 {
				t.Fatalf("%d items were not worth packing", n)
			}
			continue
		}
		got, err := k.unpack(p)
		if err != nil || !reflect.DeepEqual(got, Message(m)) {
			t.Errorf("%d items: %v", n, err)
		}
		if Name(p) != "values" {
			t.Errorf("named %q", Name(p))
		}
		if k.releaseIfIdle(); k.w == nil {
			t.Error("given back while in use")
		}
	}
	k.releaseIfIdle()
	if k.releaseIfIdle(); k.w != nil || k.r != nil {
		t.Error("kept without use")
	}
}

func TestNoiseIsNotPacked(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	noise := func() string {
		b := make([]byte, 200)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return string(b)
	}
	if p := new(packer).pack(someValues(50, 200, noise)); p != nil {
		t.Errorf("%d bytes packed into %d", p.Raw, len(p.Data))
	}
}

// bomb is a small stream that unpacks to n zeros.
func bomb(t testing.TB, n int) []byte {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write(make([]byte, n))
	_ = w.Close()
	return b.Bytes()
}

// What is allocated for a packed message depends on what came, not on what it
// claims, and a stream that goes on after what it has claimed is refused.
func TestBombsAreRefusedBeforeAnythingIsAllocated(t *testing.T) {
	data := bomb(t, 32<<20)
	var k packer
	_, _ = k.unpack(&Packed{Of: tagValues, Raw: 64, Data: data}) // the reader itself
	for _, raw := range []int{0, -1, 100, len(data)*packRatioMax - 1, len(data)*packRatioMax + 1, 32 << 20, packRawMax, packRawMax + 1, 1 << 60} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := k.unpack(&Packed{Of: 0, Raw: raw, Data: data})
		runtime.ReadMemStats(&after)
		bytes := int(after.TotalAlloc - before.TotalAlloc)
		if !errors.Is(err, ErrPacked) {
			t.Errorf("%d bytes claimed: %v", raw, err)
		}
		if most := len(data)*packRatioMax + 64<<10; raw <= len(data)*packRatioMax && bytes > most || raw > len(data)*packRatioMax && bytes > 64<<10 {
			t.Errorf("%d bytes claimed for %d: %d allocated", raw, len(data), bytes)
		}
	}
	p := k.pack(someValues(200, 60, func() string { return "e" }))
	for _, change := range []func(*Packed){
		func(p *Packed) { p.Raw++ },
		func(p *Packed) { p.Raw-- },
		func(p *Packed) { p.Of = tagDiffer },
		func(p *Packed) { p.Data = p.Data[:len(p.Data)-1] },
		func(p *Packed) { p.Data = nil },
	} {
		bad := *p
		change(&bad)
		if _, err := k.unpack(&bad); !errors.Is(err, ErrPacked) {
			t.Errorf("%d bytes of tag %d in %d: %v", bad.Raw, bad.Of, len(bad.Data), err)
		}
	}
	twice := k.pack(&Packed{Of: tagValues, Raw: 4 << 10, Data: Append(nil, someValues(200, 60, func() string { return "e" }))})
	if twice == nil {
		t.Fatal("the message of the test is not packed")
	}
	if _, err := k.unpack(twice); !errors.Is(err, ErrPacked) {
		t.Errorf("a packed message in another: %v", err)
	}
	if _, err := k.unpack(p); err != nil {
		t.Errorf("after all that: %v", err)
	}
}

// FuzzUnpack: nothing that a member sends in packed form breaks a core or costs it
// more than a multiple of its size.
func FuzzUnpack(f *testing.F) {
	var k packer
	p := k.pack(someValues(100, 60, func() string { return "element" }))
	f.Add(p.Of, p.Raw, p.Data)
	f.Add(tagValues, 1<<20, bomb(f, 1<<20))
	f.Add(tagPacked, 64, bomb(f, 64))
	f.Fuzz(func(t *testing.T, of byte, raw int, data []byte) {
		m, err := k.unpack(&Packed{Of: of, Raw: raw, Data: data})
		if err != nil {
			return
		}
		if raw > packRatioMax*len(data) {
			t.Fatalf("%d bytes from %d", raw, len(data))
		}
		if _, nested := m.(*Packed); nested {
			t.Fatal("packed twice")
		}
		if again, err := Decode(Append(nil, m)); err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("%+v becomes %+v, %v", m, again, err)
		}
	})
}
