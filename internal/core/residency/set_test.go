package residency

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// An id that the store has is not written again.
func TestOnlyChangesAreWritten(t *testing.T) {
	r := newSetRig(t, "a")
	if !r.NoteLife(3, "a", true) || r.Waiting() != 0 {
		t.Errorf("%d updates wait although the store has the id", r.Waiting())
	}
	r.NoteLife(3, "a", false)
	r.NoteLife(3, "a", true)
	if all := r.writeAll(); len(all) != 1 || !slices.Equal(all[0].Add, []string{"a"}) || len(all[0].Remove) != 0 {
		t.Errorf("writes %+v, want the last update", all)
	}
}

// A read does not start an entity that passivated itself since it began, or before if the update
// was not yet written, whether the update waits, is being written, or is written by then.
func TestAReadStartsNoEntityThatEndedMeanwhile(t *testing.T) {
	for name, write := range map[string]func(r *rig){
		"waits": func(*rig) {}, "being written": func(r *rig) { r.one(Write) }, "written": func(r *rig) { r.writeAll() },
	} {
		for _, before := range []bool{true, false} {
			r := newSetRig(t)
			r.shards[3].stale = true
			r.set.listWrite(3)
			if before {
				r.NoteLife(3, "a", false)
			}
			r.pass(Every)
			read := r.one(Read)
			if !before {
				r.NoteLife(3, "a", false)
			}
			write(r)
			r.finishRead(read, "a", "b")
			r.writeAll()
			if start := r.shards[3].starts.entries; len(start) != 1 || start[0].id != "b" {
				t.Errorf("%s, ended before %v: starts %v", name, before, start)
			}
		}
	}
}

// An entity that is written while the first read of its shard's allocation is under way is
// remembered, although the read did not return it: the store was read before the write. The
// read starts it again if it has crashed by then.
func TestAnEntityThatIsWrittenDuringTheFirstReadIsRemembered(t *testing.T) {
	unread, moved := newRig(t, Config{ShardOf: allInShard3}), newSetRig(t)
	unread.host(3, 2)
	moved.host(3, 2)
	for name, r := range map[string]*rig{"unread": unread, "read by an earlier allocation": moved} {
		read := r.one(Read)
		for _, id := range []string{"a", "b", "c"} {
			r.NoteLife(3, id, true)
		}
		r.writeAll()
		r.NoteLife(3, "b", false)
		r.NoteLife(3, "c", false)
		r.writeAll()
		r.NoteLife(3, "c", true)
		r.writeAll()
		r.finishRead(read)
		for id, want := range map[string]bool{"a": true, "b": false, "c": true} {
			if r.wants(id) != want {
				t.Errorf("%s: remembers %s: %v", name, id, !want)
			}
		}
		r.writeAll()
		if start := r.drain(); !slices.Equal(start, []string{"a", "c"}) {
			t.Errorf("%s: starts %v", name, start)
		}
	}
}

// One write takes batchMax ids of a shard, and the next write the remaining ones.
func TestWritesAreBounded(t *testing.T) {
	r := newSetRig(t)
	for i := range batchMax + 1 {
		r.NoteLife(3, fmt.Sprint(i), i%2 == 0)
	}
	all := r.writeAll()
	if len(all) != 2 || len(all[0].Add)+len(all[0].Remove) != batchMax || len(all[1].Add)+len(all[1].Remove) != 1 {
		t.Errorf("%d writes", len(all))
	}
	if all := r.writeAll(); len(all) != 0 || r.Waiting() != 0 {
		t.Errorf("writes %+v, %d wait", all, r.Waiting())
	}
}

// A shard has one write in flight: updates that arrive meanwhile wait for its outcome, so that an older one
// cannot be stored last.
func TestAShardHasOneWriteInFlight(t *testing.T) {
	r := newSetRig(t)
	r.NoteLife(3, "a", true)
	write := r.one(Write)
	r.NoteLife(3, "a", false)
	r.NoteLife(3, "b", true)
	r.quiet("while a write is in flight")
	r.Done(write, &Outcome{OK: true}, r.now)
	if next := r.one(Write); !slices.Equal(next.Add, []string{"b"}) || !slices.Equal(next.Remove, []string{"a"}) {
		t.Errorf("then writes %+v", next)
	}
}

// A later update of an entity supersedes one that is being written.
func TestALaterUpdateSupersedesAWrite(t *testing.T) {
	for _, ok := range []bool{true, false} {
		r := newSetRig(t)
		r.NoteLife(3, "a", true)
		write := r.one(Write)
		if !r.wants("a") {
			t.Error("an id that is being written is forgotten")
		}
		r.NoteLife(3, "a", false)
		r.Done(write, &Outcome{OK: ok}, r.now)
		r.pass(Every)
		r.all()
		if r.wants("a") || r.Waiting() != 0 {
			t.Errorf("written %v: remembers one that has ended since, %d wait", ok, r.Waiting())
		}
	}
}

// A shard is read for each allocation, and again when an entity could not be started in its
// new shard, or a read failed.
func TestWhenAShardNeedsARead(t *testing.T) {
	r := newSetRig(t, "a")
	r.pass(time.Hour)
	r.quiet("without a reason")
	r.host(3, 2)
	r.read(3, "a")
	r.pass(RereadAfter)
	r.read(3, "a")
	r.drain()
	r.set.noteMoved(3, "a", false, r.now)
	r.pass(RereadAfter - 1)
	r.quiet("before an entity that could not be started is tried again")
	r.pass(Every)
	r.Done(r.one(Read), &Outcome{}, r.now)
	r.quiet("a failed read, in the same round")
	r.Inspect()
	r.quiet("a failed read, when another shard has started in the same round")
	r.pass(Every)
	r.one(Read)
	r.pass(Every)
	r.quiet("while a read is in flight")
}

// Without a lease, another node may be the home and have newer ids.
func TestNothingIsReadWithoutALease(t *testing.T) {
	r := newRig(t, Config{ShardOf: allInShard3})
	r.host(3, 1)
	r.lease = false
	r.quiet("without a lease")
	r.lease = true
	r.pass(Every)
	read := r.one(Read)
	r.lease = false
	r.finishRead(read, "a")
	if r.wants("a") {
		t.Error("a read is used that ended without a lease")
	}
	r.lease = true
	r.pass(Every)
	r.read(3, "a")
	if !r.wants("a") {
		t.Error("the read is not repeated")
	}
}

// The removal of an entity that lives in another shard now is written if there is room for the update.
// Otherwise the shard is read again later, which finds the entity once more.
func TestAMovedEntityIsRemovedWhenThereIsRoom(t *testing.T) {
	for _, room := range []int{0, 1} {
		r := newSetRig(t, "a")
		r.set.waiting = UpdatesMax - room
		r.set.noteMoved(3, "a", true, r.now)
		if n := r.Waiting() - (UpdatesMax - room); n != room || r.wants("a") {
			t.Errorf("room for %d: %d updates wait, the entity is wanted here %v", room, n, r.wants("a"))
		}
		r.set.waiting = 0
		r.pass(RereadAfter)
		rereads := 0
		for _, a := range r.all() {
			if a.Kind == Read {
				rereads++
			}
		}
		if rereads != 1-room {
			t.Errorf("room for %d: %d reads later", room, rereads)
		}
	}
}

// Ids that the store has lost are written again, as far as there is room.
func TestLostIDsAreWrittenAgain(t *testing.T) {
	for _, room := range []int{0, 1, 9} {
		r := newSetRig(t, "a", "b")
		r.set.waiting = UpdatesMax - room
		r.shards[3].stale = true
		r.pass(Every)
		r.read(3)
		if n := r.Waiting() - (UpdatesMax - room); n != min(room, 2) {
			t.Errorf("room for %d: %d written again", room, n)
		}
	}
}

// crashedNow returns the ids that are started in the next round.
func (r *rig) crashedNow() (ids []string) {
	r.pass(Every)
	r.beginRound(r.now)
	for _, e := range r.starts.again.entries {
		ids = append(ids, e.id)
	}
	r.starts.again.entries = nil
	return ids
}

// An entity that crashes before its first write is done is started again.
func TestAnEntityThatCrashesBeforeItIsWrittenIsRestarted(t *testing.T) {
	r := newSetRig(t)
	r.NoteCrash(3, "unknown")
	r.NoteLife(3, "a", true)
	r.NoteCrash(3, "a")
	if all := r.crashedNow(); !slices.Equal(all, []string{"a"}) {
		t.Errorf("crashed: %v", all)
	}
	r.one(Write)
	r.NoteCrash(3, "a")
	if all := r.crashedNow(); !slices.Equal(all, []string{"a"}) {
		t.Errorf("crashed while it is written: %v", all)
	}
}

// Updates without room are dropped, but not those of ids that wait already. A crashed entity
// is started again only if it is remembered: not one that passivated itself, even if that
// update was dropped.
func TestARememberedSetIsBounded(t *testing.T) {
	r := newRig(t, Config{ShardOf: allInShard3})
	r.host(2, 1)
	r.host(1, 1)
	for range 2 {
		if read := r.one(Read); read.Shard == 2 {
			r.finishRead(read, "a", "b")
		} else {
			r.finishRead(read)
		}
	}
	r.NoteLife(2, "b", false)
	r.one(Write)
	for _, id := range someIDs(UpdatesMax) {
		if !r.NoteLife(1, id, true) {
			t.Fatal("no room")
		}
	}
	if r.NoteLife(1, "one more", true) || !r.NoteLife(1, "entity-7", false) || r.Waiting() != UpdatesMax {
		t.Errorf("%d wait", r.Waiting())
	}
	if r.NoteLife(2, "a", false) {
		t.Error("there is room")
	}
	for _, id := range []string{"a", "b", "entity-7", "entity-8"} {
		r.NoteCrash(map[bool]strategy.ShardID{true: 2, false: 1}[len(id) == 1], id)
	}
	if all := r.crashedNow(); !slices.Equal(all, []string{"entity-8"}) || len(r.crashedNow()) != 0 {
		t.Errorf("%v must be started again, want entity-8", all)
	}
}

// A second read starts only new ids: neither those of running entities, nor of those that
// passivated themselves during the read.
func TestSecondReadStartsOnlyWhatIsNew(t *testing.T) {
	r := newRig(t, Config{ShardOf: allInShard3})
	r.host(3, 1)
	r.read(3, "a", "b")
	if got := r.drain(); !slices.Equal(got, []string{"a", "b"}) {
		t.Fatalf("the first read starts %q", got)
	}
	r.members.Nodes = append(r.members.Nodes, 2)
	r.pass(Every)
	r.NoteLife(3, "b", false)
	read := r.one(Read)
	r.writeAll()
	r.finishRead(read, "a", "b", "c")
	if got := r.drain(); !slices.Equal(got, []string{"c"}) {
		t.Errorf("the read after a node has joined starts %q, want c", got)
	}
	r.shards[3].stale = true
	r.pass(Every)
	r.Done(r.one(Read), &Outcome{}, r.now)
	r.pass(Every)
	r.one(Read)
}

// The last update of an entity counts, even if a shard is read meanwhile.
func TestTheLastUpdateCounts(t *testing.T) {
	for name, write := range map[string]bool{"an end during a read": true, "an end that waits to be written": false} {
		t.Run(name, func(t *testing.T) {
			r := newSetRig(t, "a")
			r.shards[3].stale = true
			r.pass(Every)
			read := r.one(Read)
			r.NoteLife(3, "a", false)
			if write {
				r.writeAll()
			}
			r.finishRead(read, "a")
			r.writeAll()
			if got := r.drain(); len(got) != 0 || len(r.shards[3].ids) != 0 {
				t.Errorf("%q is started, the set has %v", got, r.shards[3].ids)
			}
		})
	}
}

// An allocation does not inherit the ids of an earlier one, except updates that wait: other
// homes may have removed them since. Updates that wait are written, and their ids start again here.
func TestAnAllocationBeginsWithWhatTheStoreHas(t *testing.T) {
	r := newSetRig(t, "a", "b")
	r.NoteLife(3, "c", true)
	r.host(3, 0)
	r.writeAll()
	r.NoteLife(3, "d", true)
	r.host(3, 2)
	r.beginRound(r.now)
	if r.wants("a") || r.wants("b") || !r.wants("d") {
		t.Errorf("the set has %v", r.shards[3].ids)
	}
	r.read(3, "a")
	r.writeAll()
	if got := r.drain(); !slices.Equal(got, []string{"a", "d"}) {
		t.Errorf("starts %q", got)
	}
}

func TestTheIDsOfShardsThatLeftAreDropped(t *testing.T) {
	r := newSetRig(t, "a")
	r.host(3, 0)
	if r.all(); len(r.shards[3].ids) != 0 {
		t.Errorf("the ids of %d entities are held", len(r.shards[3].ids))
	}
}

// A removal is left to the shard's home: it may have started the entity again.
func TestOnlyTheHomeRemoves(t *testing.T) {
	r := newSetRig(t, "a")
	r.NoteLife(3, "a", false)
	r.NoteLife(3, "b", true)
	r.tokens[3] = noToken
	if a := r.one(Write); !slices.Equal(a.Add, []string{"b"}) || a.Remove != nil {
		t.Errorf("writes %+v", a)
	}
	if len(r.shards[3].ids) != 1 || r.Waiting() != 0 {
		t.Errorf("the set has %v, %d wait", r.shards[3].ids, r.Waiting())
	}
}

// Reads of several shards are in flight, but a bounded number.
func TestReadsAreBounded(t *testing.T) {
	c := New(Config{Shards: 3 * readsMax, ShardOf: allInShard3})
	r := newRig(t, Config{})
	for i := range strategy.ShardID(3 * readsMax) {
		r.host(i, 1)
	}
	node := *r.node
	c.Attach(&node, 1)
	r.Core = c
	if n := len(r.all()); n != readsMax {
		t.Errorf("%d reads are in flight, want %d", n, readsMax)
	}
	if at := c.Deadline(); at == clock.Never {
		t.Error("no further round comes")
	}
}
