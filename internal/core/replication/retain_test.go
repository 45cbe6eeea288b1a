package replication

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/internal/testsize"
	"github.com/peerage-go/peerage/replicator"
)

const testRetain = time.Minute

// disks is a world whose nodes have files of durable keys.
type disks struct {
	*world
	files map[int]*simFile
	at    map[int]gossip.NodeID // the node that runs on a file
	next  gossip.NodeID
	lives uint32
	stamp uint64
}

type simFile struct {
	items []Item
	mem   Memory
}

func newDisks(t testing.TB, n int) *disks {
	w := newWorld(t, 1, 0, func(c *Config) {
		c.PruneEvery, c.Retain, c.overEvery = 20*time.Millisecond, testRetain, 100*time.Millisecond
		c.Keep = func(key string) bool { return strings.HasPrefix(key, "keep/") }
	})
	d := &disks{world: w, files: map[int]*simFile{}, at: map[int]gossip.NodeID{}, next: 10, lives: 1}
	for slot := range n {
		d.files[slot] = &simFile{}
	}
	return d
}

// boot starts nodes on the files of these slots; the first ones begin the cluster.
func (d *disks) boot(slots ...int) {
	for _, slot := range slots {
		d.next++
		n := d.start(d.next)
		d.at[slot] = d.next
		f := d.files[slot]
		if err := n.core.Restore(f.items); err != nil {
			d.t.Fatal(err)
		}
		n.core.Recall(d.now, f.mem)
	}
	if len(d.at) > len(slots) {
		d.setView(d.world.next(func(v *gossip.View) {
			for _, slot := range slots {
				add(gossip.Up, d.at[slot])(v)
			}
		}))
		return
	}
	d.lives++
	v := &gossip.View{Cluster: 1, Epoch: gossip.FirstEpoch(d.lives)}
	for _, slot := range slots {
		v.Members = append(v.Members, member(d.at[slot], gossip.Up))
	}
	d.setView(v)
}

// save brings a slot's file up to date: all that a node says stands there before.
func (d *disks) save(slot int) {
	c, f := d.nodes[d.at[slot]].core, &simFile{}
	for _, key := range c.retention.keptKeys() {
		in, _ := c.State(key)
		f.items = append(f.items, in)
	}
	f.mem = c.Memory(d.now)
	f.mem.Agreed = c.Agreed()
	d.files[slot] = f
}

// stop ends nodes at once; those that are left remove them.
func (d *disks) stop(slots ...int) {
	var ids []gossip.NodeID
	for _, slot := range slots {
		d.save(slot)
		ids = append(ids, d.at[slot])
		d.crash(d.at[slot])
		delete(d.at, slot)
	}
	if len(d.at) > 0 {
		d.setView(d.world.next(remove(ids...)))
	}
}

// pause lets time pass while nobody runs.
func (d *disks) pause(t time.Duration) {
	d.queue = nil
	d.now = d.now.Add(t)
}

func (d *disks) core(slot int) *Core { return d.nodes[d.at[slot]].core }

func (d *disks) do(slot int, level replicator.Level, ops ...operation.Op) {
	d.t.Helper()
	if r := d.reply(d.at[slot], d.update(d.at[slot], level, replicator.Fence{}, ops...)); r.Err != nil {
		d.t.Fatal(r.Err)
	}
}

func (d *disks) put(slot int, key, e string) operation.Op { return addTo(d.at[slot], key, e) }

// keys returns what all hold, and complains if they differ.
func (d *disks) keys() string {
	d.settle(10 * time.Second)
	out, c := "", d.core(slices.Sorted(maps.Keys(d.at))[0])
	for _, key := range c.Keys("") {
		out += fmt.Sprint(key, contents(c.Value(key)), " ")
	}
	return strings.TrimSpace(out)
}

// contents returns what a set or a map has.
func contents(v crdt.Value) (out []string) {
	m, ok := v.(*entryMap)
	if !ok {
		return elements(v)
	}
	for k, v := range m.All() {
		out = append(out, k+":"+v)
	}
	slices.Sort(out)
	return out
}

// tombs returns how many deletions members remember, of keys and of entries.
func (d *disks) tombs() (n int) {
	for _, slot := range slices.Sorted(maps.Keys(d.at)) {
		n += d.core(slot).Stats().Retained
	}
	return n
}

func (d *disks) setAsides() (n uint64) {
	for _, slot := range slices.Sorted(maps.Keys(d.at)) {
		n += d.core(slot).Stats().SetAside + d.core(slot).Stats().LateFiles
	}
	return n
}

var gone = operation.Op{Key: "keep/a", Delete: true}

// The deletion of a durable key is remembered for Retain, and no longer.
func TestDeletionOfADurableKeyEnds(t *testing.T) {
	d := newDisks(t, 3)
	d.boot(0, 1, 2)
	d.do(0, replicator.All, d.put(0, "keep/a", "old"))
	d.do(1, replicator.All, gone)
	d.run(testRetain / 2)
	if n := d.tombs(); n != 3 {
		t.Fatalf("%d tombstones after half of the time", n)
	}
	d.run(testRetain)
	if n := d.tombs(); n != 0 {
		t.Fatalf("%d tombstones after all of the time", n)
	}
	d.do(2, replicator.All, d.put(2, "keep/a", "new"))
	if got := d.keys(); got != "keep/a[new]" || d.core(0).store.itemOf("keep/a").gen != 3 {
		t.Errorf("%s", got)
	}
}

// Above the limit they go earlier, and who has been away since then is refused all the
// same.
func TestTombstonesOfDurableKeysAreBounded(t *testing.T) {
	endsAreBounded(t, "",
		func(d *disks, i int) operation.Op { return d.put(0, fmt.Sprint("keep/", i), "e") },
		func(_ *disks, i int) operation.Op { return operation.Op{Key: fmt.Sprint("keep/", i), Delete: true} })
}

// endsAreBounded makes nine of what ends, and ends them while a member is away, with room
// for five. want is what there is at the end.
func endsAreBounded(t *testing.T, want string, begin, end func(*disks, int) operation.Op) {
	t.Helper()
	d := newDisks(t, 3)
	tweak := d.tweak
	d.tweak = func(c *Config) { tweak(c); c.Retain, c.Limits.Tombstones = -1, 5 }
	d.boot(0, 1, 2)
	for i := range 9 {
		d.do(0, replicator.All, begin(d, i))
	}
	d.run(2 * time.Second)
	d.stop(2)
	for i := range 9 {
		d.do(0, replicator.All, end(d, i))
	}
	d.run(time.Minute)
	if n := d.tombs(); n > 2*5 {
		t.Errorf("%d ends at two members", n)
	}
	d.boot(2)
	if got := d.keys(); got != want || d.core(2).Stats().SetAside == 0 {
		t.Errorf("%s is back, %d keys were set aside", got, d.core(2).Stats().SetAside)
	}
}

// What is remembered for ever is not looked through every moment for what has become
// ripe: only a limit could make it so.
func TestForEverIsNotLookedAtAllTheTime(t *testing.T) {
	c := New(Config{Retain: -1, Limits: Limits{Tombstones: 1}, PruneEvery: time.Second})
	c.members.voters = append(c.members.voters, c.cfg.Self)
	c.retention.sweptAt, c.store.deletions = 5, 1
	if c.pruner.planPrune(5); c.pruner.pruneAt != clock.Never {
		t.Errorf("looked at again after %v", c.pruner.pruneAt.Sub(5))
	}
	c.store.deletions = 2
	if c.pruner.planPrune(5); c.pruner.pruneAt.Sub(5) != overEvery {
		t.Errorf("above the limit, looked at again after %v", c.pruner.pruneAt.Sub(5))
	}
}

func verdict(ok bool, format string, args ...any) string {
	if ok {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// A member is away for longer than its deletions are remembered: what its file has of
// them does not come back, and what only it has written is set aside with it.
func fileAwayTooLong(t *testing.T) string {
	d := newDisks(t, 3)
	d.boot(0, 1, 2)
	d.do(0, replicator.All, d.put(0, "keep/a", "e"), d.put(0, "keep/b", "e"))
	d.run(5 * time.Second)
	d.stop(2)
	d.do(0, majority, gone)
	d.run(2 * testRetain)
	d.boot(2)
	d.update(d.at[2], replicator.Local, replicator.Fence{}, d.put(2, "keep/c", "own"))
	d.run(5 * time.Second)
	aside := d.core(2).Stats().SetAside
	if got := d.keys(); got != "keep/b[e] keep/c[own]" || aside != 2 {
		return fmt.Sprintf("%s, %d keys set aside", got, aside)
	}
	// From here on it is a member like any other, and so is its file.
	d.do(2, replicator.All, d.put(2, "keep/d", "e"))
	d.run(5 * time.Second)
	d.stop(2)
	d.run(testRetain)
	d.boot(2)
	got := d.keys()
	return verdict(d.setAsides() == 0 && got == "keep/b[e] keep/c[own] keep/d[e]", "%s", got)
}

// A member was away shortly, and what only it has written is merged. Meanwhile others
// have forgotten a deletion that it knows, and created the key again.
func fileWithAForgottenDeletion(t *testing.T) string {
	d := newDisks(t, 3)
	d.boot(0, 1, 2)
	d.do(0, replicator.All, d.put(0, "keep/a", "old"))
	d.do(0, replicator.All, gone)
	d.run(testRetain * 8 / 10)
	d.cut = func(from, to gossip.NodeID) bool { return from == d.at[2] || to == d.at[2] }
	d.update(d.at[2], replicator.Local, replicator.Fence{}, d.put(2, "keep/own", "e"))
	d.stop(2)
	d.cut = nil
	d.run(testRetain / 2)
	if d.tombs() != 0 {
		return "still there"
	}
	d.do(1, replicator.All, d.put(1, "keep/a", "new"))
	d.boot(2)
	d.run(5 * time.Second)
	got := d.keys()
	return verdict(got == "keep/a[new] keep/own[e]" && d.setAsides() == 0, "%s, %d set aside", got, d.setAsides())
}

// subject is what is deleted: a key, or an entry of a map.
type subject struct {
	put, end func(d *disks, slot int, name string) operation.Op
	// left is what disks.keys returns when b is left.
	left string
}

var (
	wholeKeys = subject{
		put: func(d *disks, slot int, name string) operation.Op { return d.put(slot, "keep/"+name, "e") },
		end: func(_ *disks, _ int, name string) operation.Op {
			return operation.Op{Key: "keep/" + name, Delete: true}
		},
		left: "keep/b[e]",
	}
	mapEntries = subject{
		put:  func(d *disks, slot int, name string) operation.Op { return d.set(slot, name, "e") },
		end:  (*disks).end,
		left: "keep/m[b:e]",
	}
)

// with makes a scenario of one for any subject.
func (s subject) with(f func(*disks, subject) string) scenario {
	return func(t *testing.T) string {
		d := newDisks(t, 3)
		d.boot(0, 1, 2)
		d.do(0, replicator.All, s.put(d, 0, "a"), s.put(d, 0, "b"))
		d.run(5 * time.Second)
		return f(d, s)
	}
}

// A member deletes something, and ends before the deletion reaches a peer. The others were level
// with each other later than that, and one of them is away from before the file brings
// the deletion until it is forgotten, or for less than the deletion is kept since.
func (s subject) deletionThatNoPeerHas(t *testing.T) string {
	for _, away := range []time.Duration{testRetain * 7 / 8, 2 * testRetain} {
		wrong := s.with(func(d *disks, s subject) string {
			// There are other deletions, so sweeps never pause.
			d.do(0, replicator.All, s.put(d, 0, "c"))
			d.do(0, replicator.All, s.end(d, 0, "c"))
			d.cut = func(from, to gossip.NodeID) bool { return from == d.at[2] || to == d.at[2] }
			d.update(d.at[2], replicator.Local, replicator.Fence{}, s.end(d, 2, "a"))
			d.stop(2)
			d.cut = nil
			d.run(20 * time.Second)
			d.stop(1)
			d.boot(2)
			d.run(5 * time.Second)
			d.stop(0)
			d.run(away - 5*time.Second)
			d.boot(1)
			d.run(5 * time.Second)
			got := d.keys()
			return verdict(got == s.left && (d.core(1).Stats().SetAside > 0) == (away > testRetain), "%s", got)
		})(t)
		if wrong != "" {
			return fmt.Sprintf("away for %v: %s", away, wrong)
		}
	}
	return ""
}

// Members are replaced in turn all the time, as rolling updates do: deletions end.
func restartsInTurn(d *disks, s subject) string {
	d.do(0, replicator.All, s.end(d, 0, "a"))
	for i := range 12 {
		d.run(testRetain / 6)
		d.stop(i % 3)
		d.run(time.Second)
		d.boot(i % 3)
	}
	d.run(5 * time.Second)
	return verdict(d.keys() == s.left && d.tombs() == 0 && d.setAsides() == 0, "%d tombstones, %d set aside", d.tombs(), d.setAsides())
}

// A member is away for longer than deletions are remembered: what its file has does not
// bring anything back.
func awayTooLong(d *disks, s subject) string {
	d.stop(2)
	d.do(0, majority, s.end(d, 0, "a"))
	d.run(2 * testRetain)
	return d.comesTooLate(s)
}

// A member is in the view, receives the state of the other members, and misses a deletion, whose writer
// is gone. It stops long after that, and is away while the deletion is forgotten, or for
// less than the deletion is kept since.
func (s subject) deletionThatDidNotArrive(t *testing.T) string {
	for _, away := range []time.Duration{testRetain * 5 / 8, testRetain * 5 / 4} {
		wrong := s.with(func(d *disks, s subject) string {
			d.cutOff(2)
			d.do(0, majority, s.end(d, 0, "a"))
			d.stop(0)
			d.run(testRetain / 2)
			d.stop(2)
			d.dropKind = nil
			d.run(away)
			if away > testRetain {
				return d.comesTooLate(s)
			}
			d.boot(2)
			d.run(5 * time.Second)
			got := d.keys()
			return verdict(got == s.left && d.setAsides() == 0, "%s, %d set aside", got, d.setAsides())
		})(t)
		if wrong != "" {
			return fmt.Sprintf("away for %v: %s", away, wrong)
		}
	}
	return ""
}

// A member comes back with a file, and nothing of what the others hold reaches it. They
// forget no deletion that it lacks, however long it takes.
func memberThatWasNotFilled(d *disks, s subject) string {
	d.stop(2)
	d.do(0, majority, s.end(d, 0, "a"))
	d.run(testRetain / 2)
	d.boot(2)
	d.cutOff(2)
	d.run(testRetain)
	d.dropKind = nil
	d.run(5 * time.Second)
	if got := d.keys(); got != s.left || d.setAsides() != 0 {
		return fmt.Sprintf("%s, %d set aside", got, d.setAsides())
	}
	d.run(2 * testRetain)
	return verdict(d.tombs() == 0, "the deletion does not end")
}

// comesTooLate boots a member of which others have forgotten what it does not know.
func (d *disks) comesTooLate(s subject) string {
	if d.tombs() != 0 {
		return "the deletion does not end"
	}
	d.boot(2)
	d.run(5 * time.Second)
	got := d.keys()
	return verdict(got == s.left && d.core(2).Stats().SetAside > 0, "%s", got)
}

// The cluster was down as a whole for months. Whoever comes first, and however long the
// others take, less than Retain of running: everything is there, and what was deleted
// shortly before, by those that went on longest, is not.
func downForMonths(t *testing.T) string {
	for first := range 3 {
		d := newDisks(t, 3)
		d.boot(0, 1, 2)
		d.do(0, replicator.All, d.put(0, "keep/a", "e"), d.put(0, "keep/b", "e"))
		d.do(0, replicator.All, d.put(0, "keep/x", "e"))
		d.do(0, replicator.All, operation.Op{Key: "keep/x", Delete: true})
		d.run(testRetain / 2)
		d.update(d.at[2], replicator.Local, replicator.Fence{}, d.put(2, "keep/own", "e"))
		d.stop(2)
		d.do(0, majority, gone)
		d.run(5 * time.Second)
		d.stop(1)
		d.do(0, majority, d.put(0, "keep/last", "e"))
		d.run(2 * time.Second)
		d.stop(0)
		d.pause(1000 * testRetain)
		d.boot(first)
		d.run(testRetain / 4)
		d.boot((first + 1) % 3)
		d.run(testRetain / 8)
		d.boot((first + 2) % 3)
		d.run(5 * time.Second)
		if got := d.keys(); got != "keep/b[e] keep/last[e] keep/own[e]" || d.setAsides() != 0 {
			return fmt.Sprintf("%d first: %s, %d set aside", first, got, d.setAsides())
		}
		d.run(2 * testRetain)
		if d.tombs() != 0 {
			return "deletions do not end"
		}
	}
	return ""
}

// A model: members go and come back at random with their files, all at once now and
// then, and stay away for anything up to twice Retain. A majority runs, or nobody. What
// a majority has confirmed deleted is never seen again once all is quiet, what was
// confirmed and not deleted is there, and deletions end.
func TestFilesComeBackAtAnyTime(t *testing.T) {
	t.Parallel()
	seeds := uint64(testsize.Runs(10, 12, 40))
	var aside, kept uint64
	for seed := range seeds {
		a, k := filesAtRandom(t, seed)
		aside, kept = aside+a, kept+k
	}
	t.Logf("%d keys were set aside, %d came with files", aside, kept)
	if aside == 0 || kept == 0 {
		t.Error("the model did not see what it is for")
	}
}

// mapModel is what the map keep/m should be.
type mapModel map[string]string

func (m mapModel) change(d *disks, slot int, entry, value string, end bool) {
	if delete(m, entry); end {
		d.do(slot, majority, d.end(slot, entry))
		return
	}
	d.do(slot, majority, d.set(slot, entry, value))
	m[entry] = value
}

func (m mapModel) contents() (out []string) {
	for _, entry := range slices.Sorted(maps.Keys(m)) {
		out = append(out, entry+":"+m[entry])
	}
	return out
}

func filesAtRandom(t *testing.T, seed uint64) (aside, restored uint64) {
	d := newDisks(t, 3)
	rng := rand.New(rand.NewPCG(seed, 3))
	d.boot(0, 1, 2)
	want, entries := map[string]bool{}, mapModel{}
	for i := range 80 {
		up := slices.Sorted(maps.Keys(d.at))
		slot, key := up[rng.IntN(len(up))], fmt.Sprint("keep/", i)
		down := slices.DeleteFunc([]int{0, 1, 2}, func(s int) bool { return slices.Contains(up, s) })
		switch rng.IntN(11) {
		case 8, 9:
			entries.change(d, slot, fmt.Sprint("e", rng.IntN(8)), fmt.Sprint(i), rng.IntN(2) == 0)
		case 10:
			if rng.IntN(4) == 0 {
				d.do(slot, majority, operation.Op{Key: "keep/m", Delete: true})
				clear(entries)
			}
		case 0, 1:
			d.do(slot, majority, d.put(slot, key, "e"))
			want[key] = true
		case 2, 3:
			if keys := slices.Sorted(maps.Keys(want)); len(keys) > 0 {
				key = keys[rng.IntN(len(keys))]
				d.do(slot, majority, operation.Op{Key: key, Delete: true})
				delete(want, key)
			}
		case 4:
			if len(down) == 0 {
				d.stop(slot)
			} else {
				d.boot(down[0])
				restored += uint64(len(d.core(down[0]).retention.restored))
			}
		case 5:
			if rng.IntN(4) == 0 && len(down) == 0 {
				d.stop(up...)
				d.pause(time.Duration(rng.Int64N(int64(3 * testRetain))))
				d.boot(0, 1, 2)
			}
		case 6:
			d.run(time.Duration(rng.Int64N(int64(2 * testRetain))))
		}
		d.run(time.Duration(rng.IntN(3000)) * time.Millisecond)
		aside = max(aside, d.setAsides())
	}
	for _, slot := range []int{0, 1, 2} {
		if d.at[slot] == 0 {
			d.boot(slot)
		}
	}
	d.run(3 * testRetain)
	aside = max(aside, d.setAsides())
	var names []string
	for _, key := range slices.Sorted(maps.Keys(want)) {
		names = append(names, key+"[e]")
	}
	if len(entries) > 0 {
		names = append(names, fmt.Sprint("keep/m", entries.contents()))
	}
	if got := strings.TrimSuffix(d.keys(), " keep/m[]"); strings.TrimSuffix(got, "keep/m[]") != strings.Join(names, " ") || d.tombs() > 0 {
		t.Fatalf("seed %d: %s, want %s; %d tombstones", seed, got, names, d.tombs())
	}
	return aside, restored
}

// A read that began on what is set aside then is answered by what the others hold, and
// a change made meanwhile stands.
func TestReadBeganOnAFileThatIsSetAside(t *testing.T) {
	for seed := range uint64(20) {
		d := newDisks(t, 3)
		d.rng = rand.New(rand.NewPCG(seed, 4))
		d.boot(0, 1, 2)
		d.do(0, replicator.All, d.put(0, "keep/a", "e"), d.put(0, "keep/b", "e"))
		d.run(5 * time.Second)
		d.stop(2)
		d.do(0, majority, gone)
		d.run(2 * testRetain)
		d.boot(2)
		id := d.at[2]
		rid := d.read(id, majority, replicator.Fence{}, "keep/a", "keep/b")
		d.do(2, replicator.All, d.put(2, "keep/c", "own"))
		if r := d.reply(id, rid); r.Err != nil || r.Values[0] != nil || !slices.Equal(elements(r.Values[1]), []string{"e"}) {
			t.Fatalf("seed %d: %v %v", seed, r.Values, r.Err)
		}
		if got := d.keys(); got != "keep/b[e] keep/c[own]" {
			t.Fatalf("seed %d: %s", seed, got)
		}
	}
}
