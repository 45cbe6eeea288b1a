package crdt

import (
	"bytes"
	"fmt"
	"testing"
)

func TestSmoke(t *testing.T) {
	var a, b ORSet[string]
	for i := range 3000 {
		d := a.Add(7, fmt.Sprint("e", i))
		b.Merge(d, nil)
	}
	for i := range 1500 {
		if d := b.Remove(fmt.Sprint("e", i*2)); i%3 > 0 {
			a.Join(d)
		}
	}
	b.Add(9, "x")
	a.Add(8, "x")
	c := a.Clone().(*ORSet[string])
	a.Merge(&b, nil)
	b.Merge(c, nil)
	if a.Digest() != b.Digest() || !bytes.Equal(a.Append(nil), b.Append(nil)) || a.Len() != 1501 {
		t.Fatal(a.Len(), b.Len())
	}
	v, err := Decode(KindORSet, a.Append(nil))
	if err != nil || v.Digest() != a.Digest() {
		t.Fatal(err)
	}
	t.Log(len(a.Append(nil)), a.Size())
	var m, n LWWMap[string, string]
	for i := range 3000 {
		n.Merge(m.Set(fmt.Sprint("k", i), "v", Stamp{uint64(i), 3, 1}), nil)
	}
	for i := range 100 {
		n.Delete(fmt.Sprint("k", i), Stamp{uint64(i), 3, 2})
	}
	m.Merge(&n, nil)
	if m.Digest() != n.Digest() || !bytes.Equal(m.Append(nil), n.Append(nil)) || m.Len() != 2900 {
		t.Fatal(m.Len(), n.Len())
	}
	v, err = Decode(KindLWWMap, m.Append(nil))
	if err != nil || v.Digest() != m.Digest() {
		t.Fatal(err)
	}
}
