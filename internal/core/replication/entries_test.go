package replication

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/replicator"
)

// Entries of maps under durable keys: what retain_test.go asks of keys.

// set and end change an entry of the map keep/m, as of now.
func (d *disks) set(slot int, entry, value string) operation.Op {
	d.stamp++
	return setIn(d.at[slot], "keep/m", entry, value, d.stamp, 1)
}

func (d *disks) end(slot int, entry string) operation.Op {
	d.stamp++
	return deleteIn(d.at[slot], "keep/m", entry, d.stamp)
}

// cutOff keeps all that carries state from a node, but for what it is told it holds.
func (d *disks) cutOff(slot int) {
	var to gossip.NodeID
	d.posted = func(_, at gossip.NodeID, _ Message) { to = at }
	d.dropKind = func(m Message) bool {
		switch m.(type) {
		case *Deltas, *Values, *Repair, *ReadResult:
			return to == d.at[slot]
		}
		return false
	}
}

// The deletion of an entry is remembered for Retain, and no longer, also in a map that
// is in use all the time.
func TestDeletionOfADurableEntryEnds(t *testing.T) {
	d := newDisks(t, 3)
	d.boot(0, 1, 2)
	d.do(0, replicator.All, d.set(0, "a", "old"), d.set(0, "b", "stays"))
	d.do(1, replicator.All, d.end(1, "a"))
	for i := range 6 {
		d.run(testRetain / 4)
		if n := d.tombs(); i < 3 && n != 3*(i+1) || i == 5 && n > 3*4 {
			t.Fatalf("%d tombstones at three members after %d quarters", n, i+1)
		}
		entry := fmt.Sprint("used", i)
		d.do(2, replicator.All, d.set(2, entry, "e"))
		d.do(2, replicator.All, d.end(2, entry))
	}
	d.run(2 * testRetain)
	if n := d.tombs(); n != 0 {
		t.Fatalf("%d tombstones after all of the time", n)
	}
	d.do(2, replicator.All, d.set(2, "a", "new"))
	if got := d.keys(); got != "keep/m[a:new b:stays]" {
		t.Errorf("%s", got)
	}
	if n := d.core(0).Key("keep/m").Bytes; n > 200 {
		t.Errorf("%d bytes for two entries", n)
	}
}

// The sums by which members know that they have each other's deletions are found equal
// also when deletions never pause, not for as long as a frame takes.
func TestDeletionsThatNeverPauseEndToo(t *testing.T) {
	t.Parallel()
	const retain, every = 6 * time.Second, 2 * time.Millisecond
	d := newDisks(t, 3)
	tweak := d.tweak
	d.tweak = func(c *Config) { tweak(c); c.Retain = retain }
	d.hasty = true
	d.boot(0, 1, 2)
	for i := range 2 * int(retain/every) {
		entry := fmt.Sprint("e", i)
		d.update(d.at[i%3], replicator.Local, replicator.Fence{}, d.set(i%3, entry, "e"))
		d.update(d.at[i%3], replicator.Local, replicator.Fence{}, d.end(i%3, entry))
		d.run(every)
	}
	if n, young := d.tombs()/3, int(retain/every); n > young*5/4 {
		t.Errorf("%d tombstones, of which %d are younger than Retain", n, young)
	}
	if at, all := d.core(2).Memory(d.now).Sweep, uint64(2*sweepSteps); at != d.core(0).barrier.sweep || at < all*3/4 || at > all {
		t.Errorf("its file has the deletions up to sweep %d of %d", at, d.core(0).barrier.sweep)
	}
	d.stop(2)
	d.do(0, majority, d.set(0, "stays", "e"))
	d.run(retain / 10)
	d.boot(2)
	if got := d.keys(); got != "keep/m[stays:e]" || d.setAsides() != 0 {
		t.Errorf("%s, %d keys were set aside", got, d.setAsides())
	}
}

// What a member does not have is not forgotten, however long it takes, though that member
// says that it is there.
func TestDeletionThatAMemberLacksIsNotForgotten(t *testing.T) {
	t.Parallel()
	for _, s := range []subject{wholeKeys, mapEntries} {
		wrong := s.with(func(d *disks, s subject) string {
			d.cutOff(2)
			d.do(0, majority, s.end(d, 0, "a"))
			d.run(3 * testRetain)
			if d.tombs() != 2 {
				return fmt.Sprintf("%d deletions remembered", d.tombs())
			}
			d.dropKind = nil
			d.run(3 * testRetain)
			got := d.keys()
			return verdict(got == s.left && d.tombs() == 0, "%s, %d deletions remembered", got, d.tombs())
		})(t)
		if wrong != "" {
			t.Errorf("%s: %s", s.left, wrong)
		}
	}
}

// The cluster was down as a whole for months, one member for a while longer.
func entriesDownForMonths(t *testing.T) string {
	d := newDisks(t, 3)
	d.boot(0, 1, 2)
	d.do(0, replicator.All, d.set(0, "a", "e"), d.set(0, "b", "e"))
	d.run(testRetain / 2)
	d.stop(2)
	d.do(0, majority, d.end(0, "a"))
	d.run(5 * time.Second)
	d.stop(0, 1)
	d.pause(1000 * testRetain)
	d.boot(0)
	d.run(testRetain / 4)
	d.boot(1)
	d.run(testRetain / 8)
	d.boot(2)
	d.run(5 * time.Second)
	if got := d.keys(); got != "keep/m[b:e]" || d.setAsides() != 0 {
		return fmt.Sprintf("%s, %d set aside", got, d.setAsides())
	}
	d.run(2 * testRetain)
	return verdict(d.tombs() == 0, "deletions do not end")
}

// An entry was ended by a clock far ahead. One member is away, shortly, while that is
// forgotten; the others start anew, and so does one without a file. Then the entry is set
// by clocks that are right.
func entryAboveTheCeiling(t *testing.T) string {
	const ahead = 1 << 40
	d := newDisks(t, 4)
	d.boot(0, 1, 2)
	d.do(0, replicator.All, d.set(0, "a", "e"), d.set(0, "c", "e"))
	d.do(0, replicator.All, deleteIn(d.at[0], "keep/m", "a", ahead), deleteIn(d.at[0], "keep/m", "c", ahead))
	d.run(testRetain * 8 / 10)
	d.stop(2)
	d.run(testRetain / 2)
	if d.tombs() != 0 {
		return "the deletion does not end"
	}
	d.stop(0, 1)
	d.boot(0, 1)
	d.run(time.Second)
	d.boot(3)
	d.run(5 * time.Second)
	for slot, entry := range map[int]string{0: "a", 3: "c"} { // order-free: two entries
		at := max(10, d.core(slot).barrier.inherited+1)
		d.do(slot, majority, setIn(d.at[slot], "keep/m", entry, "new", at, 1))
	}
	d.boot(2)
	d.run(5 * time.Second)
	got := d.keys()
	return verdict(got == "keep/m[a:new c:new]" && d.setAsides() == 0, "%s, %d set aside", got, d.setAsides())
}

// A member has the end of an entry by a read's repair, and not yet the entry itself, which
// still stands in the log of its writer, and in a frame under way. All forget the end only
// after the member has acknowledged the log, and the frame is refused then.
func entryInAnOldLog(t *testing.T) string {
	d := newDisks(t, 3)
	d.boot(0, 1, 2)
	d.do(0, replicator.All, d.set(0, "b", "e"))
	d.run(5 * time.Second)
	var to gossip.NodeID
	var late *Deltas
	d.posted = func(_, at gossip.NodeID, _ Message) { to = at }
	d.dropKind = func(m Message) bool {
		switch m := m.(type) {
		case *Deltas:
			if to == d.at[2] && late == nil {
				late = m
			}
			return to == d.at[2]
		case *Status:
			return to == d.at[2]
		}
		return false
	}
	d.do(0, majority, d.set(0, "a", "e"))
	d.do(1, majority, d.end(1, "a"))
	if r := d.reply(d.at[1], d.read(d.at[1], replicator.All, replicator.Fence{}, "keep/m")); r.Err != nil {
		return r.Err.Error()
	}
	d.run(testRetain * 5 / 4)
	d.dropKind = nil
	d.run(testRetain * 5 / 4)
	if d.tombs() != 0 {
		return "the deletion does not end"
	}
	d.step(d.at[2], Received{From: d.at[0], Msg: late})
	d.run(5 * time.Second)
	got := d.keys()
	return verdict(got == "keep/m[b:e]" && d.tombs() == 0, "%s, %d tombstones", got, d.tombs())
}

// Many ends are forgotten in rounds of a bounded size, without a look at each of them in
// each round.
func TestManyEndsInOneMapEnd(t *testing.T) {
	t.Parallel()
	const n = 5000
	d := newDisks(t, 3)
	d.hasty = true
	d.boot(0, 1, 2)
	for i := range n {
		d.stamp++
		d.update(d.at[0], replicator.Local, replicator.Fence{}, deleteIn(d.at[0], "keep/m", fmt.Sprint("entry", i), d.stamp))
	}
	d.do(0, replicator.All, d.set(0, "b", "e"))
	largest := 0
	d.posted = func(_, _ gossip.NodeID, m Message) {
		if p, ok := m.(*Prepare); ok {
			largest = max(largest, len(Append(nil, p)))
		}
	}
	d.run(2 * testRetain)
	if got := d.keys(); got != "keep/m[b:e]" || d.tombs() != 0 {
		t.Errorf("%s, %d ends", got, d.tombs())
	}
	if most := d.core(0).cfg.Limits.FrameBytes; largest > most || largest == 0 {
		t.Errorf("a message of %d bytes, more than %d", largest, most)
	}
	if r := d.core(0).Stats().Rounds; r > 2*sweepSteps+2 {
		t.Errorf("%d rounds", r)
	}
}

// Ages come from the file with the entries that they belong to.
func TestAgesOfEntriesAreRecalled(t *testing.T) {
	d := newDisks(t, 1)
	d.boot(0)
	d.do(0, replicator.Local, d.set(0, "a", "e"), d.set(0, "b", "e"), addTo(1, "keep/s", "e"))
	d.do(0, replicator.Local, d.end(0, "a"))
	d.run(10 * time.Second)
	d.do(0, replicator.Local, d.end(0, "b"), operation.Op{Key: "keep/s", Delete: true})
	d.run(20 * time.Second)
	want, ran := d.core(0).Agreed(), d.core(0).Memory(d.now).Ran
	d.stop(0)
	d.pause(time.Hour)
	d.boot(0)
	if got := d.core(0).Agreed(); len(got) != 3 || !slices.Equal(got, want) || got[0].Sweep == got[1].Sweep && got[0].Sweep == got[2].Sweep {
		t.Errorf("%v, was %v", got, want)
	}
	if got := d.core(0).Memory(d.now).Ran; got != ran || ran == 0 {
		t.Errorf("the newest sweep was %d ms ago, before the stop %d", got, ran)
	}
}

// Above the limit ends of entries go earlier, and who has been away since then is refused
// all the same.
func TestEndsOfEntriesAreBounded(t *testing.T) {
	endsAreBounded(t, "keep/m[]",
		func(d *disks, i int) operation.Op { return d.set(0, fmt.Sprint(i), "e") },
		func(d *disks, i int) operation.Op { return d.end(0, fmt.Sprint(i)) })
}

// An entry that is set and deleted again by a member that has agreed to forget its former
// end keeps the new one.
func TestNewerEndThanTheAgreedOneStays(t *testing.T) {
	d := newDisks(t, 3)
	d.boot(0, 1, 2)
	d.do(0, replicator.All, d.set(0, "a", "e"))
	d.do(0, replicator.All, d.end(0, "a"))
	commits := 0
	d.delivered = func(_, to gossip.NodeID, m Message) {
		if c, ok := m.(*Commit); ok && len(c.Forgotten) > 0 && to == d.at[2] && commits == 0 {
			commits++
			d.update(to, replicator.Local, replicator.Fence{}, d.set(2, "a", "again"))
			d.update(to, replicator.Local, replicator.Fence{}, d.end(2, "a"))
			d.after(0, func() {
				if s, _ := d.core(2).Value("keep/m").(*entryMap).Stamp("a"); s.Time != d.stamp {
					t.Errorf("the end of %d is gone", d.stamp)
				}
			})
		}
	}
	d.run(testRetain * 5 / 4)
	if got := d.keys(); got != "keep/m[]" || d.tombs() != 3 || commits != 1 {
		t.Errorf("%s, %d ends remembered, %d commits", got, d.tombs(), commits)
	}
}

// Ends go with the generation of the key that they belong to, also where only the next
// one comes.
func TestEndsOfAFormerGenerationGoWithIt(t *testing.T) {
	d := newDisks(t, 3)
	d.boot(0, 1, 2)
	d.do(0, replicator.All, d.set(0, "a", "e"))
	d.do(0, replicator.All, d.end(0, "a"))
	d.cut = func(from, to gossip.NodeID) bool { return from == d.at[2] || to == d.at[2] }
	d.do(0, majority, operation.Op{Key: "keep/m", Delete: true})
	d.do(0, majority, d.set(0, "b", "e"))
	d.do(0, majority, d.end(0, "c"))
	items := []Item{full(d.core(0).store.itemOf("keep/m"))}
	d.cut = nil
	d.step(d.at[2], Received{From: d.at[0], Msg: &Repair{Floor: d.core(2).barrier.floor, Sweep: d.core(2).barrier.sweep, Items: items}})
	var got []string
	d.core(2).store.eachDeletion(func(it *item, entry string, _ uint64) { got = append(got, it.key+" "+entry) })
	if !slices.Equal(got, []string{"keep/m c"}) || d.core(2).Stats().Retained != 1 {
		t.Errorf("%v", got)
	}
	if got := d.keys(); got != "keep/m[b:e]" || d.tombs() != 3 {
		t.Errorf("%s, %d ends", got, d.tombs())
	}
}
