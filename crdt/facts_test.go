package crdt

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// dotFacts are the facts of causal types: which dots were made, with which
// payload, and which are gone. A payload is there if a dot of it was made and is
// not gone.
type dotFacts struct {
	dots map[Dot]dotFact
	read func(live []string) string
}

type dotFact struct {
	payload string // "" if only known as gone
	gone    bool
}

func newDotFacts(read func([]string) string) func() func() facts {
	return func() func() facts {
		return func() facts { return &dotFacts{map[Dot]dotFact{}, read} }
	}
}

func (f *dotFacts) join(o facts) {
	for d, x := range o.(*dotFacts).dots {
		have := f.dots[d]
		f.dots[d] = dotFact{max(have.payload, x.payload), have.gone || x.gone}
	}
}

func (f *dotFacts) clone() facts { return &dotFacts{maps.Clone(f.dots), f.read} }

func (f *dotFacts) live(match func(payload string) bool) (out []Dot) {
	for d, x := range f.dots {
		if !x.gone && match(x.payload) {
			out = append(out, d)
		}
	}
	return out
}

func (f *dotFacts) payloads(match func(string) bool) (out []string) {
	for _, d := range f.live(match) {
		out = append(out, f.dots[d].payload)
	}
	slices.Sort(out)
	return out
}

func (f *dotFacts) view() string { return f.read(f.payloads(all)) }

func (f *dotFacts) only(part Value) facts {
	ctx := part.(interface{ Context() *Context }).Context()
	out := &dotFacts{map[Dot]dotFact{}, f.read}
	for d, x := range f.dots {
		if ctx.Contains(d) {
			if x.gone {
				x.payload = ""
			}
			out.dots[d] = x
		}
	}
	return out
}

// equal compares what a value keeps: of gone dots it keeps that they are gone.
func (f *dotFacts) equal(o facts) bool {
	g := o.(*dotFacts)
	if len(f.dots) != len(g.dots) {
		return false
	}
	for d, x := range f.dots {
		if y, ok := g.dots[d]; !ok || x.gone != y.gone {
			return false
		}
	}
	return true
}

func all(string) bool { return true }

func is(p string) func(string) bool { return func(x string) bool { return x == p } }

func under(prefix string) func(string) bool {
	return func(x string) bool { return strings.HasPrefix(x, prefix) }
}

// change makes a new dot with a payload at r, unless payload is "", and ends the
// live dots that match. It returns the facts of the delta, nil if there are none.
func (r *replica) change(payload string, ends func(string) bool) facts {
	f := r.know.(*dotFacts)
	out := &dotFacts{map[Dot]dotFact{}, f.read}
	for _, d := range f.live(ends) {
		out.dots[d] = dotFact{gone: true}
	}
	if payload != "" {
		r.seq++
		out.dots[Dot{r.node, r.seq}] = dotFact{payload: payload}
	}
	if len(out.dots) == 0 {
		return nil
	}
	f.join(out)
	return out
}

// unique says which payloads are there.
func unique(live []string) string {
	slices.Sort(live)
	return fmt.Sprint(slices.Compact(live))
}

// writes are the facts of last-writer-wins types: per key the winning write.
type writes struct {
	keys map[string]lwwEntry[string, string]
}

func newWrites() facts { return &writes{map[string]lwwEntry[string, string]{}} }

func (f *writes) join(o facts) {
	for k, e := range o.(*writes).keys {
		have, ok := f.keys[k]
		c := e.stamp.Compare(have.stamp)
		if c == 0 && e.dead == have.dead {
			c = strings.Compare(e.val, have.val)
		} else if c == 0 && e.dead {
			c = 1
		}
		if !ok || c > 0 {
			f.keys[k] = e
		}
	}
}

func (f *writes) clone() facts { return &writes{maps.Clone(f.keys)} }

func (f *writes) view() string {
	var out []string
	for k, e := range f.keys {
		if !e.dead {
			out = append(out, k+"="+e.val)
		}
	}
	return unique(out)
}

func (f *writes) only(part Value) facts {
	out := newWrites().(*writes)
	m, ok := part.(*LWWMap[string, string])
	for k, e := range f.keys {
		if !ok || m.entry(k) != nil {
			out.keys[k] = e
		}
	}
	return out
}

func (f *writes) equal(o facts) bool { return maps.Equal(f.keys, o.(*writes).keys) }

// write makes a write at r and returns the facts of the delta.
func (r *replica) write(e lwwEntry[string, string]) facts {
	f := newWrites().(*writes)
	f.keys[e.key] = e
	if have, ok := r.know.(*writes).keys[e.key]; ok && e.stamp.Compare(have.stamp) <= 0 {
		return nil
	}
	r.know.join(f)
	return f
}

// tallies are the facts of counters: of each writer a prefix of its changes, of
// ups and downs apart. The entry of an heir stands on those that it has folded.
type tallies struct {
	log   *map[account][]int64
	known map[account]int
	heirs map[account]map[account]bool // heir -> dead
}

type account struct {
	node NodeID
	down bool
}

func newTallies() func() facts {
	log := &map[account][]int64{}
	return func() facts { return emptyTallies(log) }
}

func plainFacts(f func() facts) func() func() facts { return func() func() facts { return f } }

func emptyTallies(log *map[account][]int64) *tallies {
	return &tallies{log, map[account]int{}, map[account]map[account]bool{}}
}

func (f *tallies) join(o facts) {
	g := o.(*tallies)
	for n, k := range g.known {
		f.known[n] = max(f.known[n], k)
	}
	for h, m := range g.heirs {
		for d := range m {
			f.fold(h, d)
		}
	}
}

func (f *tallies) fold(heir, dead account) {
	if f.heirs[heir] == nil {
		f.heirs[heir] = map[account]bool{}
	}
	f.heirs[heir][dead] = true
}

// entry is what the delta of one writer's entry carries: everything that folds connect
// it with.
func (f *tallies) entry(a account) *tallies {
	out := emptyTallies(f.log)
	f.enter(out, a)
	return out
}

func (f *tallies) enter(out *tallies, a account) {
	if _, ok := out.known[a]; ok {
		return
	}
	out.known[a] = f.known[a]
	for heir, folded := range f.heirs { // order-free: builds sets
		for d := range folded {
			if heir == a || d == a {
				out.fold(heir, d)
				f.enter(out, d)
				f.enter(out, heir)
			}
		}
	}
}

func (f *tallies) clone() facts {
	c := emptyTallies(f.log)
	c.join(f)
	return c
}

func (f *tallies) view() string {
	sum := int64(0)
	for n, k := range f.known {
		for _, x := range (*f.log)[n][:k] {
			sum += x
		}
	}
	return fmt.Sprint(sum)
}

func (f *tallies) only(part Value) facts {
	out := emptyTallies(f.log)
	for a := range f.known {
		in := false
		switch p := part.(type) {
		case *GCounter:
			in = p.get(a.node) > 0
		case *PNCounter:
			in = !a.down && p.up.get(a.node) > 0 || a.down && p.down.get(a.node) > 0
		}
		if in {
			out.join(f.entry(a))
		}
	}
	return out
}

// equal says nothing about counters that fold: who knows the same may hold it in
// different entries.
func (f *tallies) equal(o facts) bool {
	return len(f.heirs) == 0 && len(o.(*tallies).heirs) == 0 && maps.Equal(f.known, o.(*tallies).known)
}

func (r *replica) count(n int64) facts {
	f := r.know.(*tallies)
	a := account{r.node, n < 0}
	(*f.log)[a] = append((*f.log)[a], n)
	f.known[a]++
	return f.entry(a)
}

// highs are the facts of version vectors.
type highs map[NodeID]uint64

func (f highs) join(o facts) {
	for n, k := range o.(highs) {
		f[n] = max(f[n], k)
	}
}

func (f highs) clone() facts       { return maps.Clone(f) }
func (f highs) view() string       { return fmt.Sprint(map[NodeID]uint64(f)) }
func (f highs) equal(o facts) bool { return maps.Equal(f, o.(highs)) }
func (f highs) only(part Value) facts {
	out := highs{}
	for n, k := range part.(*VersionVector).All() {
		out[n] = k
	}
	return out
}

// elems are the facts of a grow-only set.
type elems map[string]bool

func (f elems) join(o facts) { maps.Copy(f, o.(elems)) }

func (f elems) clone() facts { return maps.Clone(f) }

func (f elems) view() string { return unique(slices.Collect(maps.Keys(f))) }

func (f elems) only(part Value) facts {
	out := elems{}
	for _, e := range part.(*GSet[string]).Elements() {
		out[e] = true
	}
	return out
}

func (f elems) equal(o facts) bool { return maps.Equal(f, o.(elems)) }
