package replication

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/internal/testsize"
	"github.com/peerage-go/peerage/replicator"
)

// setBy sets or deletes an entry of a map under a stamp of the clock that the core takes
// for right.
func setBy(id gossip.NodeID, key, entry, value string) operation.Op {
	return operation.Op{Key: key, Kind: crdt.KindLWWMap, Plan: func(crdt.Value) (operation.Plan, error) {
		return operation.Plan{Growth: 64, Blind: true, Entries: []string{entry}, Stamped: func(v crdt.Value, above []uint64, wall uint64) crdt.Value {
			at := crdt.Stamp{Time: max(above[0]+1, wall<<tickBits), Node: crdt.NodeID(id)}
			d := (*entryMap)(nil)
			if m := v.(*entryMap); value == "" {
				d = m.Delete(entry, at)
			} else {
				d = m.Set(entry, value, at)
			}
			if d == nil {
				return nil
			}
			return d
		}}, nil
	}}
}

// clockedDisks are nodes with files and clocks.
type clockedDisks struct {
	*disks
	// jumped is by how much all clocks are ahead of the right time.
	jumped time.Duration
}

func newClockedDisks(t testing.TB, seed uint64, n int) *clockedDisks {
	d := &clockedDisks{}
	w := newWorld(t, seed, 0, func(c *Config) {
		c.PruneEvery, c.Retain = 20*time.Millisecond, testRetain
		c.Keep = func(key string) bool { return key != "memory" }
		c.Wall = func() uint64 { return d.clock() }
	})
	d.disks = &disks{world: w, files: map[int]*simFile{}, at: map[int]gossip.NodeID{}, next: 10, lives: 1}
	for slot := range n {
		d.files[slot] = &simFile{}
	}
	return d
}

func (d *clockedDisks) clock() uint64 {
	if d.disks == nil {
		return wall2026
	}
	return wall2026 + millis(d.now.Sub(0)) + uint64(d.jumped/time.Millisecond)
}

// playEras is a random run in which all clocks jump while nodes, or all of them, are down,
// and files come back late. Each acknowledged write must stand above all before it.
func playEras(t testing.TB, seed uint64) (wrong string) {
	rng := rand.New(rand.NewPCG(seed, 1))
	d := newClockedDisks(t, seed, 3)
	d.boot(0, 1, 2)
	want := map[string]string{}
	slots := func() (up, down []int) {
		for slot := range 3 {
			if d.at[slot] != 0 {
				up = append(up, slot)
			} else {
				down = append(down, slot)
			}
		}
		return up, down
	}
	write := func(n int) string {
		up, _ := slots()
		slot, value := up[rng.IntN(len(up))], fmt.Sprint(n)
		id, entry := d.at[slot], string(rune('a'+rng.IntN(3)))
		key, op := "r", stampBy(id, "r", value)
		switch rng.IntN(4) {
		case 0:
			key, value = "m/"+entry, ""
			op = setBy(id, "m", entry, "")
		case 1, 2:
			key, op = "m/"+entry, setBy(id, "m", entry, value)
		}
		if r := d.reply(id, d.update(id, majority, replicator.Fence{}, op)); r.Err != nil {
			return fmt.Sprintf("seed %d: write %d of %s at %v: %v", seed, n, key, id, r.Err)
		}
		want[key] = value
		return ""
	}
	backward := 0
	for n := range 60 {
		switch up, down := slots(); rng.IntN(8) {
		case 0: // one stops
			if len(up) > 2 {
				d.stop(up[rng.IntN(len(up))])
			}
		case 1: // one comes back
			if len(down) > 0 {
				d.boot(down[0])
			}
		case 2: // all stop; clocks jump; those that went on longest start, the others maybe later
			d.settle(10 * time.Second)
			d.stop(up...)
			back := rng.IntN(2) == 0 && backward < eraMax
			if jump := time.Duration(rng.IntN(90*24)) * time.Hour; back {
				d.jumped -= jump
				backward++
			} else {
				d.jumped += jump
			}
			d.boot(up...)
		}
		d.run(time.Duration(rng.IntN(2000)) * time.Millisecond)
		if wrong := write(n); wrong != "" {
			return wrong
		}
	}
	if _, down := slots(); len(down) > 0 {
		d.boot(down...)
	}
	d.settle(20 * time.Second)
	for slot := range 3 {
		c := d.core(slot)
		if v, _ := registerIn(c, "r"); v != want["r"] {
			return fmt.Sprintf("seed %d: node %d shows write %q of the register, not %q", seed, slot, v, want["r"])
		}
		m, _ := c.Value("m").(*entryMap)
		for _, entry := range []string{"a", "b", "c"} {
			got := ""
			if m != nil {
				got, _ = m.Get(entry)
			}
			if got != want["m/"+entry] {
				return fmt.Sprintf("seed %d: node %d shows write %q of entry %s, not %q", seed, slot, got, entry, want["m/"+entry])
			}
		}
	}
	return ""
}

// All clocks jump while nodes are down, also back by months, and files of nodes that were
// away come late: each write at Majority is made, and stands above all that was acknowledged
// before it.
func TestErasWithFilesAndClocksThatJump(t *testing.T) {
	t.Parallel()
	seeds := uint64(testsize.Runs(25, 40, 100))
	if wrong := playSeeds(t, seeds, playEras); wrong != "" {
		t.Fatal(wrong)
	}
}

// jumpingFiles plays the runs of TestErasWithFilesAndClocksThatJump.
func jumpingFiles(seeds uint64) scenario {
	return func(t *testing.T) string { return playSeeds(t, seeds, playEras) }
}

// Lifting keeps the order of stamps, and moves each below all stamps of the next era.
func TestLiftKeepsTheOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	part := func() uint64 { return rng.Uint64() >> (1 + rng.IntN(63)) }
	stamps := []crdt.Stamp{{Time: timeMax - 1, Node: 1<<64 - 1, Seq: 1 << 55}}
	for range 300 {
		s := crdt.Stamp{Time: part(), Node: crdt.NodeID(part()), Seq: part() << eraBits}
		stamps = append(stamps, s, crdt.Stamp{Time: s.Time + 1, Node: s.Node, Seq: s.Seq}, crdt.Stamp{Time: s.Time, Node: s.Node + 1, Seq: s.Seq})
	}
	slices.SortFunc(stamps, crdt.Stamp.Compare)
	for i, s := range stamps {
		if i > 0 && lift(s, 1).Compare(lift(stamps[i-1], 1)) != s.Compare(stamps[i-1]) {
			t.Fatalf("%+v and %+v change their order", stamps[i-1], s)
		}
		for eras := range uint8(eraMax + 1) {
			if got := lift(s, eras); got.Time != liftTime(s.Time, eras) || eras > 0 && got.Time >= eraTimes {
				t.Fatalf("%+v becomes %+v after %d eras", s, got, eras)
			}
		}
		if back := lower(lift(s, 1), 1); back != s {
			t.Fatalf("%+v comes back as %+v", s, back)
		}
	}
}

// eraWhileOthersWrite: a write to another entry that is acknowledged while a member begins an
// era is not lost, and a stamp of the caller's below one that was lifted fails.
func eraWhileOthersWrite(t *testing.T) string {
	wall := uint64(wall2026)
	w := newWorld(t, 1, 3, func(c *Config) {
		c.NoStream, c.NoGossip, c.SpreadMax = true, true, time.Minute
		c.Wall = func() uint64 { return wall }
	})
	var wrong error
	do := func(id gossip.NodeID, level replicator.Level, op operation.Op) {
		wrong = errors.Join(wrong, w.reply(id, w.update(id, level, replicator.Fence{}, op)).Err)
	}
	w.pairs([2]gossip.NodeID{2, 3})
	do(3, majority, setBy(3, "m", "ahead", "before"))
	do(3, majority, setBy(3, "m", "over", "before"))
	ahead := wall << tickBits
	wall -= millis(24 * time.Hour)
	do(3, majority, setBy(3, "receives a clock", "", "v"))
	do(3, replicator.Local, setBy(3, "m", "over", "after"))
	w.pairs([2]gossip.NodeID{1, 2})
	do(1, majority, setBy(1, "m", "new", "of era 0"))
	if a, b := w.nodes[2].core.store.itemOf("m").era, w.nodes[3].core.store.itemOf("m").era; wrong == nil && (a != 0 || b != 1) {
		return fmt.Sprintf("eras %d and %d", a, b)
	}
	w.pairs([2]gossip.NodeID{1, 3})
	at := crdt.Stamp{Time: wall << tickBits, Node: 1}
	fixed := operation.Op{Key: "m", Kind: crdt.KindLWWMap, Plan: func(crdt.Value) (operation.Plan, error) {
		return operation.Plan{Growth: 64, Blind: true, Fixed: []operation.Fixed{{Entry: "ahead", Stamp: at, Value: "late"}}, Apply: func(v crdt.Value) crdt.Value {
			return v.(*entryMap).Set("ahead", "late", at)
		}}, nil
	}}
	var stale *replicator.Error
	if r := w.reply(1, w.update(1, majority, replicator.Fence{}, fixed)); !errors.As(r.Err, &stale) || stale.Code != replicator.ErrStale || stale.Stamp.Time != ahead || stale.Node != 3 {
		wrong = errors.Join(wrong, fmt.Errorf("a stamp below the one that was lifted: %v", r.Err))
	}
	w.cut = nil
	for range 2 {
		for _, id := range w.order {
			w.reply(id, w.read(id, replicator.All, replicator.Fence{}, "m"))
		}
	}
	for _, id := range w.order {
		for _, c := range [][2]string{{"ahead", "before"}, {"over", "after"}, {"new", "of era 0"}} {
			if got, _ := w.nodes[id].core.Value("m").(*entryMap).Get(c[0]); got != c[1] {
				wrong = errors.Join(wrong, fmt.Errorf("node %v has %q under %s, not %q", id, got, c[0], c[1]))
			}
		}
	}
	if wrong != nil {
		return wrong.Error()
	}
	return ""
}

// A replica that has just loaded its file begins an era for a write that changes nothing. The
// content of the file is no change of its own: it is set aside with the file, and is sent to no
// member.
func TestAnEraOnAFreshReplicaBringsNothingBack(t *testing.T) {
	wall := uint64(wall2026)
	c := New(Config{Self: 1, Keep: func(string) bool { return true }, Wall: func() uint64 { return wall }})
	v, _ := crdt.New(crdt.KindLWWMap)
	v.(*entryMap).Set("deleted meanwhile", "old", crdt.Stamp{Time: (wall + millis(24*time.Hour)) << tickBits, Node: 9})
	if err := c.Restore([]Item{{Key: "m", Kind: crdt.KindLWWMap, Bytes: v.Append(nil)}}); err != nil {
		t.Fatal(err)
	}
	c.Recall(1, Memory{})
	out := &Effects{}
	step := func(ev Event) { c.Step(2, ev, out) }
	step(ViewChanged{View: &gossip.View{Epoch: gossip.FirstEpoch(1), Members: []gossip.Member{member(1, gossip.Up), member(2, gossip.Up), member(3, gossip.Up)}}})
	step(Received{From: 2, Msg: &Status{Epoch: gossip.FirstEpoch(1), Wall: wall, Fresh: true}})
	idle := operation.Op{Key: "m", Kind: crdt.KindLWWMap, Plan: func(crdt.Value) (operation.Plan, error) {
		return operation.Plan{Entries: []string{"deleted meanwhile"}, Stamped: func(crdt.Value, []uint64, uint64) crdt.Value { return nil }}, nil
	}}
	step(Update{ID: 1, Level: replicator.Local, Ops: []operation.Op{idle}})
	if c.Stats().Eras != 1 || !c.barrier.fresh {
		t.Fatalf("%d eras, fresh %v", c.Stats().Eras, c.barrier.fresh)
	}
	if n := c.stream.log.last(); n != 0 {
		t.Errorf("%d own entries: %+v", n, c.stream.log.entries[0].Items)
	}
	step(Received{From: 3, Msg: &Status{Epoch: gossip.FirstEpoch(1), Wall: wall, Sweep: sweepsKept + 1}})
	if !out.SetAside || c.Value("m") != nil {
		t.Errorf("set aside: %v, and then there is %v", out.SetAside, c.Value("m"))
	}
}

// Behind the last era a write fails as before, and nothing is changed.
func TestErasEnd(t *testing.T) {
	wall := uint64(wall2026)
	w := newWorld(t, 1, 1, func(c *Config) { c.Wall = func() uint64 { return wall } })
	for era := range eraMax + 2 {
		r := w.reply(1, w.update(1, majority, replicator.Fence{}, stampBy(1, "r", fmt.Sprint(era))))
		if last := era > eraMax; errors.Is(r.Err, replicator.ErrStamp) != last || !last && r.Err != nil {
			t.Fatalf("write in era %d: %v", era, r.Err)
		}
		wall -= millis(time.Hour)
	}
	if v, _ := registerIn(w.nodes[1].core, "r"); v != fmt.Sprint(eraMax) || w.nodes[1].core.Stats().Eras != eraMax {
		t.Errorf("%q after %d eras", v, w.nodes[1].core.Stats().Eras)
	}
	if err := w.nodes[1].core.values.mergeItem(nil, &Item{Key: "x", Era: eraMax + 1, Kind: crdt.KindLWWRegister, Bytes: crdt.NewLWWRegister[string](nil).Append(nil)}, nil); err == nil {
		t.Error("an era beyond the last one was taken")
	}
}
