package replication

import (
	"errors"
	"slices"
	"testing"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/replicator"
)

// seen is an op that adds an element to a set, and notes the elements that it was applied to.
func seen(key, e string, blind bool, saw *[]string) operation.Op {
	return operation.Op{Key: key, Kind: crdt.KindORSet, Plan: func(crdt.Value) (operation.Plan, error) {
		return operation.Plan{Growth: 9, Blind: blind, Apply: func(v crdt.Value) crdt.Value {
			*saw = elements(v)
			return v.(*crdt.ORSet[string]).Add(1, e)
		}}, nil
	}}
}

// updateFrom begins an update at level Local whose plans were decided on snapshots.
func (s *single) updateFrom(bases []*Snapshot, ops ...operation.Op) *Effects {
	s.t.Helper()
	s.ids++
	return s.do(Update{ID: s.ids, Ops: ops, Bases: bases, Level: replicator.Local})
}

// TestPlansOfSnapshots checks when a plan that was decided on a snapshot is applied: to the value
// itself if the key has not changed or the plan is blind, to the snapshot if only changes of peers
// were merged since, and not at all if the key was changed, deleted or made here.
func TestPlansOfSnapshots(t *testing.T) {
	merge := func(s *single) { s.receive(2, &Repair{Items: []Item{setItem("k", 2, "merged")}}) }
	for name, c := range map[string]struct {
		blind, none bool
		between     func(s *single)
		saw, has    []string // nil if it is contended
	}{
		"nothing":                        {between: func(*single) {}, saw: []string{"first"}, has: []string{"first", "new"}},
		"another key":                    {between: func(s *single) { s.put("l", "e") }, saw: []string{"first"}, has: []string{"first", "new"}},
		"a merge":                        {between: merge, saw: []string{"first"}, has: []string{"first", "merged", "new"}},
		"a merge, a blind plan":          {blind: true, between: merge, saw: []string{"first", "merged"}, has: []string{"first", "merged", "new"}},
		"a change":                       {between: func(s *single) { s.put("k", "own") }},
		"a change, a blind plan":         {blind: true, between: func(s *single) { s.put("k", "own") }, saw: []string{"first", "own"}, has: []string{"first", "new", "own"}},
		"a change, then a merge":         {between: func(s *single) { s.put("k", "own"); merge(s) }},
		"a deletion":                     {between: func(s *single) { s.deleteKey("k") }},
		"a deletion by a peer":           {between: func(s *single) { s.receive(2, &Repair{Items: []Item{{Key: "k", Gen: 2}}}) }},
		"no key, nothing":                {none: true, between: func(*single) {}, saw: []string{}, has: []string{"new"}},
		"no key, it was made here":       {none: true, between: func(s *single) { s.put("k", "own") }},
		"no key, it was made by a peer":  {none: true, between: merge},
		"no key, made here, a blind one": {none: true, blind: true, between: func(s *single) { s.put("k", "own") }, saw: []string{"own"}, has: []string{"new", "own"}},
	} {
		s := newSingle(t, 3, func(c *Config) { c.NoGossip, c.NoStream = true, true })
		if !c.none {
			s.put("k", "first")
		}
		base := s.Snapshot("k")
		c.between(s)
		print := s.store.print("k")
		var saw []string
		out := s.updateFrom([]*Snapshot{base}, seen("k", "new", c.blind, &saw))
		if err := out.Reply[0].Err; errors.Is(err, replicator.ErrContended) != (c.has == nil) || c.has != nil && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !base.released || base.pins != nil && base.pins.n != 0 {
			t.Errorf("%s: the snapshot is not released", name)
		}
		if c.has == nil {
			if s.store.print("k") != print || saw != nil {
				t.Errorf("%s: the key is changed all the same", name)
			}
			continue
		}
		if slices.Sort(saw); !slices.Equal(saw, c.saw) || !slices.Equal(elements(s.Value("k")), c.has) {
			t.Errorf("%s: applied to %v, and the key has %v", name, saw, elements(s.Value("k")))
		}
	}
}

// TestTwoPlansForOneKey checks that an update may have two plans for one key if the key is as it was
// in their snapshots, and is contended if a change was merged since: both would make the same dots.
func TestTwoPlansForOneKey(t *testing.T) {
	for _, merged := range []bool{false, true} {
		s := newSingle(t, 3, func(c *Config) { c.NoGossip = true })
		s.put("k", "first")
		s.put("l", "first")
		var saw, sawTwo, other []string
		bases := []*Snapshot{s.Snapshot("k"), s.Snapshot("l"), s.Snapshot("k")}
		if merged {
			s.receive(2, &Repair{Items: []Item{setItem("k", 2, "merged")}})
		}
		out := s.updateFrom(bases, seen("k", "a", false, &saw), seen("l", "b", false, &other), seen("k", "c", false, &sawTwo))
		if errors.Is(out.Reply[0].Err, replicator.ErrContended) != merged || len(elements(s.Value("l"))) != map[bool]int{true: 1, false: 2}[merged] {
			t.Errorf("merged %v: %v", merged, out.Reply[0].Err)
		}
		if slices.Sort(sawTwo); !merged && !slices.Equal(sawTwo, []string{"a", "first"}) {
			t.Errorf("the second plan is applied to %v", sawTwo)
		}
	}
	// Two keys that had merges each are no conflict.
	s := newSingle(t, 3, func(c *Config) { c.NoGossip = true })
	s.put("k", "first")
	s.put("l", "first")
	var saw []string
	bases := []*Snapshot{s.Snapshot("k"), s.Snapshot("l")}
	s.receive(2, &Repair{Items: []Item{setItem("k", 2, "merged"), setItem("l", 2, "merged")}})
	if out := s.updateFrom(bases, seen("k", "a", false, &saw), seen("l", "b", false, &saw)); out.Reply[0].Err != nil || len(elements(s.Value("l"))) != 3 {
		t.Errorf("%v, l has %v", out.Reply[0].Err, elements(s.Value("l")))
	}
}

// TestASnapshotKeepsItsValue checks that changes are made to a copy while a snapshot holds the value,
// once for each snapshot, and in place otherwise.
func TestASnapshotKeepsItsValue(t *testing.T) {
	for name, change := range map[string]func(s *single, e string){
		"own changes":      func(s *single, e string) { s.put("k", e) },
		"changes of peers": func(s *single, e string) { s.receive(2, &Repair{Items: []Item{setItem("k", 2, e)}}) },
	} {
		s := newSingle(t, 3, func(c *Config) { c.NoGossip = true })
		s.put("k", "first")
		v := s.Value("k")
		if change(s, "a"); s.Value("k") != v {
			t.Errorf("%s: copied without a snapshot", name)
		}
		one, two := s.Snapshot("k"), s.Snapshot("k")
		one.Release()
		one.Release() // ends one hold, not both
		had := elements(two.Value)
		change(s, "b")
		if copied := s.Value("k"); copied == v || !slices.Equal(elements(two.Value), had) {
			t.Errorf("%s: the value of a snapshot was changed to %v", name, elements(two.Value))
		}
		v = s.Value("k")
		if change(s, "c"); s.Value("k") != v {
			t.Errorf("%s: copied though the snapshot holds another value", name)
		}
		three := s.Snapshot("k")
		two.Release() // of the former value: three still holds
		had = elements(three.Value)
		if change(s, "d"); s.Value("k") == v || !slices.Equal(elements(three.Value), had) {
			t.Errorf("%s: the value of a later snapshot was changed to %v", name, elements(three.Value))
		}
		four := s.Snapshot("k")
		four.Release()
		v = s.Value("k")
		if change(s, "e"); s.Value("k") != v {
			t.Errorf("%s: copied after the release", name)
		}
		five := s.Snapshot("k")
		s.receive(2, &Repair{Items: []Item{setItem("k", 2, "e", "f")}})
		six := s.Snapshot("k")
		s.receive(2, &Repair{Items: []Item{setItem("k", 2, "e", "f", "g")}})
		idle := operation.Op{Key: "k", Kind: crdt.KindORSet}
		if s.updateFrom([]*Snapshot{five, six}, idle, deletion("k")); five.pins.n != 0 || six.pins.n != 0 {
			t.Errorf("%s: ops that are not applied to their snapshots hold them: %d and %d", name, five.pins.n, six.pins.n)
		}
		(*Snapshot)(nil).Release()
		s.Snapshot("none").Release()
		s.deleteKey("k")
		s.Snapshot("k").Release()
	}
}

// TestARefusedUpdateReleasesItsSnapshots checks that an update releases its snapshots at each way to
// fail: at its admission, by its plans, for mixed keys, and for a stamp that no write can exceed.
func TestARefusedUpdateReleasesItsSnapshots(t *testing.T) {
	far := crdt.Stamp{Time: timeMax - 1, Node: 2}
	for name, c := range map[string]struct {
		level replicator.Level
		ops   []operation.Op
		want  error
	}{
		"too few members": {replicator.To(9), []operation.Op{addTo(1, "k", "e")}, replicator.ErrTooFewMembers},
		"another kind":    {replicator.Local, []operation.Op{count(1, "k", 1)}, replicator.ErrKind},
		"mixed keys":      {replicator.Local, []operation.Op{addTo(1, "k", "e"), addTo(1, "kept", "e")}, replicator.ErrMixed},
		"no higher stamp": {replicator.Local, []operation.Op{stampRegister(1, "v")}, replicator.ErrStamp},
		"none, as it may": {replicator.Local, []operation.Op{addTo(1, "k", "e")}, nil},
	} {
		s := newSingle(t, 3, func(c *Config) { c.NoGossip, c.Keep = true, func(key string) bool { return key == "kept" } })
		s.put("k", "e")
		v, _ := crdt.New(crdt.KindLWWRegister)
		v.(*crdt.LWWRegister[string]).Set("far", far)
		if err := s.Restore([]Item{{Key: registerKey, Kind: v.Kind(), Bytes: v.Append(nil)}}); err != nil {
			t.Fatal(err)
		}
		s.ids++
		base := s.Snapshot(c.ops[0].Key)
		out := s.do(Update{ID: s.ids, Ops: c.ops, Bases: []*Snapshot{base}, Level: c.level})
		if len(out.Reply) != 1 || !errors.Is(out.Reply[0].Err, c.want) || base.pins.n != 0 {
			t.Errorf("%s: replies %+v, %d snapshots are held", name, out.Reply, base.pins.n)
		}
		if len(s.table.open) != 0 || len(s.table.timers) != 0 {
			t.Errorf("%s: leaves %d requests and %d timers", name, len(s.table.open), len(s.table.timers))
		}
	}
}

// TestUpdatesThatEndInTheirStepLeaveNothing checks that updates which end in their step leave neither a
// request nor a timer, which would wake the shell for nothing.
func TestUpdatesThatEndInTheirStepLeaveNothing(t *testing.T) {
	for name, c := range map[string]struct {
		level replicator.Level
		ops   []operation.Op
	}{
		"without ops":      {majority, nil},
		"local":            {replicator.Local, []operation.Op{addTo(1, "k", "e")}},
		"a local deletion": {replicator.Local, []operation.Op{deletion("k")}},
	} {
		s := newSingle(t, 3, func(c *Config) { c.NoGossip = true })
		if _, out := s.update(c.level, replicator.Fence{}, c.ops...); len(out.Reply) != 1 || out.Reply[0].Err != nil {
			t.Errorf("%s: replies %+v", name, out.Reply)
		}
		if len(s.table.open) != 0 || len(s.table.timers) != 0 {
			t.Errorf("%s: leaves %d requests and %d timers", name, len(s.table.open), len(s.table.timers))
		}
	}
}
