package replica

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/replicator"
)

// packed returns what an application's codec makes of e.
func packed[E any](t testing.TB, e E) string {
	c, err := crdt.MsgpackCodec[E]()
	if err != nil {
		t.Fatal(err)
	}
	return string(c.Append(nil, e))
}

// Values of all types are shown as what they are, whatever the application stores in
// them, and not as a number of bytes.
func TestHandlerShowsWhatApplicationsStore(t *testing.T) {
	type address struct {
		Host string
		Port int
		Tags []string
	}
	synctest.Test(t, func(t *testing.T) {
		r := newMesh(t, 1, nil).nodes[1]
		put := func(key string, kind crdt.Kind, f func(v crdt.Value) crdt.Value) {
			must(t, r.Update(t.Context(), []operation.Op{replication.Mutate(key, kind, 100, f)}, replicator.Local))
		}
		put("struct", crdt.KindLWWMap, func(v crdt.Value) crdt.Value {
			return v.(*crdt.LWWMap[string, string]).Set(packed(t, 1234), packed(t, address{"a", 7101, []string{"x"}}), crdt.Stamp{Time: 1})
		})
		put("gset", crdt.KindGSet, func(v crdt.Value) crdt.Value { return v.(*crdt.GSet[string]).Add(packed(t, -5)) })
		put("register", crdt.KindLWWRegister, func(v crdt.Value) crdt.Value {
			return v.(*crdt.LWWRegister[string]).Set("\xff\xfe raw", crdt.Stamp{Time: 1})
		})
		put("float", crdt.KindMVRegister, func(v crdt.Value) crdt.Value {
			return v.(*crdt.MVRegister[string]).Set(1, packed(t, math.Inf(1)))
		})
		put("rooms", crdt.KindORMap, func(v crdt.Value) crdt.Value {
			m := v.(*crdt.ORMap[string, string])
			d := m.At("blue", "guests").Add(1, "ada")
			d.Merge(m.At("blue", "visits").Increment(1, 3), nil)
			d.Merge(m.At("blue", "title").Set(1, packed(t, uint64(1)<<60)), nil)
			d.Merge(m.At("red").Enable(1), nil)
			return d
		})
		put("multi", crdt.KindORMultiMap, func(v crdt.Value) crdt.Value {
			return v.(*crdt.ORMultiMap[string, string]).Add(1, "k", packed(t, true))
		})
		put("vector", crdt.KindVersionVector, func(v crdt.Value) crdt.Value {
			return v.(*crdt.VersionVector).Observe(crdt.Dot{Node: 255, Seq: 9})
		})
		for key, want := range map[string]string{
			"struct":   `{"1234":{"Host":"a","Port":7101,"Tags":["x"]}}`,
			"gset":     `[-5]`,
			"register": `{"base64":"//4gcmF3","bytes":6}`,
			"float":    `["+Inf"]`,
			"rooms":    `{"blue":{"keys":{"guests":{"elements":["ada"]},"title":{"values":[1152921504606846976]},"visits":{"count":3}}},"red":{"enabled":true}}`,
			"multi":    `{"k":[true]}`,
			"vector":   `{"ff":9}`,
		} {
			if got := valueOf(t, r, key); string(got.Value) != want || got.Truncated {
				t.Errorf("%s: %s, want %s", key, got.Value, want)
			}
		}
	})
}

type shownPage struct {
	Value     json.RawMessage
	Truncated bool
}

func valueOf(t *testing.T, r *Replicator, key string) (page shownPage) {
	t.Helper()
	rec := httptest.NewRecorder()
	Handler(r).ServeHTTP(rec, httptest.NewRequest("GET", "/value?key="+key, nil))
	if rec.Code != 200 || rec.Body.Len() > 3*shownBytesMax {
		t.Fatalf("%s: code %d, %d bytes", key, rec.Code, rec.Body.Len())
	}
	must(t, json.Unmarshal(rec.Body.Bytes(), &page))
	return page
}

// Of a large value only a bounded part is shown, both of many elements and of one.
func TestHandlerShowsABoundedPartOfALargeValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newMesh(t, 1, nil).nodes[1]
		for i := range 40 {
			var ops []operation.Op
			for j := range 1000 {
				ops = append(ops, addTo(1, "many", fmt.Sprintf("%05d %s", 1000*i+j, strings.Repeat("x", 90))))
			}
			must(t, r.Update(t.Context(), ops, replicator.Local))
		}
		must(t, r.Update(t.Context(), []operation.Op{addTo(1, "one", strings.Repeat("x", 2*shownBytesMax))}, replicator.Local))
		var elements []string
		many := valueOf(t, r, "many")
		must(t, json.Unmarshal(many.Value, &elements))
		if !many.Truncated || len(elements) < 1000 || elements[999] != "00999 "+strings.Repeat("x", 90) {
			t.Errorf("%d elements, truncated %t", len(elements), many.Truncated)
		}
		if one := valueOf(t, r, "one"); !one.Truncated || !strings.Contains(string(one.Value), `"bytes":2097152`) {
			t.Errorf("truncated %t", one.Truncated)
		}
	})
}

// Lengths that are declared and not there cost nothing, and are not msgpack.
func TestDeclaredLengthsAreChecked(t *testing.T) {
	for _, raw := range []string{"", "\xdd\xff\xff\xff\xff", "\xdf\xff\xff\xff\xff\x01", "\xdb\xff\xff\xff\xffx", "\xc6\xff\xff\xff\xff", "\xcf\x01",
		strings.Repeat("\x91", 40) + "\x01", "\x01\x01", "\xc1", "\xd4\x01\x02", "\x81\x01"} {
		if v, ok := unpacked(raw); ok {
			t.Errorf("%q is %v", raw, v)
		}
	}
	if n := testing.AllocsPerRun(10, func() { unpacked("\xdd\xff\xff\xff\xff") }); n > 5 {
		t.Errorf("%v allocations for a length", n)
	}
}

// A key may be any value, a map with such a key, too. Were each shown as text within the
// text of the next, its quotes would double at every level: gigabytes from sixty bytes.
func TestKeysWithinKeysStaySmall(t *testing.T) {
	for raw, want := range map[string]string{
		"\x84\xa1a\x01\x02\x01\xc3\x01\xc0\x01": `{"2":1,"a":1,"null":1,"true":1}`,
		"\x81\x81\xa1a\x01\x02":                 `{"base64:gaFhAQ==":2}`,
		"\x81\x91\x05\x02":                      `{"base64:kQU=":2}`,
		"\x81\xc4\x01\xff\x02":                  `{"base64:/w==":2}`,
	} {
		v, ok := unpacked(raw)
		if b, err := json.Marshal(v); !ok || err != nil || string(b) != want {
			t.Errorf("%q: %t %v %s, want %s", raw, ok, err, b, want)
		}
	}
	raw := strings.Repeat("\x81", packDepthMax-2) + "\xa1a" + strings.Repeat("\x01", packDepthMax-2)
	v, ok := unpacked(raw)
	if b, err := json.Marshal(v); !ok || err != nil || len(b) > 2*len(raw) {
		t.Errorf("%t %v: %d bytes of %d", ok, err, len(b), len(raw))
	}
}

func FuzzUnpacked(f *testing.F) {
	f.Add(packed(f, struct{ A []int }{[]int{1, -70000, 1 << 40}}))
	f.Add("\x93\xca\x7f\x80\x00\x00\xc0\xc4\x01a")
	f.Add(strings.Repeat("\x81", 9) + "\xa1a" + strings.Repeat("\x01", 9))
	f.Fuzz(func(t *testing.T, raw string) {
		v, ok := unpacked(raw)
		if !ok {
			return
		}
		if b, err := json.Marshal(v); err != nil || len(b) > 40*len(raw)+100 {
			t.Errorf("%q: %d bytes, %v", raw, len(b), err)
		}
	})
}
