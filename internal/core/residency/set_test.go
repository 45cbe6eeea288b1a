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
	r.NoteLife(3, "a", true)
	if r.Waiting() != 0 {
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

// TestAnIdThatTheStoreHasTwiceIsNew checks that a later read starts an id that it returns more than once, once.
func TestAnIdThatTheStoreHasTwiceIsNew(t *testing.T) {
	for _, ids := range [][]string{{"b"}, {"b", "b"}, {"a", "b", "a", "b"}} {
		r := newSetRig(t, "a")
		if start := r.set.addRead(3, ids); !slices.Equal(start, []string{"b"}) {
			t.Errorf("a read of %q starts %q, want the new id", ids, start)
		}
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

// Ids that the store has lost are written again, however many updates wait.
func TestLostIDsAreWrittenAgain(t *testing.T) {
	for _, room := range []int{0, 1, 9} {
		r := newSetRig(t, "a", "b")
		r.set.waiting = UpdatesMax - room
		r.shards[3].stale = true
		r.pass(Every)
		r.read(3)
		if n := r.set.waiting - (UpdatesMax - room); n != min(room, 2) || r.Waiting() != UpdatesMax-room+2 {
			t.Errorf("room for %d: %d are queued, %d wait in all", room, n, r.Waiting())
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

// Removals without room are dropped, but not those of ids that wait already. A crashed entity
// is started again only if it is remembered: not one that passivated itself, even if that
// update was dropped.
func TestARememberedSetIsBounded(t *testing.T) {
	r := newRig(t, Config{ShardOf: allInShard3, UpdatesMax: 10})
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
	for _, id := range someIDs(10) {
		r.NoteLife(1, id, true)
	}
	r.NoteLife(1, "entity-7", false)
	if r.Waiting() != 10 || r.Dropped() != 0 {
		t.Errorf("%d wait, %d are dropped", r.Waiting(), r.Dropped())
	}
	r.NoteLife(2, "a", false)
	if r.Waiting() != 10 || r.Dropped() != 1 {
		t.Errorf("%d wait, %d are dropped: there is room", r.Waiting(), r.Dropped())
	}
	for _, id := range []string{"a", "b", "entity-7", "entity-8"} {
		r.NoteCrash(map[bool]strategy.ShardID{true: 2, false: 1}[len(id) == 1], id)
	}
	if all := r.crashedNow(); !slices.Equal(all, []string{"entity-8"}) || len(r.crashedNow()) != 0 {
		t.Errorf("%v must be started again, want entity-8", all)
	}
}

// A read because a node has joined does not take the place of the second one: the writes of the
// former home may come after it (TestSeeds, seed 4004888).
func TestAReadForAJoinKeepsTheSecondOne(t *testing.T) {
	r := newRig(t, Config{ShardOf: allInShard3})
	r.host(3, 1)
	r.read(3, "a")
	r.drain()
	second := r.now.Add(RereadAfter)
	r.members.Nodes = append(r.members.Nodes, 2)
	r.pass(Every)
	r.read(3, "a")
	r.quiet("after the read for the join")
	r.now = second
	r.read(3, "a", "b")
	if got := r.drain(); !slices.Equal(got, []string{"b"}) {
		t.Errorf("the second read starts %q, want b", got)
	}
}

// newCrowdedRig returns a rig in which shards 1 and 3 are here and read, with a full queue of ten
// updates of shard 3, of which a write has taken none.
func newCrowdedRig(t *testing.T) *rig {
	r := newRig(t, Config{ShardOf: allInShard3, UpdatesMax: 10})
	r.host(1, 1)
	r.host(3, 1)
	r.read(1)
	r.read(3)
	for _, id := range someIDs(10) {
		r.NoteLife(3, id, true)
	}
	return r
}

// Entities that begin while the queue is full are written later, once, unless they have
// passivated themselves by then.
func TestEntitiesBeyondTheQueueAreWrittenLater(t *testing.T) {
	r := newCrowdedRig(t)
	for _, id := range []string{"d", "c", "b", "a"} {
		r.NoteLife(1, id, true)
	}
	for i := range 20 {
		r.NoteLife(3, fmt.Sprint("late-", i), true)
	}
	r.NoteLife(1, "b", false)
	r.NoteCrash(1, "c")
	if r.Waiting() != 10+3+20 || r.Dropped() != 1 {
		t.Errorf("%d wait, %d are dropped", r.Waiting(), r.Dropped())
	}
	if got := r.crashedNow(); !slices.Equal(got, []string{"c"}) {
		t.Errorf("%q are started again, want c", got)
	}
	written := map[strategy.ShardID][]string{}
	for _, a := range r.writeAll() {
		if len(a.Remove) > 0 {
			t.Errorf("%q are removed", a.Remove)
		}
		written[a.Shard] = append(written[a.Shard], a.Add...)
	}
	if !slices.Equal(written[1], []string{"a", "c", "d"}) || len(written[3]) != 30 {
		t.Errorf("writes %q of shard 1, and %d of shard 3", written[1], len(written[3]))
	}
	if r.Waiting() != 0 || len(r.set.toQueue) != 0 {
		t.Errorf("%d wait, %d shards are listed", r.Waiting(), len(r.set.toQueue))
	}
}

// The ids of a shard that leaves are written, too, unless too many wait.
func TestDelayedIDsOfAShardThatLeaves(t *testing.T) {
	for _, more := range []int{0, 1} {
		r := newCrowdedRig(t)
		for i := range 10*delayedMost + more {
			r.NoteLife(1, fmt.Sprint(i), true)
		}
		r.host(1, 0)
		first := r.one(Write)
		want := 10 * delayedMost * (1 - more)
		if wait := r.Waiting(); wait != want || r.Dropped() != uint64(101*more) {
			t.Errorf("%d more: %d wait, want %d; %d are dropped", more, wait, want, r.Dropped())
		}
		r.Done(first, &Outcome{OK: true}, r.now)
		written := 0
		for _, a := range r.writeAll() {
			if a.Shard == 1 {
				written += len(a.Add)
			}
		}
		if written != want || len(r.shards[1].ids) != 0 {
			t.Errorf("%d more: %d are written, %d are known", more, written, len(r.shards[1].ids))
		}
	}
}

// The ids of an allocation that is followed by another one here are written: its entities start
// again.
func TestDelayedIDsOutliveTheirAllocation(t *testing.T) {
	r := newCrowdedRig(t)
	r.NoteLife(1, "a", true)
	r.host(1, 2)
	r.read(1)
	written := false
	for _, a := range r.writeAll() {
		written = written || a.Shard == 1 && slices.Equal(a.Add, []string{"a"})
	}
	if !written || r.Dropped() != 0 {
		t.Errorf("written: %v, %d are dropped", written, r.Dropped())
	}
}

// Entities that begin and passivate themselves while the store is down leave nothing behind.
func TestShortLivesBesideAFullQueue(t *testing.T) {
	r := newCrowdedRig(t)
	for i := range 100 {
		id := fmt.Sprint(i)
		r.NoteLife(1, id, true)
		r.NoteLife(1, id, false)
	}
	if len(r.shards[1].ids) != 0 || len(r.set.toQueue) > 1 || r.Waiting() != 10 || r.Dropped() != 100 {
		t.Errorf("%d ids, %d shards are listed, %d wait, %d are dropped", len(r.shards[1].ids), len(r.set.toQueue), r.Waiting(), r.Dropped())
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
