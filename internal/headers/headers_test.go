package headers

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/internal/wire"
	"pgregory.net/rapid"
)

func TestHeadersSurviveTheTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.MapOfN(rapid.StringN(1, 20, KeyBytesMax), rapid.StringN(0, 200, 400), 1, Max).Draw(t, "headers")
		l, err := List("").With(all)
		if err != nil {
			t.Fatal(err)
		}
		if !Valid([]byte(l)) || len(l) > EncodedMax {
			t.Errorf("%d bytes are not valid", len(l))
		}
		if got := l.Map(); !maps.Equal(got, all) {
			t.Errorf("%q came back for %q", got, all)
		}
		for key, value := range all {
			if got, ok := l.Get(key); !ok || got != value {
				t.Errorf("%q is %q, %v; want %q", key, got, ok, value)
			}
		}
		if got, ok := l.Get("\x00 no such key"); ok {
			t.Errorf("a key that is not there has %q", got)
		}
	})
}

func TestHeadersReplaceThoseOfTheSameKey(t *testing.T) {
	first, err := List("").With(map[string]string{"a": "1", "b": "2"})
	if err != nil {
		t.Fatal(err)
	}
	second, err := first.With(map[string]string{"b": "3", "c": ""})
	if want := map[string]string{"a": "1", "b": "3", "c": ""}; err != nil || !maps.Equal(second.Map(), want) {
		t.Errorf("%q, %v; want %q", second.Map(), err, want)
	}
	if want := map[string]string{"a": "1", "b": "2"}; !maps.Equal(first.Map(), want) {
		t.Errorf("the first list has become %q", first.Map())
	}
	if none, err := List("").With(nil); none != "" || err != nil {
		t.Errorf("%q, %v for no headers", none, err)
	}
}

// numbered returns n headers with keys of 3 bytes.
func numbered(n, valueBytes int) map[string]string {
	all := map[string]string{}
	for i := range n {
		all[fmt.Sprintf("%03d", i)] = strings.Repeat("v", valueBytes)
	}
	return all
}

func TestHeadersAreBounded(t *testing.T) {
	long := strings.Repeat("k", KeyBytesMax)
	for name, fits := range map[string]map[string]string{
		"count": numbered(Max, 1), "key": {long: "v"}, "value": {"k": strings.Repeat("v", ValueBytesMax)},
		"all": {"0": strings.Repeat("v", ValueBytesMax), "1": strings.Repeat("v", ValueBytesMax-2)},
	} {
		if l, err := List("").With(fits); err != nil || !Valid([]byte(l)) {
			t.Errorf("%s at its bound: %v", name, err)
		}
	}
	for name, exceeds := range map[string]map[string]string{
		"count": numbered(Max+1, 1), "key": {long + "k": "v"}, "no key": {"": "v"},
		"value": {"k": strings.Repeat("v", ValueBytesMax+1)},
		"all":   {"0": strings.Repeat("v", ValueBytesMax), "1": strings.Repeat("v", ValueBytesMax-1)},
	} {
		if _, err := List("").With(exceeds); err == nil {
			t.Errorf("%s beyond its bound is accepted", name)
		}
	}
	full, _ := List("").With(numbered(Max, 1))
	if _, err := full.With(map[string]string{"one more": ""}); err == nil {
		t.Error("a full list takes one more header")
	}
}

// encode returns texts as they would stand in a List, within bounds or not.
func encode(texts ...string) (b []byte) {
	for _, s := range texts {
		b = wire.AppendString(b, s)
	}
	return b
}

func TestInvalidListsAreRejected(t *testing.T) {
	var many []string
	for i := range Max + 1 {
		many = append(many, fmt.Sprintf("%03d", i), "")
	}
	value := strings.Repeat("v", ValueBytesMax)
	for name, p := range map[string][]byte{
		"nothing": nil, "no value": encode("a"), "no key": encode("", "v"), "the same key twice": encode("a", "1", "a", "2"),
		"keys not sorted": encode("b", "1", "a", "2"), "a long key": encode(strings.Repeat("k", KeyBytesMax+1), ""),
		"a long value": encode("k", value+"v"), "too many": encode(many...), "too long together": encode("a", value, "b", value),
		"cut off": encode("a", "value")[:4], "a length in a long form": {0x81, 0x00, 'a', 0}, "an endless length": {0x81, 0x81, 0x81, 0x01},
	} {
		if Valid(p) {
			t.Errorf("%s: %x is accepted", name, p)
		}
	}
	if good := encode("a", "1", "b", "2"); !Valid(good) {
		t.Error("a good list is rejected")
	}
}

// FuzzValid checks that a valid List is the only encoding of its headers, and that reading any
// bytes ends.
func FuzzValid(f *testing.F) {
	f.Add(encode("a", "1", "b", "2"))
	f.Add(encode("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
	f.Add(encode("b", "1", "a", "2"))
	f.Add([]byte{0x81, 0x00, 'a', 0})
	f.Fuzz(func(t *testing.T, p []byte) {
		l := List(p)
		all := l.Map()
		l.Get("a")
		if !Valid(p) {
			return
		}
		if again, err := List("").With(all); err != nil || again != l {
			t.Errorf("%x came back as %x, %v", p, again, err)
		}
	})
}
