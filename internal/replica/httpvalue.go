package replica

import (
	"encoding/base64"
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/peerage-go/peerage/crdt"
)

// shownBytesMax bounds how much of a value Handler shows, counted as it is stored.
const shownBytesMax = 1 << 20

// shower turns a value into what JSON shows best: text as text, what an application's
// codec has encoded as what it is, and anything else as its bytes. It stops when it has
// shown enough.
type valueRenderer struct {
	left int
	cut  bool
}

// placePage is what is at a place of an ORMap.
type placePage struct {
	Values   []any          `json:"values,omitempty"`
	Elements []any          `json:"elements,omitempty"`
	Count    int64          `json:"count,omitempty"`
	Enabled  bool           `json:"enabled,omitempty"`
	Keys     map[string]any `json:"keys,omitempty"`
}

// renderValue returns v for JSON.
func (s *valueRenderer) renderValue(v crdt.Value) any {
	switch v := v.(type) {
	case *crdt.GCounter:
		return v.Count()
	case *crdt.PNCounter:
		return v.Count()
	case *crdt.Flag:
		return v.Enabled()
	case *crdt.GSet[string]:
		return s.renderElements(v.Elements())
	case *crdt.ORSet[string]:
		return s.renderElements(v.Elements())
	case *crdt.LWWRegister[string]:
		if raw, ok := v.Value(); ok {
			return s.renderElement(raw)
		}
		return nil
	case *crdt.MVRegister[string]:
		return s.renderElements(v.Values())
	case *crdt.LWWMap[string, string]:
		return renderEntries(s, v.All(), s.renderElement)
	case *crdt.PNCounterMap[string]:
		return renderEntries(s, v.All(), func(n int64) any { return n })
	case *crdt.ORMultiMap[string, string]:
		return renderEntries(s, grouped(v.All()), func(vs []string) any { return s.renderElements(vs) })
	case *crdt.ORMap[string, string]:
		return s.renderPlaces(v.Keys(), func(k string) crdt.Place[string, string] { return v.At(k) })
	case *crdt.VersionVector:
		out := map[string]uint64{}
		for n, seq := range v.All() {
			if s.fitsBytes(16) {
				out[strconv.FormatUint(uint64(n), 16)] = seq
			}
		}
		return out
	}
	return nil
}

// fitsBytes reports whether so much more may be shown.
func (s *valueRenderer) fitsBytes(n int) bool {
	if s.left -= n + 16; s.left < 0 {
		s.cut = true
	}
	return !s.cut
}

func (s *valueRenderer) renderElements(raws []string) []any {
	slices.Sort(raws)
	out := []any{}
	for _, raw := range raws {
		if s.cut = s.cut || len(out) > 0 && len(raw) > s.left; !s.fitsBytes(0) {
			break
		}
		out = append(out, s.renderElement(raw))
	}
	return out
}

// renderEntries shows a map, in the order of its keys until it is enough.
func renderEntries[V any](s *valueRenderer, all iter.Seq2[string, V], show func(V) any) map[string]any {
	vals := map[string]V{}
	var keys []string
	for k, v := range all {
		keys = append(keys, k)
		vals[k] = v
	}
	slices.Sort(keys)
	out := map[string]any{}
	for _, k := range keys {
		if !s.fitsBytes(len(k)) {
			break
		}
		out[label(out, k)] = show(vals[k])
	}
	return out
}

func grouped(all iter.Seq2[string, string]) iter.Seq2[string, []string] {
	return func(yield func(string, []string) bool) {
		out := map[string][]string{}
		for k, v := range all {
			out[k] = append(out[k], v)
		}
		for k, vs := range out { // order-free: entries sorts
			if !yield(k, vs) {
				return
			}
		}
	}
}

func (s *valueRenderer) renderPlaces(keys []string, at func(string) crdt.Place[string, string]) map[string]any {
	slices.Sort(keys)
	out := map[string]any{}
	for _, k := range keys {
		if !s.fitsBytes(len(k)) {
			break
		}
		p := at(k)
		page := placePage{Values: s.renderElements(p.Values()), Elements: s.renderElements(p.Elements()), Count: p.Count(), Enabled: p.Enabled()}
		if under := p.Keys(); len(under) > 0 {
			page.Keys = s.renderPlaces(under, func(k string) crdt.Place[string, string] { return p.At(k) })
		}
		out[label(out, k)] = page
	}
	return out
}

// renderElement shows one element, of which as many bytes at most are shown as are left.
func (s *valueRenderer) renderElement(raw string) any {
	switch {
	case len(raw) > s.left:
		s.cut = true
		head := raw[:max(s.left, 0)]
		s.left = 0
		return rawPage{base64.StdEncoding.EncodeToString([]byte(head)), len(raw)}
	case readable(raw):
		s.left -= len(raw)
		return raw
	}
	s.left -= len(raw)
	if v, ok := unpacked(raw); ok {
		return v
	}
	return rawPage{base64.StdEncoding.EncodeToString([]byte(raw)), len(raw)}
}

// label returns a key as text that is not taken yet.
func label(taken map[string]any, raw string) string {
	out := raw
	if !readable(raw) {
		out = "base64:" + base64.StdEncoding.EncodeToString([]byte(raw))
		if v, ok := unpacked(raw); ok {
			// Results of unpacked always have an encoding.
			b, _ := json.Marshal(v)
			out = string(b)
		}
	}
	for {
		if _, is := taken[out]; !is {
			return out
		}
		out += "'"
	}
}

// readable reports whether a string is text.
func readable(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !unicode.IsPrint(r) && !unicode.IsSpace(r) {
			return false
		}
	}
	return true
}
