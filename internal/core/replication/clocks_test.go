package replication

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/internal/testsize"
	"github.com/peerage-go/peerage/replicator"
)

const (
	wall2026 = 1_795_305_600_000 // what right clocks show when a world begins
	century  = 73 * 365 * 24 * time.Hour
)

// dials are the wall clocks of a world: by how much they are ahead of the right time.
type dials struct {
	w     *world
	ahead map[gossip.NodeID]time.Duration
}

func (d *dials) right() uint64 { return wall2026 + millis(d.w.now.Sub(0)) }

// set gives a core its clock.
func (d *dials) set(c *Config) {
	c.Wall = func() uint64 {
		if d.w == nil {
			return 0
		}
		return d.right() + uint64(d.ahead[c.Self]/time.Millisecond)
	}
}

func (d *dials) tick(ahead time.Duration) uint64 {
	return (d.right() + uint64(ahead/time.Millisecond)) << tickBits
}

// clocked is a world in which cores have clocks.
func clocked(t testing.TB, seed uint64, n int, tweak func(*Config)) (*world, *dials) {
	d := &dials{ahead: map[gossip.NodeID]time.Duration{}}
	w := newWorld(t, seed, n, func(c *Config) {
		self := *c
		d.set(&self)
		c.Wall = self.Wall
		if tweak != nil {
			tweak(c)
		}
	})
	d.w = w
	return w, d
}

// stampBy writes a register under a stamp of the clock that the core takes for right.
func stampBy(id gossip.NodeID, key, value string) operation.Op {
	return operation.Op{Key: key, Kind: crdt.KindLWWRegister, Plan: func(crdt.Value) (operation.Plan, error) {
		return operation.Plan{Growth: 64, Blind: true, Entries: []string{""}, Stamped: func(v crdt.Value, above []uint64, wall uint64) crdt.Value {
			return v.(*crdt.LWWRegister[string]).Set(value, crdt.Stamp{Time: max(above[0]+1, wall<<tickBits), Node: crdt.NodeID(id)})
		}}, nil
	}}
}

// fixedIn writes a register under a stamp of the caller's.
func fixedIn(key, value string, at crdt.Stamp) operation.Op {
	return operation.Op{Key: key, Kind: crdt.KindLWWRegister, Plan: func(crdt.Value) (operation.Plan, error) {
		return operation.Plan{Growth: 64, Blind: true, Fixed: []operation.Fixed{{Stamp: at, Value: value}}, Apply: func(v crdt.Value) crdt.Value {
			if d := v.(*crdt.LWWRegister[string]).Set(value, at); d != nil {
				return d
			}
			return nil
		}}, nil
	}}
}

// writeUnchecked has a node make a change at a majority without looking at clocks.
func (w *world) writeUnchecked(id gossip.NodeID, op operation.Op) Reply {
	c := &w.nodes[id].core.cfg
	wall := c.Wall
	c.Wall = nil
	rid := w.update(id, majority, replicator.Fence{}, op)
	c.Wall = wall
	return w.reply(id, rid)
}

func registerIn(c *Core, key string) (string, crdt.Stamp) {
	r, ok := c.Value(key).(*crdt.LWWRegister[string])
	if !ok {
		return "", crdt.Stamp{}
	}
	v, _ := r.Value()
	return v, r.Stamp()
}

// playClocks is a random run in which one clock jumps by up to a century.
func playClocks(t testing.TB, seed uint64) string {
	lazy := func(c *Config) {
		if seed%2 == 0 {
			c.NoStream, c.SpreadMax, c.ResendAfter = true, time.Minute, 400*time.Millisecond
		}
	}
	w, d := clocked(t, seed, 3+int(seed%3), lazy)
	h := &history{campaign: &campaign{world: w, o: oracle{}, nextID: 10}, open: map[gossip.NodeID]int{}}
	wrong := ""
	fail := func(format string, args ...any) {
		if wrong == "" {
			wrong = fmt.Sprintf("seed %d: ", seed) + fmt.Sprintf(format, args...)
		}
	}
	h.stamp = func(id gossip.NodeID, value string) operation.Op { return stampBy(id, registerKey, value) }
	h.answered = func(id gossip.NodeID, r Reply) {
		if errors.Is(r.Err, replicator.ErrStamp) || errors.Is(r.Err, replicator.ErrAhead) {
			fail("a write at node %v, whose clock is %v ahead: %v", id, d.ahead[id], r.Err)
		}
	}
	h.afterStep = func(n *simNode) {
		for _, key := range []string{registerKey, "local"} {
			if _, s := registerIn(n.core, key); d.ahead[n.id] == 0 && tooFar(s.Time, d.right()+1000) {
				fail("node %v, whose clock is right, holds a stamp of %s of writer %d", n.id, clock.ShowMillis(s.Time>>tickBits), s.Node)
			}
		}
	}
	h.drop, h.dup = 0.05*float64(seed%4), 0.05
	h.delayMax = time.Duration(1+h.rng.IntN(5)) * time.Millisecond
	odd := h.order[h.rng.IntN(len(h.order))]
	jumps := []time.Duration{0, century, -20 * 365 * 24 * time.Hour, 2 * time.Minute, -2 * time.Minute, 10 * time.Second}
	for range 120 {
		switch k := h.rng.IntN(16); {
		case k < 5:
			h.write()
		case k < 9:
			h.readBack()
		case k < 11:
			id := h.order[h.rng.IntN(len(h.order))]
			h.update(id, replicator.Local, replicator.Fence{}, stampBy(id, "local", fmt.Sprint(h.rng.Int())))
		case k < 13:
			d.ahead[odd] = jumps[h.rng.IntN(len(jumps))]
		case k < 14:
			h.change()
		default:
			h.fault()
		}
		h.run(time.Duration(h.rng.IntN(25)) * time.Millisecond)
	}
	h.cut, h.drop = nil, 0
	d.ahead[odd] = 0
	for range 600 {
		if h.run(time.Second); h.converged() {
			break
		}
	}
	if !h.converged() {
		stamps := ""
		for _, id := range h.order {
			_, r := registerIn(h.nodes[id].core, registerKey)
			_, l := registerIn(h.nodes[id].core, "local")
			stamps += fmt.Sprintf("%v: register %s, local %s of %v\n", id, clock.ShowMillis(r.Time>>tickBits), clock.ShowMillis(l.Time>>tickBits), gossip.NodeID(l.Node))
		}
		fail("replicas differ (clock of %v, right time %s):\n%s%s", odd, clock.ShowMillis(d.right()), stamps, h.states())
	}
	if res := porcupine.CheckOperationsTimeout(registerModel, h.decided(), 20*time.Second); res != porcupine.Ok {
		fail("%s", res)
	}
	return wrong
}

// A clock that jumps by up to a century, with faults and changes of the view: writes at
// Majority are linearizable, those whose clocks are right never hold a stamp of the future,
// no write is refused for its stamp, and all come out equal.
func TestClocksThatJump(t *testing.T) {
	t.Parallel()
	seeds := uint64(testsize.Runs(20, 25, 60))
	if wrong := playSeeds(t, seeds, playClocks); wrong != "" {
		t.Fatal(wrong)
	}
}

// jumpingClocks plays the runs of TestClocksThatJump.
func jumpingClocks(seeds uint64) scenario {
	return func(t *testing.T) string { return playSeeds(t, seeds, playClocks) }
}

// playSeeds plays seeds from 0 on and returns the first violation, "" if there is none.
func playSeeds(t testing.TB, seeds uint64, play func(testing.TB, uint64) string) string {
	for seed := range seeds {
		if wrong := play(t, seed); wrong != "" {
			return wrong
		}
	}
	return ""
}

// centuryFromWriter: a writer that does not look at clocks sends what is of 2099; others
// neither apply it nor count for it, whatever else it sends with it.
func centuryFromWriter(t *testing.T) string {
	w, d := clocked(t, 1, 3, nil)
	w.run(time.Second)
	w.update(3, replicator.Local, replicator.Fence{}, stampBy(3, "good", "v"))
	at := crdt.Stamp{Time: d.tick(century), Node: 3}
	r := w.writeUnchecked(3, fixedIn("k", "2099", at))
	w.run(5 * time.Second)
	var ahead *replicator.Error
	switch v, _ := registerIn(w.nodes[1].core, "k"); {
	case v != "":
		return "a stamp of 2099 was applied at another node"
	case !errors.As(r.Err, &ahead) || ahead.Code != replicator.ErrAhead || !errors.Is(r.Err, replicator.ErrOutcomeUnknown) || ahead.Node == 3:
		return fmt.Sprintf("its writer was told: %v", r.Err)
	}
	if v, _ := registerIn(w.nodes[1].core, "good"); v != "v" || w.nodes[1].core.Stats().Ahead == 0 {
		return "the rest was not applied, or nothing was counted"
	}
	for _, id := range []gossip.NodeID{1, 2} {
		if r := w.reply(id, w.update(id, majority, replicator.Fence{}, stampBy(id, "k", fmt.Sprint(int(id))))); r.Err != nil {
			return fmt.Sprint(r.Err)
		}
	}
	if v, _ := registerIn(w.nodes[2].core, "k"); v != "2" {
		return fmt.Sprintf("%q stands", v)
	}
	return ""
}

// aloneIn2099: a node alone, whose clock stands in 2099, writes; other nodes join. Its entries
// stay, under stamps of the present, and the other nodes write over them.
func aloneIn2099(t *testing.T) string {
	w, d := clocked(t, 1, 1, nil)
	d.ahead[1] = century
	for i := range 3 {
		if r := w.reply(1, w.update(1, majority, replicator.Fence{}, stampBy(1, fmt.Sprint("k", i), "alone"))); r.Err != nil {
			return fmt.Sprint(r.Err)
		}
	}
	mapped := operation.Op{Key: "m", Kind: crdt.KindLWWMap, Plan: func(crdt.Value) (operation.Plan, error) {
		return operation.Plan{Entries: []string{"a", "b"}, Stamped: func(v crdt.Value, above []uint64, wall uint64) crdt.Value {
			delta := v.(*entryMap).Set("a", "v", crdt.Stamp{Time: wall << tickBits, Node: 1, Seq: 1})
			delta.Merge(v.(*entryMap).Delete("b", crdt.Stamp{Time: wall << tickBits, Node: 1, Seq: 2}), nil)
			return delta
		}}, nil
	}}
	w.reply(1, w.update(1, majority, replicator.Fence{}, mapped))
	w.start(2)
	w.start(3)
	from := w.now
	w.dropKind = func(m Message) bool {
		_, status := m.(*Status)
		return status && w.now.Sub(from) < 200*time.Millisecond
	}
	w.setView(w.next(add(gossip.Up, 2, 3)))
	w.update(1, replicator.Local, replicator.Fence{}, stampBy(1, "late", "not alone, and nothing received"))
	w.run(2 * time.Second)
	w.settle(5 * time.Second)
	for i := range 3 {
		key := fmt.Sprint("k", i)
		if v, s := registerIn(w.nodes[2].core, key); v != "alone" || tooFar(s.Time, d.right()) {
			return fmt.Sprintf("%q of %s stands", v, clock.ShowMillis(s.Time>>tickBits))
		}
		if r := w.reply(2, w.update(2, majority, replicator.Fence{}, stampBy(2, key, "over"))); r.Err != nil {
			return fmt.Sprint(r.Err)
		}
	}
	w.settle(5 * time.Second)
	if v, _ := registerIn(w.nodes[1].core, "k0"); v != "over" {
		return fmt.Sprintf("%q stands in the end", v)
	}
	if v, _ := w.nodes[3].core.Value("m").(*entryMap).Get("a"); v != "v" {
		return "an entry of a map is gone"
	}
	if n := w.nodes[2].core.Stats().Ahead + w.nodes[3].core.Stats().Ahead; n > 0 {
		return fmt.Sprintf("%d entries of 2099 have travelled", n)
	}
	return ""
}

// A replica that has received no other clock may have entries of 2099. It offers no entry to
// the members that a request waits for, and sends all of them as soon as it has received one.
func TestAMutedReplicaSendsNoEntries(t *testing.T) {
	w, d := clocked(t, 1, 1, func(c *Config) { c.ResendAfter, c.SpreadMax, c.NoGossip = time.Minute, time.Minute, true })
	d.ahead[1] = century
	w.reply(1, w.update(1, majority, replicator.Fence{}, stampBy(1, "k", "alone")))
	w.start(2)
	w.start(3)
	sent := 0
	w.dropKind = func(m Message) bool {
		if _, is := m.(*Deltas); is {
			sent++
		}
		return false
	}
	w.setView(w.next(add(gossip.Up, 2, 3)))
	write := w.update(1, majority, replicator.Fence{}, addTo(1, "set", "e"))
	w.run(time.Second)
	if sent > 0 {
		t.Errorf("%d messages with entries before a clock was received", sent)
	}
	w.step(1, Received{From: 2, Msg: &Status{Epoch: w.nodes[2].core.members.epoch, Wall: d.right()}})
	w.run(100 * time.Millisecond)
	if r, ended := w.nodes[1].replies[write]; !ended || r.Err != nil {
		t.Errorf("ended: %v, %v", ended, r.Err)
	}
	if _, s := registerIn(w.nodes[2].core, "k"); tooFar(s.Time, d.right()) || s.Time == 0 {
		t.Errorf("node 2 holds the stamp %s", clock.ShowMillis(s.Time>>tickBits))
	}
}

// One that was admitted elsewhere is merged, wherever it comes from: replicas come out equal.
func TestAdmittedByOneIsTakenByAll(t *testing.T) {
	w, d := clocked(t, 1, 3, nil)
	d.ahead[2], d.ahead[3] = century, century // they vouch for each other
	w.cut = func(a, b gossip.NodeID) bool { return a == 1 || b == 1 }
	w.writeUnchecked(3, fixedIn("k", "2099", crdt.Stamp{Time: d.tick(century), Node: 3}))
	if v, _ := registerIn(w.nodes[2].core, "k"); v != "2099" {
		t.Fatal("not admitted by a node of the same time")
	}
	w.cut = nil
	d.ahead[2], d.ahead[3] = 0, 0
	w.settle(10 * time.Second)
	if v, _ := registerIn(w.nodes[1].core, "k"); v != "2099" {
		t.Fatalf("%q stands at a node whose clock is right", v)
	}
	for id, level := range map[gossip.NodeID]replicator.Level{1: replicator.Local, 2: majority} {
		value := fmt.Sprint(level)
		if r := w.reply(id, w.update(id, level, replicator.Fence{}, stampBy(id, "k", value))); r.Err != nil {
			t.Errorf("%v: %v", level, r.Err)
		}
		w.settle(5 * time.Second)
		for _, other := range w.order {
			if v, s := registerIn(w.nodes[other].core, "k"); v != value || tooFar(s.Time, d.right()) {
				t.Errorf("%v: node %v has %q of %s", level, other, v, clock.ShowMillis(s.Time>>tickBits))
			}
		}
	}
}

// A stamp of the caller's that is not newer than what stands: the same value is success, all
// else an error that has the stamp which stands, known here or not.
func TestFixedStampThatLosesSaysSo(t *testing.T) {
	w := newWorld(t, 1, 3, func(c *Config) { c.NoStream, c.NoGossip, c.SpreadMax = true, true, time.Minute })
	at := func(time uint64) crdt.Stamp { return crdt.Stamp{Time: time, Node: 1} }
	set := func(id gossip.NodeID, level replicator.Level, v string, s crdt.Stamp) error {
		return w.reply(id, w.update(id, level, replicator.Fence{}, fixedIn("k", v, s))).Err
	}
	w.pairs([2]gossip.NodeID{1, 2})
	for range 2 {
		if err := set(1, majority, "five", at(5)); err != nil {
			t.Fatal(err)
		}
	}
	w.pairs([2]gossip.NodeID{2, 3})
	for _, c := range []struct {
		id    gossip.NodeID
		level replicator.Level
		value string
		at    uint64
		by    gossip.NodeID
	}{
		{1, replicator.Local, "four", 4, 1}, {1, majority, "four", 4, 1}, {1, replicator.Local, "other", 5, 1}, {3, majority, "three", 3, 2},
	} {
		var stale *replicator.Error
		if err := set(c.id, c.level, c.value, at(c.at)); !errors.As(err, &stale) || stale.Code != replicator.ErrStale || stale.Stamp != at(5) || stale.Node != c.by {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := set(3, majority, "six", at(6)); err != nil {
		t.Error(err)
	}
}

// All clocks are set back by days while all nodes are down, and not all files hold the last
// write: it still stands above the earlier one, whichever nodes have written them.
func TestFilesFromTheFutureKeepTheirOrder(t *testing.T) {
	wall := uint64(wall2026)
	w := newWorld(t, 1, 0, func(c *Config) {
		c.Keep = func(string) bool { return true }
		c.Wall = func() uint64 { return wall }
	})
	d := &disks{world: w, files: map[int]*simFile{0: {}, 1: {}}, at: map[int]gossip.NodeID{}, next: 10, lives: 1}
	d.boot(0, 1)
	d.do(1, replicator.All, stampBy(d.at[1], "r", "earlier"))
	d.save(1)
	earlier := d.files[1]
	wall += 1000
	d.do(0, replicator.All, stampBy(d.at[0], "r", "later"))
	d.stop(0, 1)
	d.files[1] = earlier
	wall -= millis(9 * 24 * time.Hour)
	d.boot(0, 1)
	d.settle(10 * time.Second)
	for slot := range 2 {
		if v, _ := d.core(slot).Value("r").(*crdt.LWWRegister[string]).Value(); v != "later" {
			t.Errorf("node %d shows the %s write", slot, v)
		}
	}
	// A write is made above them, and stands when an old file comes after the clocks did.
	d.do(0, replicator.All, stampBy(d.at[0], "r", "last"))
	d.stop(1)
	d.files[1] = earlier
	wall += millis(30 * 24 * time.Hour)
	d.boot(1)
	d.settle(10 * time.Second)
	for slot := range 2 {
		if v, _ := registerIn(d.core(slot), "r"); v != "last" {
			t.Errorf("node %d shows the %s write", slot, v)
		}
	}
}

// TestAWriteBeforeTheDisksAreBackGoesByTheClocks: a node whose file lacks a write is back alone after a
// stop of all, and writes the key. When the other file returns, the new write wins, unless all clocks
// were set back meanwhile.
func TestAWriteBeforeTheDisksAreBackGoesByTheClocks(t *testing.T) {
	for name, c := range map[string]struct {
		moved time.Duration
		want  string
	}{
		"clocks that went on":       {time.Hour, "new"},
		"clocks that stood":         {0, "new"},
		"clocks that were set back": {-3 * time.Hour, "old"},
		"clocks nine days back":     {-9 * 24 * time.Hour, "old"},
		"clocks a year ahead":       {365 * 24 * time.Hour, "new"},
	} {
		wall := int64(wall2026)
		w := newWorld(t, 1, 0, func(c *Config) {
			c.Keep = func(string) bool { return true }
			c.Wall = func() uint64 { return uint64(wall) }
		})
		d := &disks{world: w, files: map[int]*simFile{0: {}, 1: {}}, at: map[int]gossip.NodeID{}, next: 10, lives: 1}
		d.boot(0)
		d.do(0, majority, stampBy(d.at[0], "r", "old"))
		d.stop(0)
		wall += c.moved.Milliseconds() + 1
		d.boot(1)
		d.do(1, majority, stampBy(d.at[1], "r", "new"))
		d.boot(0)
		d.settle(10 * time.Second)
		for slot := range 2 {
			if v, _ := registerIn(d.core(slot), "r"); v != c.want {
				t.Errorf("%s: node %d shows the %s write, want the %s one", name, slot, v, c.want)
			}
		}
	}
}

// TestStampsOfRawChangesAreBounded: a change that stamps without saying so in Plan.Fixed
// froze its value at its own node until the stamp's time came, or for ever.
func TestStampsOfRawChangesAreBounded(t *testing.T) {
	w, d := clocked(t, 1, 3, nil)
	w.run(time.Second)
	for _, far := range []uint64{d.tick(century), timeMax, 1<<64 - 1} {
		raw := Mutate("r", crdt.KindLWWRegister, 64, func(v crdt.Value) crdt.Value {
			return v.(*crdt.LWWRegister[string]).Set("frozen", crdt.Stamp{Time: far, Node: 1, Seq: 1})
		})
		if r := w.reply(1, w.update(1, replicator.Local, replicator.Fence{}, addTo(1, "s", "x"), raw)); !errors.Is(r.Err, replicator.ErrAhead) {
			t.Errorf("time %d: %v", far, r.Err)
		}
		if c := w.nodes[1].core; c.Value("r") != nil || c.Value("s") != nil {
			t.Errorf("time %d: changed", far)
		}
	}
}
