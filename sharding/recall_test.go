package sharding

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/delivery/endpoint"
	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/internal/residency"
)

// checkStore compares what the store keeps with who lives, and where.
func (d *dreams) checkStore(t *testing.T) {
	t.Helper()
	live, kept := map[string]bool{}, map[string]bool{}
	for i, r := range d.regions {
		if d.nodes[len(d.nodes)-len(d.regions)+i].dead.Load() {
			continue
		}
		for _, s := range r.Local() {
			for _, id := range s.IDs {
				live[id] = true
			}
		}
	}
	d.diary.mu.Lock()
	defer d.diary.mu.Unlock()
	for shard, ids := range d.diary.ids {
		for id := range ids {
			kept[id] = true
			if at := d.regions[0].ShardOf(id); at != shard {
				t.Errorf("%s is kept under shard %d, and is of %d", id, shard, at)
			}
		}
	}
	if !maps.Equal(live, kept) {
		t.Errorf("%d live, %d are kept", len(live), len(kept))
	}
}

// A shard moves while its former home still writes what began and ended there: a moment
// later its new home runs who is remembered, and remembers who runs.
func TestWritesUnderWayDuringAMoveAreNotLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDreams(t, 2, 0)
		old, fresh := someIDs(40)[:20], someIDs(40)[20:]
		d.ask(t, old, "hello")
		pass(2 * time.Second)
		d.diary.mu.Lock()
		d.diary.slowWrites = 300 * time.Millisecond
		d.diary.mu.Unlock()
		d.ask(t, fresh, "hello")
		d.ask(t, old, "sleep")
		if err := d.nodes[0].s.Drain(within(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
		pass(residency.RereadAfter + 5*time.Second)
		if n := d.alive(d.regions[1]); n < len(fresh) {
			t.Errorf("%d live, and %d began", n, len(fresh))
		}
		d.checkStore(t)
	})
}

// Those that messages have started meanwhile take no turn, and are not counted.
func TestRecallPassesOverWhoLives(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDreams(t, 1, 1) // one per second
		ids := someIDs(30)
		d.ask(t, ids, "hello")
		pass(2 * time.Second)
		d.kill(d.nodes[0])
		d.install(d.join(t))
		d.regions = d.regions[1:]
		d.ask(t, ids[:25], "hello")
		pass(20 * time.Second)
		if st := d.regions[0].Stats(); st.Entities != 30 || st.Remembered.Recalled > 7 {
			t.Errorf("%d live, %d were recalled", st.Entities, st.Remembered.Recalled)
		}
	})
}

// The parts of a shard are alike whatever the number of shards.
func TestAShardsIDsAreSplitOverAllParts(t *testing.T) {
	for _, shards := range []uint32{1, 5, 100, 256, 1000} {
		e := endpoint.Extractor{Shards: shards}
		var parts [placement.RememberedParts]int
		for i, n := 0, 0; n < 500; i++ {
			if id := fmt.Sprint("entity-", i); e.ShardOf(id) == ShardID(shards/2) {
				parts[placement.RememberedPart(id)]++
				n++
			}
		}
		if slices.Min(parts[:]) < 60 || slices.Max(parts[:]) > 140 {
			t.Errorf("of %d shards, 500 ids of one: %v", shards, parts)
		}
	}
}

// A store that cannot remember is said to be one.
func TestAStoreThatDoesNotRememberIsNamed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		var out bytes.Buffer
		n := c.add("n")
		n.log = slog.New(slog.NewTextHandler(&out, nil))
		if _, err := Register(n.reg, Type[string, string]{
			Name: "sleeper", Remember: true, New: func(string) Entity[string, string] { return &sleeper{} },
		}); err != nil {
			t.Fatal(err)
		}
		n.start()
		if !strings.Contains(out.String(), "no Rememberer") {
			t.Errorf("%q", out.String())
		}
	})
}

// Who ends by its own wish while it waits for its turn is not started; and a home that has
// lost its lease writes nothing again of what the next one takes away.
func TestWhoEndsBeforeItsTurnIsNotRecalled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDreams(t, 1, 1) // one per second
		ids := someIDs(40)
		d.ask(t, ids, "hello")
		pass(2 * time.Second)
		d.kill(d.nodes[0])
		d.install(d.join(t))
		d.regions = d.regions[1:]
		pass(time.Second)
		d.ask(t, ids, "sleep")
		pass(time.Minute)
		if n := d.alive(d.regions...); n != 0 {
			t.Errorf("%d live, and all have wished to end", n)
		}
	})
}

// A shard's entities do not wait for a tick, and a store in trouble is not asked for each
// of them.
func TestRecallBeginsAtOnceAndTroubleIsNotHammered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDreams(t, 2, 10_000)
		d.ask(t, someIDs(40), "hello")
		pass(2*time.Second + 10*time.Millisecond)
		d.kill(d.nodes[1])
		d.install(d.nodes[0])
		pass(residency.CheckEvery / 5)
		if n := d.alive(d.regions[0]); n != 40 {
			t.Errorf("%d of 40 live at once", n)
		}
		pass(2 * residency.RereadAfter)
		d.diary.set(true, 0)
		for i := range 50 {
			d.ask(t, []string{fmt.Sprint("new", i)}, "hello")
			pass(10 * time.Millisecond)
		}
		if n := d.regions[0].Stats().Remembered.Failed; n == 0 || n > 2*8 {
			t.Errorf("%d writes failed in half a second", n)
		}
	})
}

// A read that fails is made again, also the one that a node's coming asks for.
func TestAReadThatFailsIsMadeAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDreams(t, 1, 0)
		d.ask(t, someIDs(10), "hello")
		pass(2 * residency.RereadAfter)
		late := "late"
		shard := d.regions[0].ShardOf(late)
		d.diary.mu.Lock()
		if d.diary.ids[shard] == nil {
			d.diary.ids[shard] = map[string]bool{}
		}
		d.diary.ids[shard][late] = true // from the disk of the node that comes
		d.diary.mu.Unlock()
		d.diary.set(true, 0)
		n := d.join(t)
		d.install(d.nodes[0], n)
		pass(2 * time.Second)
		d.diary.set(false, 0)
		pass(time.Second)
		if n := d.alive(d.regions...); n != 11 {
			t.Errorf("%d of 11 live", n)
		}
	})
}
