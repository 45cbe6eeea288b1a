package crdt

import (
	"slices"

	"github.com/peerage-go/peerage/internal/crdt/canonical"
)

// Place is a place in an ORMap, named by a path of keys. It holds no content: its
// methods read and change the map. Mutators return the delta of the map, or
// nil if nothing changed; only the incarnation node itself may pass its name.
type Place[K, V comparable] struct {
	m    *ORMap[K, V]
	path []K
}

// At names a place further down.
func (p Place[K, V]) At(path ...K) Place[K, V] {
	return Place[K, V]{p.m, slices.Concat(p.path, path)}
}

// Set replaces the values of the register here with v.
func (p Place[K, V]) Set(node NodeID, v V) *ORMap[K, V] {
	if !p.valid() {
		return nil
	}
	now := p.leaf(fieldRegister)
	now.val = v
	return p.m.replaceLeaves(node, now, p.leaves(fieldRegister)...)
}

// Unset takes out the values of the register here.
func (p Place[K, V]) Unset() *ORMap[K, V] { return p.m.eraseLeaves(p.leaves(fieldRegister)...) }

// Values returns the values of the register here: none, one, or those that were
// set at the same time.
func (p Place[K, V]) Values() []V { return p.vals(fieldRegister) }

// Add puts v into the set here.
func (p Place[K, V]) Add(node NodeID, v V) *ORMap[K, V] {
	if !p.valid() {
		return nil
	}
	now := p.leaf(fieldElement)
	now.val = v
	return p.m.replaceLeaves(node, now)
}

// Discard takes v out of the set here.
func (p Place[K, V]) Discard(v V) *ORMap[K, V] {
	if !p.Has(v) {
		return nil
	}
	old := p.leaf(fieldElement)
	old.val = v
	return p.m.eraseLeaves(old)
}

// Has reports whether v is in the set here.
func (p Place[K, V]) Has(v V) bool {
	if !p.valid() {
		return false
	}
	e := p.leaf(fieldElement)
	e.val = v
	return p.m.set.Contains(e)
}

// Elements returns the elements of the set here, in no particular order.
func (p Place[K, V]) Elements() []V { return p.vals(fieldElement) }

// Increment counts n at the counter here, up or down.
func (p Place[K, V]) Increment(node NodeID, n int64) *ORMap[K, V] {
	if !p.valid() {
		return nil
	}
	now := p.leaf(fieldCounter)
	now.node = node
	var old []leaf[V]
	for _, e := range p.leaves(fieldCounter) {
		if e.node == node {
			old = append(old, e)
			now.born, now.inc, now.dec = e.born, e.inc, e.dec
		}
	}
	if len(old) == 0 {
		now.born = p.m.asSet().grown().peek(node)
	}
	if n >= 0 {
		now.inc += uint64(n)
	} else {
		now.dec += uint64(-n)
	}
	return p.m.replaceLeaves(node, now, old...)
}

// Count returns the count of the counter here.
func (p Place[K, V]) Count() int64 {
	return total(p.leaves(fieldCounter), func(e *leaf[V]) part { return part{e.node, e.born, e.inc, e.dec} })
}

// Enable switches the flag here on.
func (p Place[K, V]) Enable(node NodeID) *ORMap[K, V] {
	if !p.valid() {
		return nil
	}
	return p.m.replaceLeaves(node, p.leaf(fieldFlag))
}

// Disable switches the flag here off.
func (p Place[K, V]) Disable() *ORMap[K, V] { return p.m.eraseLeaves(p.leaves(fieldFlag)...) }

// Enabled reports whether the flag here is on.
func (p Place[K, V]) Enabled() bool { return len(p.leaves(fieldFlag)) > 0 }

// Remove takes out all that is here and further down.
func (p Place[K, V]) Remove() *ORMap[K, V] {
	b := p.branch()
	if b == nil {
		return nil
	}
	return p.m.eraseLeaves(b.all(nil)...)
}

// Exists reports whether anything is here or further down.
func (p Place[K, V]) Exists() bool { return p.branch() != nil }

// Keys returns the keys of the map here, in no particular order.
func (p Place[K, V]) Keys() []K {
	if b := p.branch(); b != nil {
		return b.keys()
	}
	return nil
}

func (p Place[K, V]) valid() bool { return len(p.path) > 0 && len(p.path) <= PlaceDepthMax }

func (p Place[K, V]) branch() *branch[K, V] {
	if !p.valid() {
		return nil
	}
	b, _ := p.m.indexByKey().GetContent(p.path[0])
	for i := 1; b != nil && i < len(p.path); i++ {
		b = b.kids[p.path[i]]
	}
	return b
}

// leaf returns a leaf of this place.
func (p Place[K, V]) leaf(f field) leaf[V] {
	p.m.asSet()
	b := canonical.AppendArrayLen(nil, len(p.path))
	for _, k := range p.path {
		b = p.m.keys.codec.Append(b, k)
	}
	return leaf[V]{path: string(b), field: f}
}

// leaves returns a copy of the leaves of one field here.
func (p Place[K, V]) leaves(f field) []leaf[V] {
	if b := p.branch(); b != nil {
		return slices.Clone(b.groups[f].vals)
	}
	return nil
}

func (p Place[K, V]) vals(f field) (out []V) {
	for _, e := range p.leaves(f) {
		out = append(out, e.val)
	}
	return out
}
