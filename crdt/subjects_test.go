package crdt

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// subjects returns every type with the operations that the worlds try.
func subjects() []*subject {
	return []*subject{
		orsetSubject(), flagSubject(), mvSubject(), multiSubject(), counterMapSubject(), mapSubject(),
		lwwMapSubject(), lwwRegisterSubject(), gcounterSubject(), pncounterSubject(), gsetSubject(), vectorSubject(),
	}
}

// deltaOf turns a typed nil into a Value that is nil.
func deltaOf[T any, P interface {
	*T
	Value
}](p P) Value {
	if p == nil {
		return nil
	}
	return p
}

func orsetSubject() *subject {
	s := &subject{
		name:  "ORSet",
		fresh: func() Value { return &ORSet[string]{} },
		know:  newDotFacts(unique),
		view:  func(v Value) string { return unique(v.(*ORSet[string]).Elements()) },
	}
	for _, x := range []string{"x", "y", "z"} {
		s.ops = append(s.ops,
			op{"add " + x, func(w *world, r *replica) (Value, facts) {
				return deltaOf(r.v.(*ORSet[string]).Add(r.node, x)), r.change(x, is(x))
			}},
			op{"remove " + x, func(w *world, r *replica) (Value, facts) {
				return deltaOf(r.v.(*ORSet[string]).Remove(x)), r.change("", is(x))
			}})
	}
	s.ops = append(s.ops, op{"clear", func(w *world, r *replica) (Value, facts) {
		return deltaOf(r.v.(*ORSet[string]).Clear()), r.change("", all)
	}})
	return s
}

func flagSubject() *subject {
	read := func(live []string) string { return fmt.Sprint(len(live) > 0) }
	return &subject{
		name:  "Flag",
		fresh: func() Value { return &Flag{} },
		know:  newDotFacts(read),
		view:  func(v Value) string { return fmt.Sprint(v.(*Flag).Enabled()) },
		ops: []op{
			{"enable", func(w *world, r *replica) (Value, facts) {
				return deltaOf(r.v.(*Flag).Enable(r.node)), r.change("on", all)
			}},
			{"disable", func(w *world, r *replica) (Value, facts) {
				return deltaOf(r.v.(*Flag).Disable()), r.change("", all)
			}},
		},
	}
}

func mvSubject() *subject {
	s := &subject{
		name:  "MVRegister",
		fresh: func() Value { return &MVRegister[string]{} },
		know:  newDotFacts(unique),
		view:  func(v Value) string { return unique(v.(*MVRegister[string]).Values()) },
	}
	for _, x := range []string{"a", "b", "c"} {
		s.ops = append(s.ops, op{"set " + x, func(w *world, r *replica) (Value, facts) {
			return deltaOf(r.v.(*MVRegister[string]).Set(r.node, x)), r.change(x, all)
		}})
	}
	s.ops = append(s.ops, op{"clear", func(w *world, r *replica) (Value, facts) {
		return deltaOf(r.v.(*MVRegister[string]).Clear()), r.change("", all)
	}})
	return s
}

func multiSubject() *subject {
	s := &subject{
		name:  "ORMultiMap",
		fresh: func() Value { return &ORMultiMap[string, string]{} },
		know:  newDotFacts(unique),
		view: func(v Value) string {
			m := v.(*ORMultiMap[string, string])
			var out []string
			for _, k := range []string{"j", "k"} {
				for _, x := range m.Values(k) {
					out = append(out, k+"/"+x)
				}
			}
			if len(out) != m.Len() {
				return fmt.Sprint("index has ", out, ", map has ", m.Len())
			}
			return unique(out)
		},
	}
	for _, k := range []string{"j", "k"} {
		for _, x := range []string{"x", "y"} {
			s.ops = append(s.ops,
				op{"add " + k + x, func(w *world, r *replica) (Value, facts) {
					return deltaOf(r.v.(*ORMultiMap[string, string]).Add(r.node, k, x)), r.change(k+"/"+x, is(k+"/"+x))
				}},
				op{"remove " + k + x, func(w *world, r *replica) (Value, facts) {
					return deltaOf(r.v.(*ORMultiMap[string, string]).Remove(k, x)), r.change("", is(k+"/"+x))
				}})
		}
		s.ops = append(s.ops, op{"remove key " + k, func(w *world, r *replica) (Value, facts) {
			return deltaOf(r.v.(*ORMultiMap[string, string]).RemoveKey(k)), r.change("", under(k+"/"))
		}})
	}
	return s
}

// share counts n in the share of r at a place. The payload of a share is
// "place/#node/born/inc/dec"; a share begins anew when the last one is gone.
func (r *replica) share(place string, n int64) facts {
	mine := fmt.Sprintf("%s/#%d/", place, r.node)
	born, inc, dec := int64(r.seq)+1, int64(0), int64(0)
	for _, p := range r.know.(*dotFacts).payloads(under(mine)) {
		_, born, inc, dec = readShare(p)
	}
	if n >= 0 {
		inc += n
	} else {
		dec -= n
	}
	return r.change(fmt.Sprintf("%s%d/%d/%d", mine, born, inc, dec), under(mine))
}

func readShare(p string) (owner string, born, inc, dec int64) {
	parts := strings.Split(p, "/")
	n := len(parts)
	number := func(i int) int64 {
		x, err := strconv.ParseInt(parts[i], 10, 64)
		if err != nil {
			panic(err)
		}
		return x
	}
	return strings.Join(parts[:n-3], "/"), number(n - 3), number(n - 2), number(n - 1)
}

// sums replaces the shares among payloads by one sum per place, of the youngest
// share of each writer.
func sums(live []string) string {
	var out []string
	youngest := map[string]string{}
	for _, p := range live {
		if !strings.Contains(p, "/#") {
			out = append(out, p)
			continue
		}
		owner, born, inc, dec := readShare(p)
		if old, ok := youngest[owner]; ok {
			if _, b, i, d := readShare(old); b > born || b == born && i+d > inc+dec {
				continue
			}
		}
		youngest[owner] = p
	}
	count := map[string]int64{}
	for owner, p := range youngest {
		_, _, inc, dec := readShare(p)
		place, _, _ := strings.Cut(owner, "/#")
		count[place] += inc - dec
	}
	for place, n := range count {
		out = append(out, fmt.Sprint(place, "=", n))
	}
	return unique(out)
}

func counterMapSubject() *subject {
	s := &subject{
		name:  "PNCounterMap",
		fresh: func() Value { return &PNCounterMap[string]{} },
		know:  newDotFacts(sums),
		view: func(v Value) string {
			var out []string
			for k, n := range v.(*PNCounterMap[string]).All() {
				out = append(out, fmt.Sprint(k, "=", n))
			}
			return unique(out)
		},
	}
	for _, k := range []string{"j", "k"} {
		for _, n := range []int64{5, -2} {
			s.ops = append(s.ops, op{fmt.Sprint("add ", k, n), func(w *world, r *replica) (Value, facts) {
				return deltaOf(r.v.(*PNCounterMap[string]).Add(r.node, k, n)), r.share(k, n)
			}})
		}
		s.ops = append(s.ops, op{"remove " + k, func(w *world, r *replica) (Value, facts) {
			return deltaOf(r.v.(*PNCounterMap[string]).Remove(k)), r.change("", under(k+"/"))
		}})
	}
	return s
}

func mapSubject() *subject {
	type M = ORMap[string, string]
	s := &subject{
		name:  "ORMap",
		fresh: func() Value { return &M{} },
		know:  newDotFacts(sums),
		view:  func(v Value) string { return unique(readMap(v.(*M), nil)) },
	}
	for _, path := range [][]string{{"j"}, {"k"}, {"k", "j"}} {
		at := strings.Join(path, ".")
		change := func(name, payload string, ends func(string) bool, do func(p Place[string, string], n NodeID) *M) {
			s.ops = append(s.ops, op{name + " " + at, func(w *world, r *replica) (Value, facts) {
				return deltaOf(do(r.v.(*M).At(path...), r.node)), r.change(payload, ends)
			}})
		}
		change("set", at+":reg/a", under(at+":reg/"), func(p Place[string, string], n NodeID) *M { return p.Set(n, "a") })
		change("set", at+":reg/b", under(at+":reg/"), func(p Place[string, string], n NodeID) *M { return p.Set(n, "b") })
		change("add", at+":set/x", is(at+":set/x"), func(p Place[string, string], n NodeID) *M { return p.Add(n, "x") })
		change("discard", "", is(at+":set/x"), func(p Place[string, string], n NodeID) *M { return p.Discard("x") })
		change("enable", at+":on", is(at+":on"), func(p Place[string, string], n NodeID) *M { return p.Enable(n) })
		change("disable", "", is(at+":on"), func(p Place[string, string], n NodeID) *M { return p.Disable() })
		change("remove", "", func(x string) bool {
			return strings.HasPrefix(x, at+":") || strings.HasPrefix(x, at+".")
		}, func(p Place[string, string], n NodeID) *M { return p.Remove() })
		s.ops = append(s.ops, op{"increment " + at, func(w *world, r *replica) (Value, facts) {
			return deltaOf(r.v.(*M).At(path...).Increment(r.node, 3)), r.share(at+":count", 3)
		}})
	}
	return s
}

// readMap lists what is in a map by its places.
func readMap(m *ORMap[string, string], path []string) (out []string) {
	keys := m.Keys()
	if len(path) > 0 {
		keys = m.At(path...).Keys()
	}
	for _, k := range keys {
		at := append(slices.Clone(path), k)
		p, name := m.At(at...), strings.Join(at, ".")
		for _, v := range p.Values() {
			out = append(out, name+":reg/"+v)
		}
		for _, v := range p.Elements() {
			out = append(out, name+":set/"+v)
		}
		if p.Enabled() {
			out = append(out, name+":on")
		}
		if len(p.leaves(fieldCounter)) > 0 {
			out = append(out, fmt.Sprint(name, ":count=", p.Count()))
		}
		out = append(out, readMap(m, at)...)
	}
	return out
}

// lwwOps are writes with stamps from clocks that are wrong, and from a range so
// small that writers collide.
func lwwOps(write func(w *world, r *replica, e lwwEntry[string, string]) Value, keys []string, deletes bool) (ops []op) {
	do := func(name string, e lwwEntry[string, string], stamp func(w *world, r *replica) Stamp) {
		ops = append(ops, op{name + " " + e.key + e.val, func(w *world, r *replica) (Value, facts) {
			x := e
			x.stamp = stamp(w, r)
			return write(w, r, x), r.write(x)
		}})
	}
	clock := func(w *world, r *replica) Stamp { return r.hlc.Stamp(w.wall(r), r.node) }
	for _, k := range keys {
		for i, v := range []string{"a", "b"} {
			e := lwwEntry[string, string]{key: k, val: v}
			do("set", e, clock)
			do("tie", e, func(*world, *replica) Stamp { return Stamp{Time: uint64(i), Node: 1, Seq: 1} })
			do("tie", e, func(*world, *replica) Stamp { return Stamp{Time: 1, Node: 1, Seq: 1} })
		}
		if deletes {
			e := lwwEntry[string, string]{key: k, dead: true}
			do("delete", e, clock)
			do("tie delete", e, func(*world, *replica) Stamp { return Stamp{Time: 1, Node: 1, Seq: 1} })
		}
	}
	return ops
}

func lwwMapSubject() *subject {
	type M = LWWMap[string, string]
	return &subject{
		name:  "LWWMap",
		fresh: func() Value { return &M{} },
		know:  plainFacts(newWrites),
		view: func(v Value) string {
			var out []string
			for k, x := range v.(*M).All() {
				out = append(out, k+"="+x)
			}
			return unique(out)
		},
		ops: lwwOps(func(w *world, r *replica, e lwwEntry[string, string]) Value {
			if e.dead {
				return deltaOf(r.v.(*M).Delete(e.key, e.stamp))
			}
			return deltaOf(r.v.(*M).Set(e.key, e.val, e.stamp))
		}, []string{"j", "k"}, true),
	}
}

func lwwRegisterSubject() *subject {
	type R = LWWRegister[string]
	return &subject{
		name:  "LWWRegister",
		fresh: func() Value { return &R{} },
		know:  plainFacts(newWrites),
		view: func(v Value) string {
			if x, ok := v.(*R).Value(); ok {
				return unique([]string{"=" + x})
			}
			return unique(nil)
		},
		ops: lwwOps(func(w *world, r *replica, e lwwEntry[string, string]) Value {
			return deltaOf(r.v.(*R).Set(e.val, e.stamp))
		}, []string{""}, false),
	}
}

func gcounterSubject() *subject {
	s := &subject{
		name:  "GCounter",
		fresh: func() Value { return &GCounter{} },
		know:  newTallies,
		view:  func(v Value) string { return fmt.Sprint(v.(*GCounter).Count()) },
	}
	for _, n := range []int64{1, 7} {
		s.ops = append(s.ops, op{fmt.Sprint("add ", n), func(w *world, r *replica) (Value, facts) {
			return deltaOf(r.v.(*GCounter).Add(r.node, uint64(n))), r.count(n)
		}})
	}
	return s
}

func pncounterSubject() *subject {
	s := &subject{
		name:  "PNCounter",
		fresh: func() Value { return &PNCounter{} },
		know:  newTallies,
		view:  func(v Value) string { return fmt.Sprint(v.(*PNCounter).Count()) },
	}
	for _, n := range []int64{1, 7, -3} {
		s.ops = append(s.ops, op{fmt.Sprint("add ", n), func(w *world, r *replica) (Value, facts) {
			return deltaOf(r.v.(*PNCounter).Add(r.node, n)), r.count(n)
		}})
	}
	return s
}

func gsetSubject() *subject {
	s := &subject{
		name:  "GSet",
		fresh: func() Value { return &GSet[string]{} },
		know:  plainFacts(func() facts { return elems{} }),
		view:  func(v Value) string { return unique(v.(*GSet[string]).Elements()) },
	}
	for i := range 24 {
		x := fmt.Sprint("e", i)
		s.ops = append(s.ops, op{"add " + x, func(w *world, r *replica) (Value, facts) {
			r.know.(elems)[x] = true
			return deltaOf(r.v.(*GSet[string]).Add(x)), elems{x: true}
		}})
	}
	return s
}

func vectorSubject() *subject {
	s := &subject{
		name:  "VersionVector",
		fresh: func() Value { return &VersionVector{} },
		know:  plainFacts(func() facts { return highs{} }),
		view: func(v Value) string {
			out := highs{}
			for n, k := range v.(*VersionVector).All() {
				out[n] = k
			}
			return out.view()
		},
	}
	for _, d := range []Dot{{1000, 1}, {1000, 2}, {2000, 5}, {3000, 1}} {
		s.ops = append(s.ops, op{fmt.Sprint("observe ", d), func(w *world, r *replica) (Value, facts) {
			r.know.join(highs{d.Node: d.Seq})
			return deltaOf(r.v.(*VersionVector).Observe(d)), highs{d.Node: d.Seq}
		}})
	}
	return s
}
