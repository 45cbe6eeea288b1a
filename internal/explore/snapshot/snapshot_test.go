package snapshot

import (
	"bytes"
	"reflect"
	"slices"
	"testing"
)

// machine and part form a core: parts refer to the environment and the table of their core.
type machine struct {
	env
	part  part
	table []cell
	named map[int]*cell
	any   any
	fixed *view
	stop  func()
}

type env struct {
	now int64
	seq uint64
}

type part struct {
	*env
	table []cell
	spare []int
}

type cell struct {
	token uint64
	nodes []int
}

type view struct{ members []int }

func newMachine() *machine {
	m := &machine{named: map[int]*cell{2: {token: 9}, 1: {token: 8, nodes: []int{4}}}, fixed: &view{members: []int{1}}}
	m.part.env, m.table = &m.env, []cell{{token: 1, nodes: []int{1, 2}}, {token: 2}}
	m.part.table, m.part.spare = m.table, make([]int, 0, 8)
	m.any = m.named[1]
	return m
}

func camera() *Camera {
	return New([]reflect.Type{reflect.TypeFor[*view]()}, []string{"github.com/peerage-go/peerage/internal/explore/snapshot.env.now"})
}

func TestACopyIsWholeAndApart(t *testing.T) {
	c, m := camera(), newMachine()
	before := slices.Clone(Append(c, nil, m))
	d := Copy(c, m)
	if got := Append(c, nil, d); !bytes.Equal(got, before) {
		t.Fatalf("the copy is %x, the original %x", got, before)
	}
	if d.part.env != &d.env || &d.part.table[0] != &d.table[0] || d.fixed != m.fixed {
		t.Error("a pointer within the copy leads elsewhere, or a shared value was copied")
	}
	if d.named[1] == m.named[1] || d.any.(*cell) != d.named[1] {
		t.Error("two ways to one cell lead to two, or to the original")
	}
	d.part.seq, d.table[0].nodes[1], d.named[1].nodes[0], d.part.spare = 7, 7, 7, append(d.part.spare, 7)
	d.table[1].nodes = append(d.table[1].nodes, 7)
	delete(d.named, 2)
	if got := Append(c, nil, m); !bytes.Equal(got, before) || m.part.spare[:1][0] == 7 {
		t.Error("a change of the copy changed the original")
	}
	if d.seq != 7 || d.part.table[0].nodes[1] != 7 {
		t.Error("a part of the copy does not share its core's fields")
	}
}

func TestEncodingsDifferIfAnyFieldDoes(t *testing.T) {
	c := camera()
	base := string(Append(c, nil, newMachine()))
	for name, change := range map[string]func(*machine){
		"embedded":  func(m *machine) { m.seq++ },
		"slice":     func(m *machine) { m.table[1].token++ },
		"nested":    func(m *machine) { m.table[0].nodes = m.table[0].nodes[:1] },
		"map":       func(m *machine) { m.named[2].token++ },
		"key":       func(m *machine) { m.named[3] = m.named[2]; delete(m.named, 2) },
		"interface": func(m *machine) { m.any = 5 },
		"alias":     func(m *machine) { m.any = &cell{token: 8, nodes: []int{4}} },
		"shared":    func(m *machine) { m.fixed = &view{members: []int{2}} },
	} {
		m := newMachine()
		if change(m); string(Append(c, nil, m)) == base {
			t.Errorf("%s: the encoding is the same", name)
		}
	}
	for name, change := range map[string]func(*machine){
		"skipped field":      func(m *machine) { m.now = 99 },
		"shared, elsewhere":  func(m *machine) { m.fixed = &view{members: []int{1}} },
		"empty, not nil":     func(m *machine) { m.table[1].nodes = []int{} },
		"capacity of slices": func(m *machine) { m.part.spare = nil },
	} {
		m := newMachine()
		if change(m); string(Append(c, nil, m)) != base {
			t.Errorf("%s: the encoding differs", name)
		}
	}
}

// A function may hold a pointer to the original: a copy with one is not apart.
func TestAFunctionIsNotCopied(t *testing.T) {
	m := newMachine()
	m.stop = func() {}
	defer func() {
		if recover() == nil {
			t.Error("a machine with a function was copied")
		}
	}()
	Copy(camera(), m)
}
