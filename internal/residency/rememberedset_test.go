package residency

import (
	"fmt"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/sharding/strategy"
)

// readTwice returns a set whose shard 3 was read twice, so that it needs no read later.
func readTwice(ids ...string) (m *rememberedSet, token protocol.Token, now time.Time) {
	m, token, now = newRememberedSet(), protocol.Token{Term: 1, Seq: 1}, time.Now()
	for range 2 {
		m.beginRead(3)
		m.finishRead(3, token, ids, now)
		m.beginRead(3)
		m.finishRead(3, token, ids, now)
	}
	return m, token, now
}

// writeAll does one successful write of all waiting updates.
func (m *rememberedSet) writeAll() []update {
	all := m.takeUpdates()
	for _, b := range all {
		m.finishWrite(b, true)
	}
	return all
}

// An id that the store has is not written again.
func TestOnlyChangesAreWritten(t *testing.T) {
	m, _, _ := readTwice("a")
	if !m.noteLife(3, "a", true) || m.updatesWaiting() != 0 {
		t.Errorf("%d updates wait although the store has the id", m.updatesWaiting())
	}
	m.noteLife(3, "a", false)
	m.noteLife(3, "a", true)
	if all := m.writeAll(); len(all) != 1 || !slices.Equal(all[0].add, []string{"a"}) || len(all[0].remove) != 0 {
		t.Errorf("writes %+v, want the last update", all)
	}
}

// A read does not start an entity that passivated itself since it began, whether the update
// waits, is being written, or is written by then.
func TestAReadStartsNoEntityThatEndedMeanwhile(t *testing.T) {
	for name, write := range map[string]func(m *rememberedSet){
		"waits": func(*rememberedSet) {}, "being written": func(m *rememberedSet) { m.takeUpdates() }, "written": func(m *rememberedSet) { m.writeAll() },
	} {
		m, token, now := readTwice()
		m.beginRead(3)
		m.noteLife(3, "a", false)
		write(m)
		if start := m.finishRead(3, token, []string{"a", "b"}, now); !slices.Equal(start, []string{"b"}) {
			t.Errorf("%s: starts %v", name, start)
		}
	}
}

// An entity that is written while the first read of its shard's allocation is under way is
// remembered, although the read did not return it: the store was read before the write. The
// read starts it again if it has crashed by then.
func TestAnEntityThatIsWrittenDuringTheFirstReadIsRemembered(t *testing.T) {
	unread, moved := newRememberedSet(), newRememberedSet()
	token, now := protocol.Token{Term: 1, Seq: 2}, time.Now()
	moved.finishRead(3, protocol.Token{Term: 1, Seq: 1}, nil, now)
	for name, m := range map[string]*rememberedSet{"unread": unread, "read by an earlier allocation": moved} {
		m.beginRead(3)
		for _, id := range []string{"a", "b", "c"} {
			m.noteLife(3, id, true)
		}
		m.writeAll()
		m.noteLife(3, "b", false)
		m.noteLife(3, "c", false)
		m.writeAll()
		m.noteLife(3, "c", true)
		m.writeAll()
		if start := m.finishRead(3, token, nil, now); !slices.Equal(start, []string{"a", "c"}) {
			t.Errorf("%s: starts %v", name, start)
		}
		for id, want := range map[string]bool{"a": true, "b": false, "c": true} {
			if m.remembers(3, id) != want {
				t.Errorf("%s: remembers %s: %v", name, id, !want)
			}
		}
	}
}

// One write takes dirtyBatch ids of a shard, and the next write the remaining ones.
func TestWritesAreBounded(t *testing.T) {
	m := newRememberedSet()
	for i := range dirtyBatch + 1 {
		m.noteLife(3, fmt.Sprint(i), i%2 == 0)
	}
	for _, want := range []int{dirtyBatch, 1} {
		if all := m.writeAll(); len(all) != 1 || len(all[0].add)+len(all[0].remove) != want {
			t.Errorf("%d ids in the write, want %d", len(all[0].add)+len(all[0].remove), want)
		}
	}
	if all := m.writeAll(); len(all) != 0 || m.updatesWaiting() != 0 {
		t.Errorf("writes %+v, %d wait", all, m.updatesWaiting())
	}
}

// A later update of an entity supersedes one that is being written.
func TestALaterUpdateSupersedesAWrite(t *testing.T) {
	for _, ok := range []bool{true, false} {
		m, _, _ := readTwice()
		m.noteLife(3, "a", true)
		all := m.takeUpdates()
		m.noteLife(3, "a", false)
		m.finishWrite(all[0], ok)
		m.writeAll()
		if m.remembers(3, "a") || m.updatesWaiting() != 0 {
			t.Errorf("written %v: remembers one that has ended since, %d wait", ok, m.updatesWaiting())
		}
	}
}

// A shard is read for each allocation, and again when an entity could not be started in its
// new shard, or a read failed.
func TestWhenAShardNeedsARead(t *testing.T) {
	m, token, now := readTwice("a")
	later := token
	later.Seq++
	if m.needsRead(3, token, now.Add(time.Hour)) || !m.needsRead(3, later, now) || !m.needsRead(4, token, now) {
		t.Error("read again without a reason, or not for a later allocation, or not at all")
	}
	m.noteMoved(3, "a", false, now)
	if m.needsRead(3, token, now.Add(RereadAfter-1)) || !m.needsRead(3, token, now.Add(RereadAfter)) {
		t.Error("an entity that could not be started is not tried again in time")
	}
	m.beginRead(3)
	if m.failRead(3); !m.needsRead(3, token, now) {
		t.Error("a failed read is not repeated")
	}
}

// Ids that the store has lost are written again, as far as there is room.
func TestLostIDsAreWrittenAgain(t *testing.T) {
	for _, room := range []int{0, 1, 9} {
		m, token, now := readTwice("a", "b")
		m.waiting = dirtyMax - room
		m.beginRead(3)
		m.finishRead(3, token, nil, now)
		if n := m.updatesWaiting() - (dirtyMax - room); n != min(room, 2) {
			t.Errorf("room for %d: %d written again", room, n)
		}
	}
}

// An entity that crashes before its first write is done is started again.
func TestAnEntityThatCrashesBeforeItIsWrittenIsRestarted(t *testing.T) {
	m := newRememberedSet()
	m.onCrash(3, "unknown")
	m.noteLife(3, "a", true)
	m.onCrash(3, "a")
	if all := m.takeCrashed(); !slices.Equal(all, []crashedEntity{{3, "a"}}) {
		t.Errorf("crashed: %v", all)
	}
	m.takeUpdates()
	m.onCrash(3, "a")
	if all := m.takeCrashed(); !slices.Equal(all, []crashedEntity{{3, "a"}}) {
		t.Errorf("crashed while it is written: %v", all)
	}
}

func someIDs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("entity-%d", i)
	}
	return ids
}

// Updates without room are dropped, but not those of ids that wait already. A crashed entity
// is started again only if it is remembered: not one that passivated itself, even if that
// update was dropped.
func TestARememberedSetIsBounded(t *testing.T) {
	m := newRememberedSet()
	m.finishRead(2, protocol.Token{Seq: 1}, []string{"a", "b"}, time.Now())
	m.noteLife(2, "b", false)
	m.takeUpdates()
	for _, id := range someIDs(dirtyMax) {
		if !m.noteLife(1, id, true) {
			t.Fatal("no room")
		}
	}
	if m.noteLife(1, "one more", true) || !m.noteLife(1, "entity-7", false) || m.updatesWaiting() != dirtyMax {
		t.Errorf("%d wait", m.updatesWaiting())
	}
	if m.noteLife(2, "a", false) {
		t.Error("there is room")
	}
	for _, id := range []string{"a", "b", "entity-7", "entity-8"} {
		m.onCrash(map[bool]strategy.ShardID{true: 2, false: 1}[len(id) == 1], id)
	}
	if all := m.takeCrashed(); len(all) != 1 || all[0].id != "entity-8" || len(m.takeCrashed()) != 0 {
		t.Errorf("%v must be started again, want entity-8", all)
	}
}

// A second read starts only new ids: neither those of running entities, nor of those that
// passivated themselves during the read.
func TestSecondReadStartsOnlyWhatIsNew(t *testing.T) {
	m, token, at := newRememberedSet(), protocol.Token{Seq: 1}, time.Now()
	m.beginRead(3)
	if got := m.finishRead(3, token, []string{"a", "b"}, at); !slices.Equal(got, []string{"a", "b"}) || m.needsRead(3, token, at) {
		t.Fatalf("the first read starts %q", got)
	}
	m.invalidate()
	if !m.needsRead(3, token, at) {
		t.Fatal("invalidate has no effect")
	}
	m.noteLife(3, "b", false)
	for _, b := range m.takeUpdates() {
		m.beginRead(3) // while it is being written
		m.finishWrite(b, true)
	}
	if got := m.finishRead(3, token, []string{"a", "b", "c"}, at); !slices.Equal(got, []string{"c"}) {
		t.Errorf("the second read starts %q, want c", got)
	}
	m.invalidate()
	m.beginRead(3)
	m.failRead(3)
	if !m.needsRead(3, token, at) {
		t.Error("a failed read is not repeated")
	}
}

// The last update of an entity counts, even if an earlier one is written or a shard is read
// meanwhile.
func TestTheLastUpdateCounts(t *testing.T) {
	token, at := protocol.Token{Seq: 1}, time.Now()
	known := func(ids ...string) *rememberedSet {
		m := newRememberedSet()
		m.beginRead(3)
		m.finishRead(3, token, ids, at)
		return m
	}
	write := func(m *rememberedSet) {
		for _, b := range m.takeUpdates() {
			m.finishWrite(b, true)
		}
	}
	t.Run("an end while its beginning is written", func(t *testing.T) {
		m := known()
		m.noteLife(3, "a", true)
		b := m.takeUpdates()
		if !m.remembers(3, "a") {
			t.Error("an id that is being written is forgotten")
		}
		m.noteLife(3, "a", false)
		m.finishWrite(b[0], true)
		write(m)
		if m.remembers(3, "a") {
			t.Error("it is remembered")
		}
	})
	t.Run("an end during a read", func(t *testing.T) {
		m := known("a")
		m.beginRead(3)
		m.noteLife(3, "a", false)
		write(m)
		if got := m.finishRead(3, token, []string{"a"}, at); len(got) != 0 {
			t.Errorf("%q is started", got)
		}
	})
	t.Run("an end that waits to be written", func(t *testing.T) {
		m := known("a")
		m.noteLife(3, "a", false)
		if got := m.finishRead(3, token, []string{"a"}, at); len(got) != 0 {
			t.Errorf("%q is started", got)
		}
	})
	t.Run("another allocation is read", func(t *testing.T) {
		m := known("a")
		if m.needsRead(3, token, at) || !m.needsRead(3, protocol.Token{Seq: 2}, at) {
			t.Error("the token does not count")
		}
	})
	t.Run("an entity that could not be started elsewhere is tried again", func(t *testing.T) {
		m := known("a")
		m.beginRead(3)
		m.finishRead(3, token, []string{"a"}, at)
		m.noteMoved(3, "a", false, at)
		if m.needsRead(3, token, at) || !m.needsRead(3, token, at.Add(RereadAfter)) {
			t.Error("it is not read again, or immediately")
		}
	})
	t.Run("writes are bounded", func(t *testing.T) {
		m := known()
		for i := range 2*dirtyBatch + 1 {
			m.noteLife(3, fmt.Sprint(i), true)
		}
		if b := m.takeUpdates(); len(b[0].add) != dirtyBatch || m.updatesWaiting() != dirtyBatch+1 {
			t.Errorf("%d in one write, %d wait", len(b[0].add), m.updatesWaiting())
		}
	})
}
